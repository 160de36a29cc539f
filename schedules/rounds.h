// Rounds of a reduction: accumulate_in below a reduction loop computes partial results, which are
// stored at the end of each round and loaded by the next one.
#pragma once

#include "schedules/frame.h"

namespace kumiko {

// The axes that the reduction loops iterate over: the reduction axes, or loops that whole ones were
// fused into. Nullopt if some are fused partially.
std::optional<std::set<std::string>> reduction_roots(const StageState &stage);

// Whether the last round of a reduction can be recognised by the range of its loops inside `depth`.
// Outer parts must be outside of inner ones, so that each round has later steps than the one
// before. The loops inside a round must not reach beyond its next iteration, as they do for a
// factor that does not divide evenly.
bool rounds_in_order(const Frame &frame, size_t depth);

// The number of outermost loops of the reduction that enclose its epilogue (finish_in), whatever
// the sizes. That is fewer than StageState::end_of_steps if the epilogue may run outside of the
// rounds: because the last one cannot be recognised, or because there may be none.
size_t loops_around_end(const ScheduleState &state, const StageState &reduction);

} // namespace kumiko
