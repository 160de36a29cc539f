// Stages that run in one loop nest (compute_with).
#pragma once

#include "schedules/state.h"

namespace kumiko {

struct Apart {
    std::string why;
    bool for_good = true; // no later directive makes it possible
};
// Why stage `name` cannot run in the loops of stage `leader` from the outermost down to `loop`;
// nothing when it can.
std::optional<Apart> apart(const ScheduleState &state, const std::string &name, const std::string &leader,
                           const std::string &loop);

// The stages that run in the loops of `leader`, in the order of the schedule.
std::vector<const StageState *> sharing_loops(const ScheduleState &state, const std::string &leader);

// The stages reordered so that all that a group of stages in one nest reads comes before its first
// one. The order stays where no stage shares loops.
std::vector<StageState> in_order_of_groups(const ScheduleState &state);

} // namespace kumiko
