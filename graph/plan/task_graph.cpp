#include "graph/plan/task_graph.h"

#include "graph/plan/blocks.h"
#include "support/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace kumiko::graph {

namespace {

std::string label_of_task(const std::vector<PlanTask> &tasks, size_t n) {
    return tasks[n].name.empty() ? fmt::format("task {}", n) : fmt::format("task \"{}\"", tasks[n].name);
}

std::string label_of_buffer(const std::vector<PlanBuffer> &buffers, size_t n) {
    return buffers[n].name.empty() ? fmt::format("buffer {}", n) : fmt::format("buffer \"{}\"", buffers[n].name);
}

void sort_unique(std::vector<int> &v) {
    std::sort(v.begin(), v.end());
    v.erase(std::unique(v.begin(), v.end()), v.end());
}

// Tasks that each task depends on directly.
std::vector<std::vector<int>> find_dependences(const std::vector<PlanTask> &tasks,
                                               const std::vector<PlanBuffer> &buffers) {
    const auto check_index = [&](int index, size_t count, size_t task, const char *what) {
        if (index < 0 || size_t(index) >= count)
            throw InternalError(fmt::format("{} {} {}; indices are 0 to {}", label_of_task(tasks, task), what, index,
                                            int64_t(count) - 1));
    };
    std::vector<std::vector<int>> writers(buffers.size()), before(tasks.size());
    for (size_t t = 0; t < tasks.size(); t++)
        for (int b : tasks[t].writes) {
            check_index(b, buffers.size(), t, "writes buffer");
            writers[b].push_back(int(t));
        }
    for (size_t t = 0; t < tasks.size(); t++) {
        for (int b : tasks[t].reads) {
            check_index(b, buffers.size(), t, "reads buffer");
            if (writers[b].empty() && !buffers[b].input)
                throw InternalError(fmt::format("{} reads {}, which no task writes and which is not an input",
                                                label_of_task(tasks, t), label_of_buffer(buffers, b)));
            for (int w : writers[b]) {
                if (w == int(t))
                    throw InternalError(fmt::format("{} reads and writes {}; a result in place is a buffer inside of "
                                                    "the operand",
                                                    label_of_task(tasks, t), label_of_buffer(buffers, b)));
                before[t].push_back(w);
            }
        }
        for (int other : tasks[t].after) {
            check_index(other, tasks.size(), t, "runs after task");
            before[t].push_back(other);
        }
        sort_unique(before[t]);
    }
    return before;
}

// Throws if tasks form a cycle. All `waiting` ones are in cycles or depend on tasks in cycles.
[[noreturn]] void report_cycle(const std::vector<PlanTask> &tasks, const std::vector<std::vector<int>> &before,
                               const std::vector<int> &waiting) {
    int at = 0;
    while (waiting[at] == 0) at++;
    std::vector<int> path;
    for (; std::find(path.begin(), path.end(), at) == path.end();) {
        path.push_back(at);
        at = *std::find_if(before[at].begin(), before[at].end(), [&](int b) { return waiting[b] > 0; });
    }
    std::string text = label_of_task(tasks, at);
    for (size_t n = path.size(); n-- > 0 && path[n] != at;) text += ", " + label_of_task(tasks, path[n]);
    throw InternalError("each of these tasks runs after the one before it, and the first after the last: " + text);
}

} // namespace

std::vector<ArenaBuffer> arena_buffers(const std::vector<PlanTask> &tasks, const std::vector<PlanBuffer> &buffers,
                                       const std::vector<int> &order) {
    std::vector<ArenaBuffer> result;
    for (const PlanBuffer &b : buffers)
        result.push_back({b.name, b.bytes, 0, 0, b.alignment, b.inside, b.inside_offset});
    make_blocks(result); // checks them
    std::vector<char> used(buffers.size(), false), external(buffers.size(), false);
    // What is inside of a buffer keeps that buffer live.
    const auto use = [&](int b, int64_t step) {
        for (; b >= 0; b = buffers[b].inside) {
            result[b].first = used[b] ? std::min(result[b].first, step) : step;
            result[b].last = used[b] ? std::max(result[b].last, step) : step;
            used[b] = true;
        }
    };
    for (size_t step = 0; step < order.size(); step++)
        for (const auto *list : {&tasks[order[step]].reads, &tasks[order[step]].writes})
            for (int b : *list) use(b, int64_t(step));
    const std::vector<char> used_by_tasks = used;
    for (size_t n = 0; n < buffers.size(); n++) {
        int outermost = int(n);
        while (buffers[outermost].inside >= 0) outermost = buffers[outermost].inside;
        const bool throughout = !used_by_tasks[outermost] && (buffers[n].input || buffers[n].output);
        if (buffers[n].input || throughout) use(int(n), 0);
        if (buffers[n].output || throughout) use(int(n), std::max<int64_t>(int64_t(order.size()) - 1, 0));
        external[n] = buffers[outermost].external;
        if (buffers[n].external && !external[n])
            throw InternalError(fmt::format("{} is external, but inside of {}, which is not",
                                            label_of_buffer(buffers, n), label_of_buffer(buffers, outermost)));
    }
    for (size_t n = 0; n < buffers.size(); n++)
        if (external[n] || !used[n]) {
            result[n].bytes = result[n].inside_offset = 0;
            result[n].inside = -1;
        }
    std::vector<int64_t> step_of(tasks.size(), 0);
    for (size_t step = 0; step < order.size(); step++) step_of[order[step]] = int64_t(step);
    for (size_t t = 0; t < tasks.size(); t++)
        result.push_back({"workspace of " + label_of_task(tasks, t), tasks[t].workspace, step_of[t], step_of[t]});
    return result;
}

