// Improves an order by exact search in windows.
#include "graph/plan/task_graph.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace kumiko::graph {

namespace {

constexpr int window = 10; // tasks

// The best order of consecutive tasks, by dynamic programming over sets of them: after a set of
// tasks, the same blocks are live in whatever order they ran.
class WindowSearch {
public:
    WindowSearch(const TaskGraph &g, std::vector<int> &order)
        : g_(g), order_(order), position_(g.size()), live_(g.profile(order)), local_block_(g.bytes.size(), -1) {
        for (int k = 0; k < g.size(); k++) position_[order[k]] = k;
        find_peak();
    }

    // Replaces tasks begin, …, end - 1 of the order, at most `window`, by the permutation with the
    // fewest steps at the peak of the whole order, and of those with the lowest sum of live bytes.
    // No step exceeds the peak. Returns whether the new permutation is better.
    //
    // Repeated calls end, because the peak, the steps at it, and the sum of all live bytes fall in
    // lexicographic order.
    bool improve(int begin, int end) {
        collect(begin, end);
        const unsigned all = (1u << (end - begin)) - 1;
        std::vector<State> states(size_t(all) + 1);
        State &first = states[0];
        first.at_peak = 0;
        for (const Use &b : blocks_)
            if (b.before) first.live += b.bytes;
        // The blocks that no task of the window uses.
        first.live += live_[begin] - after(first, 0, 0).during;
        State given = first;
        for (int k = 0; k < end - begin; k++) given = after(given, (1u << k) - 1, k);
        for (unsigned set = 0; set < all; set++) {
            if (states[set].at_peak > given.at_peak) continue;
            for (int t = 0; t < end - begin; t++) {
                if ((set >> t & 1) != 0 || (before_[t] & ~set) != 0) continue;
                steps++;
                const State next = after(states[set], set, t);
                State &best = states[set | 1u << t];
                if (next.during <= peak_ && next.is_better_than(best)) best = next;
            }
        }
        if (!states[all].is_better_than(given)) return false;
        const std::vector<int> tasks(order_.begin() + begin, order_.begin() + end);
        int k = end;
        for (unsigned set = all; set != 0; set &= ~(1u << states[set].last)) {
            k--;
            order_[k] = tasks[states[set].last];
            live_[k] = states[set].during;
            position_[order_[k]] = k;
        }
        if (given.at_peak > 0) find_peak();
        return true;
    }

    int64_t steps = 0;

private:
    struct Use {
        int64_t bytes = 0;
        unsigned users = 0;                 // tasks of the window
        bool before = false, after = false; // is live before the window, after it
    };

    // A set of tasks in its best order.
    struct State {
        int at_peak = std::numeric_limits<int>::max(); // steps
        double sum = 0;                                // of the live bytes of each step
        int64_t during = 0, live = 0;                  // bytes in the last step, and after it
        int last = -1;                                 // task
        bool is_better_than(const State &o) const { return std::tie(at_peak, sum) < std::tie(o.at_peak, o.sum); }
    };

    // Finds what the tasks of the window depend on and use.
    void collect(int begin, int end) {
        blocks_.clear();
        for (int k = 0; k < end - begin; k++) {
            const int t = order_[begin + k];
            before_[k] = 0;
            uses_[k].clear();
            for (int b : g_.before[t])
                if (position_[b] >= begin) before_[k] |= 1u << (position_[b] - begin);
            for (int b : g_.uses[t]) {
                if (local_block_[b] < 0) {
                    local_block_[b] = int(blocks_.size());
                    blocks_.push_back({g_.bytes[b], 0, g_.live_in[b] != 0, g_.live_out[b] != 0});
                    for (int u : g_.users[b]) {
                        blocks_.back().before |= position_[u] < begin;
                        blocks_.back().after |= position_[u] >= end;
                    }
                    steps += int64_t(g_.users[b].size());
                }
                uses_[k].push_back(local_block_[b]);
                blocks_[local_block_[b]].users |= 1u << k;
            }
        }
        for (int k = begin; k < end; k++)
            for (int b : g_.uses[order_[k]]) local_block_[b] = -1;
    }

    // The state when task t runs after the set of tasks.
    State after(const State &s, unsigned set, int t) const {
        int64_t added = 0, freed = 0;
        for (int n : uses_[t]) {
            const Use &b = blocks_[n];
            if (!b.before && (b.users & set) == 0) added += b.bytes;
            if (!b.after && (b.users & ~(set | 1u << t)) == 0) freed += b.bytes;
        }
        const int64_t during = s.live + added;
        return {s.at_peak + (during >= peak_ ? 1 : 0), s.sum + double(during), during, during - freed, t};
    }

    void find_peak() { peak_ = *std::max_element(live_.begin(), live_.end()); }

    const TaskGraph &g_;
    std::vector<int> &order_;
    std::vector<int> position_;    // of each task in the order
    std::vector<int64_t> live_;    // bytes in each step
    int64_t peak_ = 0;             // the most of them
    std::vector<int> local_block_; // index in blocks_ of each block, or -1
    std::vector<Use> blocks_;
    std::vector<int> uses_[window];
    unsigned before_[window] = {};
};

} // namespace

int64_t improve_windows(const TaskGraph &g, std::vector<int> &order, int64_t steps) {
    if (order.empty()) return 0;
    WindowSearch search(g, order);
    for (bool better = true; better;) {
        better = false;
        // Windows overlap by half.
        for (int begin = 0; begin < g.size() && search.steps < steps; begin += window / 2)
            better |= search.improve(begin, std::min(begin + window, g.size()));
    }
    return search.steps;
}

} // namespace kumiko::graph
