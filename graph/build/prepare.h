// Schedules for the kernels of a program, and constants in the layouts that they read.
#pragma once

#include "driver/library.h"
#include "graph/build/program.h"
#include "schedules/schedule.h"

#include <functional>

namespace kumiko::graph {

struct PrepareOptions {
    // Packs constants now for kernels whose schedules take packed operands. Packed constants fit
    // one target.
    bool pack = true;
    // Tuned schedules, which go before the default ones; null: none.
    ScheduleSource source = nullptr;
    // Called before the schedule of each kernel is chosen, and at the end.
    std::function<void(size_t done, size_t kernels)> progress = nullptr;
};

struct PreparedKernel {
    Schedule schedule;
    bool packed;         // some of its operands are packed constants
    ChosenSchedule from; // the same schedule as data, and its origin
};

// Replaces packed constants in `program`, and leaves out those that no step reads. Returns a
// schedule per kernel: the source's, or the default one (driver/default_schedule.h).
std::vector<PreparedKernel> prepare(Program &program, const Target &target, const PrepareOptions &options = {});

} // namespace kumiko::graph