TaskGraph make_task_graph(const std::vector<PlanTask> &tasks, const std::vector<PlanBuffer> &buffers) {
    TaskGraph g;
    g.before = find_dependences(tasks, buffers);
    g.after.resize(tasks.size());
    for (size_t t = 0; t < tasks.size(); t++)
        for (int b : g.before[t]) g.after[b].push_back(int(t));
    std::vector<int> waiting(tasks.size()), ready;
    for (size_t t = 0; t < tasks.size(); t++)
        if ((waiting[t] = int(g.before[t].size())) == 0) ready.push_back(int(t));
    for (size_t n = 0; n < ready.size(); n++)
        for (int a : g.after[ready[n]])
            if (--waiting[a] == 0) ready.push_back(a);
    if (ready.size() < tasks.size()) report_cycle(tasks, g.before, waiting);

    std::vector<int> listed(tasks.size());
    std::iota(listed.begin(), listed.end(), 0);
    const ArenaBlocks all = make_blocks(arena_buffers(tasks, buffers, listed));
    g.uses.resize(tasks.size());
    g.users.resize(all.blocks.size());
    g.live_in.resize(all.blocks.size(), false);
    g.live_out.resize(all.blocks.size(), false);
    for (const ArenaBlock &b : all.blocks) g.bytes.push_back(b.bytes);
    for (size_t n = 0; n < buffers.size(); n++) {
        if (all.block_of[n] < 0) continue;
        g.live_in[all.block_of[n]] |= buffers[n].input;
        g.live_out[all.block_of[n]] |= buffers[n].output;
    }
    for (size_t t = 0; t < tasks.size(); t++) {
        std::vector<int> &uses = g.uses[t];
        uses.push_back(all.block_of[buffers.size() + t]);
        for (const auto *list : {&tasks[t].reads, &tasks[t].writes})
            for (int b : *list) uses.push_back(all.block_of[b]);
        sort_unique(uses);
        uses.erase(std::remove(uses.begin(), uses.end(), -1), uses.end());
        for (int b : uses) g.users[b].push_back(int(t));
    }
    for (size_t b = 0; b < g.bytes.size(); b++)
        if (g.users[b].empty()) g.live_in[b] = g.live_out[b] = true;
    return g;
}

TaskGraph TaskGraph::reversed() const {
    TaskGraph r = *this;
    std::swap(r.before, r.after);
    std::swap(r.live_in, r.live_out);
    return r;
}

std::vector<int64_t> TaskGraph::profile(const std::vector<int> &order) const {
    std::vector<int> first(bytes.size(), size()), last(bytes.size(), -1);
    for (int step = 0; step < size(); step++)
        for (int b : uses[order[step]]) {
            first[b] = std::min(first[b], step);
            last[b] = step;
        }
    std::vector<int64_t> live(size() + 1, 0);
    for (size_t b = 0; b < bytes.size(); b++) {
        if (live_in[b]) first[b] = 0;
        if (live_out[b]) last[b] = size() - 1;
        live[first[b]] += bytes[b];
        live[last[b] + 1] -= bytes[b];
    }
    std::partial_sum(live.begin(), live.end(), live.begin());
    live.pop_back();
    return live;
}

void check_order(const std::vector<PlanTask> &tasks, const std::vector<PlanBuffer> &buffers,
                 const std::vector<int> &order) {
    std::vector<char> done(tasks.size(), false);
    const std::vector<std::vector<int>> before = find_dependences(tasks, buffers);
    for (int t : order) {
        if (t < 0 || size_t(t) >= tasks.size())
            throw InternalError(fmt::format("the order has task {}; there are {} tasks", t, tasks.size()));
        if (done[t]) throw InternalError(fmt::format("the order repeats {}", label_of_task(tasks, t)));
        for (int b : before[t])
            if (!done[b])
                throw InternalError(fmt::format("{} runs before {}, on which it depends", label_of_task(tasks, t),
                                                label_of_task(tasks, b)));
        done[t] = true;
    }
    const auto missing = std::find(done.begin(), done.end(), false);
    if (missing != done.end())
        throw InternalError(fmt::format("the order lacks {}", label_of_task(tasks, missing - done.begin())));
}

} // namespace kumiko::graph
