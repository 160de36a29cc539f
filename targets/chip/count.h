// Counts what the program of a schedule does without generating it: the compiler runs all its
// stages except the packing into words, which takes most of the time.
#pragma once

#include "schedules/schedule.h"
#include "sim/run.h"
#include "targets/chip/pack/tally.h"
#include "targets/chip/plan/stage_plan.h"
#include "targets/chip/transfer/planner.h"

namespace kumiko {

struct ChipCounts {
    sim::Config config;
    chip::Tally tally; // totals of the whole program
    sim::Bounds bounds;
    // The maximum number of LW allocated at once, by memory.
    std::array<int64_t, chip::bank_count> taken{};
    // By stage: the number of units of each level that its loops use.
    std::array<std::vector<int64_t>, chip::level_count> used;
    // Copies of inputs; kept_twice: those with two or more buffers.
    int stages = 0, copies = 0, kept_twice = 0;
    // Stores of results overlap the next tile's computation.
    bool drains = false;
    double points = 0; // computed elements of all stages, times their reduction extents
    // An estimate: the maximum of the busiest unit's steps, DRAM's cycles and the data-flow time,
    // plus a fraction of the others.
    double cycles() const;
};

// Throws as compile_chip does.
ChipCounts count_chip(const Schedule &schedule, const sim::Config &config);
// For the configuration named by the schedule's machine.
ChipCounts count_chip(const Schedule &schedule);

} // namespace kumiko
