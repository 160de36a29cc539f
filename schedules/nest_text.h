// The loops of stages as text, one loop a line, each deeper by two.
#pragma once

#include "schedules/state.h"

namespace kumiko {

// One stage; `marked` gets "← note" behind it, and the innermost loop "← innermost".
std::string stage_text(const StageState &stage, const std::string &marked = "", const std::string &note = "");

// The whole nest: every stage where it is computed.
std::string nest_text(const ScheduleState &state);

} // namespace kumiko
