// What the program of a schedule does, without making it: the compiler goes all its way but for the packing into words, which is most
// of a compilation.
#pragma once

#include "schedules/schedule.h"
#include "sim/run.h"
#include "targets/chip/pack/tally.h"
#include "targets/chip/plan/stage_plan.h"
#include "targets/chip/road/planner.h"

namespace kumiko {

struct ChipCounts {
    sim::Config config;
    chip::Tally tally; // of the whole program
    sim::Bounds bounds;
    std::array<int64_t, chip::memory_count> taken{};          // LW of each memory that are held at a time, at most
    std::array<std::vector<int64_t>, chip::level_count> used; // by stage: units of each level that its loops fill
    int stages = 0, copies = 0, kept_twice = 0;               // copies of inputs; of them, those kept twice or more
    bool drains = false;                                      // results leave under the next tile's work
    double points = 0; // elements of all stages that are computed, over what they reduce
    // That it takes, about: the longest of the busiest unit's steps, DRAM's cycles and the flow of data, and a part of the others.
    double cycles() const;
};

// Throws as compile_chip.
ChipCounts count_chip(const Schedule &schedule, const sim::Config &config);
// For the configuration that the name of the schedule's machine says.
ChipCounts count_chip(const Schedule &schedule);

} // namespace kumiko
