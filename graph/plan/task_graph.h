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

// Orders by rules.
std::vector<int> order_as_given(const TaskGraph &g);
// Next is the ready task that adds the fewest live bytes; of equal ones the first or the newest.
std::vector<int> order_by_growth(const TaskGraph &g, bool newest);
// Next is the task that became ready last.
std::vector<int> order_depth_first(const TaskGraph &g);
// Producers before consumers, from the last tasks on. Of several producers, the one whose part of
// the graph has the most bytes above what it leaves comes first (Liu's rule for trees).
std::vector<int> order_post(const TaskGraph &g);

// Replaces windows of an order by the best permutation of each, until none gets better or `steps`
// steps are taken, which it returns.
int64_t improve_windows(const TaskGraph &g, std::vector<int> &order, int64_t steps);

} // namespace kumiko::graph
