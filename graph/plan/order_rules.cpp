// Orders by rules, without a search.
#include "graph/plan/task_graph.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <set>
#include <tuple>

namespace kumiko::graph {

namespace {

// Calls `next` for one ready task after another: `next` returns it from those that it was told by
// `add` and did not yet return.
std::vector<int> order_ready_tasks(const TaskGraph &g, const std::function<void(int)> &add,
                                   const std::function<int()> &next) {
    std::vector<int> waiting, order;
    for (int t = 0; t < g.size(); t++) waiting.push_back(int(g.before[t].size()));
    // Backwards, so that a stack has the first on top.
    for (int t = g.size(); t-- > 0;)
        if (waiting[t] == 0) add(t);
    for (int n = 0; n < g.size(); n++) {
        const int t = next();
        order.push_back(t);
        for (size_t m = g.after[t].size(); m-- > 0;)
            if (--waiting[g.after[t][m]] == 0) add(g.after[t][m]);
    }
    return order;
}

// Live bytes that each task would add if it ran next.
class Growth {
public:
    // `changed` is called before and after the growth of a task changes.
    Growth(const TaskGraph &g, std::function<void(int, bool)> changed)
        : g_(g), changed_(std::move(changed)), live_(g.live_in), left_(g.bytes.size()), done_(g.size(), false),
          growth_(g.size(), 0) {
        for (size_t b = 0; b < g.bytes.size(); b++) left_[b] = int(g.users[b].size()) + (g.live_out[b] ? 1 : 0);
        for (int t = 0; t < g.size(); t++)
            for (int b : g.uses[t]) growth_[t] += (live_[b] ? 0 : g.bytes[b]) - (left_[b] == 1 ? g.bytes[b] : 0);
    }
    int64_t of(int task) const { return growth_[task]; }
    void run(int task) {
        done_[task] = true;
        for (int b : g_.uses[task]) {
            if (!live_[b])
                for (int u : g_.users[b]) lower(u, g_.bytes[b]);
            live_[b] = true;
            if (--left_[b] == 1 && !g_.live_out[b])
                for (int u : g_.users[b]) lower(u, g_.bytes[b]);
        }
    }

private:
    void lower(int task, int64_t bytes) {
        if (done_[task]) return;
        changed_(task, false);
        growth_[task] -= bytes;
        changed_(task, true);
    }
    const TaskGraph &g_;
    std::function<void(int, bool)> changed_;
    std::vector<char> live_;
    std::vector<int> left_; // uses to come, of each block
    std::vector<char> done_;
    std::vector<int64_t> growth_;
};

} // namespace

std::vector<int> order_as_given(const TaskGraph &g) {
    std::priority_queue<int, std::vector<int>, std::greater<>> ready;
    return order_ready_tasks(
        g, [&](int t) { ready.push(t); },
        [&] {
            const int t = ready.top();
            ready.pop();
            return t;
        });
}

std::vector<int> order_by_growth(const TaskGraph &g, bool newest) {
    std::vector<int> rank(g.size(), -1); // of ready tasks: which of equal ones comes first
    std::set<std::tuple<int64_t, int, int>> ready;
    int added = 0;
    const Growth *state = nullptr;
    const auto key = [&](int t) { return std::make_tuple(state->of(t), rank[t], t); };
    Growth growth(g, [&](int t, bool after) {
        if (rank[t] == -1) return;
        if (after)
            ready.insert(key(t));
        else
            ready.erase(key(t));
    });
    state = &growth;
    return order_ready_tasks(
        g,
        [&](int t) {
            rank[t] = newest ? g.size() - added++ : t;
            ready.insert(key(t));
        },
        [&] {
            const int t = std::get<2>(*ready.begin());
            ready.erase(ready.begin());
            growth.run(t);
            return t;
        });
}

std::vector<int> order_depth_first(const TaskGraph &g) {
    std::vector<int> ready;
    return order_ready_tasks(
        g, [&](int t) { ready.push_back(t); },
        [&] {
            const int t = ready.back();
            ready.pop_back();
            return t;
        });
}

std::vector<int> order_post(const TaskGraph &g) {
    // Estimates as if the graph were a tree: bytes that each task leaves for its consumers, and the
    // peak of the part of the graph that ends in it.
    std::vector<double> leaves(g.size(), 0), peak(g.size(), 0);
    std::vector<char> produced = g.live_in;
    std::vector<std::vector<int>> producers = g.before;
    for (int t : order_as_given(g)) {
        std::sort(producers[t].begin(), producers[t].end(), [&](int a, int b) {
            return std::make_tuple(leaves[a] - peak[a], a) < std::make_tuple(leaves[b] - peak[b], b);
        });
        double held = 0, all = 0;
        for (int p : producers[t]) {
            peak[t] = std::max(peak[t], held + peak[p]);
            held += leaves[p];
        }
        for (int b : g.uses[t]) {
            all += double(g.bytes[b]);
            // The first user produces a block, which stays if another one follows.
            if (!produced[b] && (g.users[b].size() > 1 || g.live_out[b])) leaves[t] += double(g.bytes[b]);
            produced[b] = true;
        }
        peak[t] = std::max(peak[t], all);
    }
    std::vector<int> order, path;
    std::vector<size_t> visited(g.size(), 0); // producers of each task
    std::vector<char> begun(g.size(), false);
    for (int last = 0; last < g.size(); last++) {
        if (!g.after[last].empty()) continue;
        path = {last};
        begun[last] = true;
        while (!path.empty()) {
            const int t = path.back();
            if (visited[t] == producers[t].size()) {
                order.push_back(t);
                path.pop_back();
                continue;
            }
            const int p = producers[t][visited[t]++];
            if (!begun[p]) path.push_back(p);
            begun[p] = true;
        }
    }
    return order;
}

} // namespace kumiko::graph
