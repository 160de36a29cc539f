// Stages that share one loop nest (compute_with).
#pragma once

#include "schedules/state.h"

namespace kumiko {

// Why two stages cannot share loops.
struct LoopConflict {
    std::string why;
    bool for_good = true; // no later directive can make it legal
};
// Why stage `name` cannot share the loops of stage `leader` from the outermost down to `loop`;
// nullopt if it can.
std::optional<LoopConflict> loop_conflict(const ScheduleState &state, const std::string &name,
                                          const std::string &leader, const std::string &loop);

// The stages that share the loops of `leader`, in the schedule's order.
std::vector<const StageState *> sharing_loops(const ScheduleState &state, const std::string &leader);

// Whether loops of this name in stages a and b are one shared loop.
bool one_loop(const ScheduleState &state, const std::string &a, const std::string &b, const std::string &loop);
// Whether the stage shares the loops of `leader` down to `loop` or deeper. Each iteration then
// computes the stages placed there before a part of this stage.
bool runs_beside(const ScheduleState &state, const std::string &stage, const std::string &leader,
                 const std::string &loop);

// Whether the stage is computed in loop `loop` or deeper of a stage that runs_beside() is true for:
// itself, or its host, in whose loops it is computed or finished.
bool computed_beside(const ScheduleState &state, const std::string &stage, const std::string &leader,
                     const std::string &loop);

// Reorders the stages so that each group that shares a nest comes after everything that it reads.
// No effect if no stage shares loops.
void order_by_groups(ScheduleState &state);

// The stage at whose position the loops of `s` run: `s`, or the consumer that is finished in it.
const StageState &head_of(const ScheduleState &state, const StageState &s);
// The stage whose loops compute `s`: `s`, or the reduction in which it is finished.
const StageState &loops_of(const ScheduleState &state, const StageState &s);
// The leader of the group that a stage belongs to.
const StageState &leader_of(const ScheduleState &state, const StageState &s);

} // namespace kumiko
