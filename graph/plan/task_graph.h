// Tasks with their dependences and the blocks that they keep live. Internal to graph/plan.
#pragma once

#include "graph/plan/order.h"

namespace kumiko::graph {

struct TaskGraph {
    std::vector<std::vector<int>> before, after; // tasks that run before and after each, directly
    std::vector<std::vector<int>> uses;          // blocks of each task, its workspace included
    std::vector<std::vector<int>> users;         // tasks of each block
    std::vector<int64_t> bytes;                  // of each block, as in ArenaBlock
    std::vector<char> live_in, live_out;         // whether each block is live at the ends

    int size() const { return int(uses.size()); }
    // Reversed orders of the reversed graph have the same peaks.
    TaskGraph reversed() const;
    // Live bytes in each step of an order.
    std::vector<int64_t> profile(const std::vector<int> &order) const;
};

TaskGraph make_task_graph(const std::vector<PlanTask> &tasks, const std::vector<PlanBuffer> &buffers);

// Each order runs all tasks, and each task after those that it depends on.

// The next task is the first ready one.
std::vector<int> order_as_given(const TaskGraph &g);
// The next task is the ready one that adds the fewest live bytes; among equals, the first, or the
// one that became ready last.
std::vector<int> order_by_growth(const TaskGraph &g, bool newest);
// The next task is the one that became ready last.
std::vector<int> order_depth_first(const TaskGraph &g);
// Post-order from the last tasks. Among producers of a task, the first is the one whose subgraph
// has the largest difference between its peak and the bytes that stay live after it (Liu's rule for
// trees).
std::vector<int> order_post(const TaskGraph &g);

// Replaces each window of an order by its best permutation, until no window improves or `steps`
// steps are spent. Returns the number of steps spent.
int64_t improve_windows(const TaskGraph &g, std::vector<int> &order, int64_t steps);

} // namespace kumiko::graph
