#include "graph/build/place.h"

#include "graph/build/check_program.h"

#include <algorithm>
#include <map>
#include <set>

namespace kumiko::graph {

namespace {

// Tasks for the steps of lists, one after another. A step with lists has a task before them and one
// after them.
class Linear {
public:
    explicit Linear(const std::vector<int64_t> &workspaces) : workspaces_(workspaces) {}

    // Returns the buffers that the steps use.
    std::set<int> add(const std::vector<Step> &steps, const std::vector<PlanTask> &tasks) {
        std::set<int> used;
        for (size_t n = 0; n < steps.size(); n++) {
            const std::set<int> more = steps[n].lists.empty() ? add(steps[n], tasks[n]) : add_lists(steps[n]);
            used.insert(more.begin(), more.end());
        }
        return used;
    }

    std::vector<PlanTask> tasks;
    std::map<const Step *, size_t> task_of;

private:
    std::set<int> add(const Step &step, PlanTask task) {
        const bool call = step.kind == Step::Kind::Call && !workspaces_.empty();
        task.workspace = call ? workspaces_.at(step.kernel) : 0;
        if (step.kind == Step::Kind::Select) task.workspace = step.bytes;
        task_of[&step] = tasks.size();
        std::set<int> used(task.reads.begin(), task.reads.end());
        used.insert(task.writes.begin(), task.writes.end());
        tasks.push_back(std::move(task));
        return used;
    }

    std::set<int> add_lists(const Step &step) {
        const size_t begin = tasks.size();
        tasks.emplace_back();
        std::set<int> used, control;
        Step copy;
        copy.arguments = step.arguments, copy.loop = step.loop;
        for_each_location(copy, [&](Location &l) {
            if (l.kind == Location::Kind::Arena) control.insert(int(l.index));
        });
        for (const StepList &list : step.lists) {
            const std::set<int> more = add(list.steps, list.tasks);
            used.insert(more.begin(), more.end());
        }
        // Iterations follow one another, so what comes from outside stays during all of them.
        std::set<int> whole = control;
        std::erase_if(used, [&](int b) { return b >= step.own_begin && b < step.own_end; });
        if (step.kind == Step::Kind::Loop) whole.insert(used.begin(), used.end());
        tasks[begin].reads.assign(whole.begin(), whole.end());
        tasks.emplace_back();
        if (step.kind == Step::Kind::Loop) tasks.back().reads = tasks[begin].reads;
        for (const int b : control) {
            if (b < step.own_begin || b >= step.own_end) used.insert(b);
        }
        return used;
    }

    const std::vector<int64_t> &workspaces_;
};

std::vector<int> first_numbers(size_t count) {
    std::vector<int> order(count);
    for (size_t n = 0; n < count; n++) order[n] = int(n);
    return order;
}

} // namespace

int64_t peak_of(const Step &step, const std::vector<PlanBuffer> &buffers) {
    const std::vector<int64_t> none;
    Linear linear(none);
    for (const StepList &list : step.lists) linear.add(list.steps, list.tasks);
    std::vector<int64_t> change(linear.tasks.size() + 1, 0);
    const std::vector<ArenaBuffer> all = arena_buffers(linear.tasks, buffers, first_numbers(linear.tasks.size()));
    for (int b = step.own_begin; b < step.own_end; b++) {
        const ArenaBuffer &buffer = all[size_t(b)];
        if (buffer.bytes == 0) continue;
        change[size_t(buffer.first)] += buffer.bytes;
        change[size_t(buffer.last) + 1] -= buffer.bytes;
    }
    int64_t live = 0, peak = 0;
    for (const int64_t c : change) peak = std::max(peak, live += c);
    return peak;
}

ProgramArena place(Program &program, const std::vector<int64_t> &workspaces) {
    Linear linear(workspaces);
    linear.add(program.steps, program.tasks);
    ProgramArena blocks;
    blocks.buffers = arena_buffers(linear.tasks, program.buffers, first_numbers(linear.tasks.size()));
    const ArenaPlan &plan = blocks.plan = plan_arena(blocks.buffers);
    program.arena_bytes = plan.bytes, program.arena_bound = plan.bound;
    for_each_step(program.steps, [&](Step &step) {
        for_each_location(step, [&](Location &l) {
            if (l.kind == Location::Kind::Arena) l.offset = plan.offsets[l.index];
        });
        const auto task = linear.task_of.find(&step);
        if (task == linear.task_of.end()) return;
        const bool has_workspace = linear.tasks[task->second].workspace > 0;
        const size_t block = program.buffers.size() + task->second;
        step.workspace = has_workspace ? plan.offsets[block] : -1;
        if (has_workspace) blocks.workspaces[&step] = block;
    });
    check_program(program, workspaces);
    return blocks;
}

} // namespace kumiko::graph
