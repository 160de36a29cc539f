// The order in which tasks run, chosen so that few bytes are live at once.
//
//     TaskOrder order = choose_order(tasks, buffers);
//     ArenaPlan plan = plan_arena(arena_buffers(tasks, buffers, order.order));
//
// The problem is NP-hard. The order is the best of several by rules (as XLA takes the best of its
// list, DFS and post-order schedulers), each improved by exact search in windows of 10 tasks (as
// SERENITY searches partitions: Ahn et al., "Ordering Chaos: Memory-Aware Scheduling of Irregularly
// Wired Neural Networks for Edge Devices", MLSys 2020).
#pragma once

#include "graph/plan/arena.h"

namespace kumiko::graph {

// A buffer that tasks read and write.
struct PlanBuffer {
    std::string name; // for messages
    int64_t bytes = 0;
    int64_t alignment = 64;    // bytes, a power of two
    int inside = -1;           // as in ArenaBuffer
    int64_t inside_offset = 0; // bytes
    bool input = false;        // has its value before the first task
    bool output = false;       // is read after the last task
    bool external = false;     // memory of the caller, not of the arena; as all inside of it
};

// A task reads and writes buffers, and needs a workspace while it runs.
//
// - It runs after all tasks that write what it reads. Several tasks may write one buffer.
// - Aliases add no dependence. A concatenation, split or view that copies nothing stays a task: it
//   reads and writes buffers of one block. A task that overwrites its operand in place lists the
//   other readers of that operand in `after`.
struct PlanTask {
    std::string name;               // for messages
    std::vector<int> reads, writes; // indices of buffers
    std::vector<int> after;         // indices of further tasks that run before this one
    int64_t workspace = 0;          // bytes
};

struct TaskOrder {
    std::vector<int> order; // indices of tasks
    int64_t peak = 0;       // ArenaPlan::bound of this order, bytes
    int64_t given_peak = 0; // the same of the order in which tasks are listed
    bool optimal = false;   // no order has a lower peak
};

// Chooses an order whose peak is at most that of the listed order, or, if that is not legal, of the
// legal order next to it. `search_steps` limits the search: equal tasks get equal orders on every
// machine. A step is one visit of a task, about 5 ns.
//
// Throws InternalError as `plan_arena` does, and if an index is out of range, tasks form a cycle, a
// task reads and writes one buffer, or reads one that is neither an input nor written by a task.
TaskOrder choose_order(const std::vector<PlanTask> &tasks, const std::vector<PlanBuffer> &buffers,
                       int64_t search_steps = int64_t(1) << 26);

// Returns the argument of `plan_arena`: the buffers with their lifetimes under an order, then the
// workspace of each task, in the order of `tasks`. Task order[n] runs in step n. A buffer is live
// from the first to the last task that uses it or anything inside of it. An input or output that no
// task uses is live in all steps. External buffers and those that are not used have 0 bytes.
std::vector<ArenaBuffer> arena_buffers(const std::vector<PlanTask> &tasks, const std::vector<PlanBuffer> &buffers,
                                       const std::vector<int> &order);

// Throws InternalError if a task is missing or repeated, or runs before one that it depends on. It
// names both.
void check_order(const std::vector<PlanTask> &tasks, const std::vector<PlanBuffer> &buffers,
                 const std::vector<int> &order);

} // namespace kumiko::graph
