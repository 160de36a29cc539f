// A one-line summary of the schedule of each stage.
#pragma once

#include "schedules/schedule.h"

namespace kumiko {

// One stage: the structure of its loops, and its schedule as one line of text.
struct StageSummary {
    std::string stage;
    // The loop structure: "register tile", "lanes", "vectors", "instruction", "scatter",
    // "recurrence" or "scalar"; "" for copies and for stages that have no loops of their own.
    std::string sketch;
    std::string text; // "computed at loop h of mix; vectors of 16 along j.i; unrolled i.i (25)"
};

// In schedule order: producers before consumers.
std::vector<StageSummary> summaries(const Schedule &schedule);

} // namespace kumiko
