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

// Whether two loops of one name are one, since their stages run in one nest.
bool one_loop(const ScheduleState &state, const std::string &a, const std::string &b, const std::string &loop);
// Whether the stage runs in the loops of `leader` down to `loop` or a deeper one. Each iteration
// then computes what is placed there before it computes a part of the stage.
bool runs_beside(const ScheduleState &state, const std::string &stage, const std::string &leader,
                 const std::string &loop);

// Whether the stage, or one in whose loops it is computed or ended, runs in loop `loop` of `leader`
// in this way, and the stage is computed in that loop or deeper.
bool stands_beside(const ScheduleState &state, const std::string &stage, const std::string &leader,
                   const std::string &loop);

// Reorders the stages so that a group in one nest comes after all that it reads. Does nothing if no
// stage shares loops.
void order_by_groups(ScheduleState &state);

// The stage at whose position the loops of `s` run: `s`, or the consumer that is finished in it.
const StageState &head_of(const ScheduleState &state, const StageState &s);
// The stage whose loops compute `s`: `s`, or the reduction in which it is finished.
const StageState &loops_of(const ScheduleState &state, const StageState &s);
// The stage at the head of the group to which a stage at the head of loops belongs.
const StageState &leader_of(const ScheduleState &state, const StageState &s);

} // namespace kumiko
