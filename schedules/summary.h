// What a schedule decides for each stage, in a line.
#pragma once

#include "schedules/schedule.h"

namespace kumiko {

struct StageSummary {
    std::string stage;
    // The structure of its loops: "register tile", "lanes", "vectors", "instruction", "scatter",
    // "recurrence" or "scalar". "" for stages without loops of their own, and for copies.
    std::string sketch;
    std::string text; // "computed at loop h of mix; vectors of 16 along j.i; unrolled i.i (25)"
};

// In the order of the schedule's stages: producers before consumers.
std::vector<StageSummary> summaries(const Schedule &schedule);

} // namespace kumiko
