// Sums whose terms hold a maximum only in a factor exp(s − max), in one pass with that maximum: s.stage(sum).online(max, loop, …).
//
// Each iteration of a loop of one sum, the anchor, is a block of the axis. The maximum and the other sums follow it: they are begun
// before the loop and brought up to each block inside of it, and what was summed of the blocks before is multiplied by
// exp(max before − max now). So in the loop "max" is the maximum so far, and after it the maximum.
//
// A block that holds only −inf has no maximum to subtract: exp(−inf − −inf) is NaN where the formula, whose maximum comes from another
// block, has 0. So while blocks are left, terms are taken from the lowest number at least.
#pragma once

#include "schedules/state.h"

namespace kumiko {

// The variables of Online::factor.
inline constexpr const char *maximum_before = "kumiko.before", *maximum_now = "kumiko.now";

// Whether a stage is brought up to each block inside of a loop of another.
bool follows(const StageState &s);
// The same, of this stage's loops: the maximum first.
std::vector<const StageState *> followers(const ScheduleState &state, const std::string &anchor);
// Whether a stage at a loop of the anchor waits for the end: what it reads is ready after the last block.
bool waits_for_end(const ScheduleState &state, const StageState &stage);

// Whether an expression depends on a stage, through any others.
bool depends_on(const ScheduleState &state, const Expr &e, const std::string &stage);

// What the terms of `sum` are multiplied by when they are taken from another maximum, over the variables above. Undefined where `sum` is
// no sum along the axis of `max` whose terms hold it so; then `why` says what is in the way.
Expr rescaling_factor(const ScheduleState &state, const StageState &sum, const StageState &max, std::string &why);

// The stages between the maximum and the sums, which are computed for one block at a time.
std::vector<std::string> between(const ScheduleState &state, const std::string &anchor);
// The stages that depend on what follows the anchor, other than those between.
std::vector<std::string> dependent(const ScheduleState &state, const std::string &anchor);

// Whether a stage is computed at the anchor's loop or further in.
bool stands_in_block(const ScheduleState &state, const StageState &stage, const std::string &anchor);

// Why the anchor's blocks cannot be followed as recorded; "" when they can.
std::string broken_online(const ScheduleState &state, const std::string &anchor);

} // namespace kumiko
