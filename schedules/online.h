// Online (flash) softmax and similar: sums whose terms depend on a maximum only through a factor
// exp(s − max) are computed in one pass with that maximum: s.stage(sum).online(max, loop, …).
//
// The loop of one sum, the anchor, steps through blocks of the axis. The maximum and the other sums
// are its followers: they are initialised before the loop and updated for each block inside it.
// Partial sums of earlier blocks are rescaled by exp(previous max − new max). So inside the loop
// "max" is the running maximum, and after the loop the maximum.
//
// A block of only −inf has no maximum to subtract: exp(−inf − −inf) is NaN, where the formula gives
// 0 because another block has a finite maximum. So until the last block, the maximum that is
// subtracted is clamped to at least the lowest finite number.
#pragma once

#include "schedules/state.h"

namespace kumiko {

// The variables in Online::factor.
inline constexpr const char *maximum_before = "kumiko.before", *maximum_now = "kumiko.now";

// Whether the stage is a follower: updated for each block inside a loop of another stage.
bool follows(const StageState &s);
// The followers of the anchor, the maximum first.
std::vector<const StageState *> followers(const ScheduleState &state, const std::string &anchor);
// Whether a stage at a loop of the anchor must run after the anchor's last block, because it reads
// a result that is complete only then.
bool waits_for_end(const ScheduleState &state, const StageState &stage);

// Whether an expression depends on a stage, directly or through other stages.
bool depends_on(const ScheduleState &state, const Expr &e, const std::string &stage);

// The factor that converts a partial sum of `sum` from one running maximum to another, over the
// variables above. Undefined if `sum` is not a sum along the axis of `max` whose terms have the
// required form; then `why` gives the reason.
Expr rescaling_factor(const ScheduleState &state, const StageState &sum, const StageState &max, std::string &why);

// The stages between the maximum and the sums, which are computed block by block.
std::vector<std::string> between(const ScheduleState &state, const std::string &anchor);
// The stages that depend on the anchor's followers, without those of between().
std::vector<std::string> dependent(const ScheduleState &state, const std::string &anchor);

// Whether a stage is computed at the anchor's loop or deeper.
bool is_in_block(const ScheduleState &state, const StageState &stage, const std::string &anchor);

// Why the recorded online schedule of the anchor is illegal; "" if it is legal.
std::string broken_online(const ScheduleState &state, const std::string &anchor);

} // namespace kumiko
