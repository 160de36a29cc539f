// Schedules for the kernels of a program, and constants in the layouts that they read.
#pragma once

#include "driver/target.h"
#include "graph/build/program.h"
#include "schedules/schedule.h"

namespace kumiko::graph {

struct PrepareOptions {
    // Weights are packed now, where a kernel is given constants and has a schedule that takes them
    // so. Packed weights fit one target.
    bool pack = true;
    // Called before each kernel's schedule is chosen, and at the end.
    std::function<void(size_t done, size_t total)> progress;
};

// Replaces packed constants in `program`, and leaves out those that no step reads. Returns a
// schedule per kernel, by the rules of driver/default_schedule.h.
std::vector<Schedule> prepare(Program &program, const Target &target, const PrepareOptions &options = {});

} // namespace kumiko::graph
