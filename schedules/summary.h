// What a schedule decides for each stage, in a line.
#pragma once

#include "schedules/schedule.h"

namespace kumiko {

struct StageSummary {
    std::string stage;
    std::string text; // "computed at loop h of mix; vectors of 16 along j.i; unrolled i.i (25)"
};

// In the order of the schedule's stages: producers before consumers.
std::vector<StageSummary> summaries(const Schedule &schedule);

} // namespace kumiko
