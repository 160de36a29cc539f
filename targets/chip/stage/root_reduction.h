// Reductions whose result is an output.
#pragma once

#include "schedules/state.h"

namespace kumiko::chip {

// The state with each reduction at the root that has no tensor instruction in two stages: the reduction itself, "<name>.reduced", computed at the
// loop below which it accumulates, and one that stores what it made. What has reduced its lanes has the same in all lanes and PEs; the
// innermost of its loops in time is dealt out over those, so that words are full. Throws UserError where the sums have no place.
// argmax and argmin become three: "<name>.value", the extreme, and "<name>.reduced", the first position at which an element equals it.
ScheduleState with_results_stored(const ScheduleState &state);

// A read of this tensor of f32, at an axis that a stage reduces, is the axis' value.
inline const char *const position_tensor = "kumiko.position";
inline bool is_position(const Expr &e) {
    const auto *call = e.as<Halide::Internal::Call>();
    return call && call->name == position_tensor;
}
inline const std::string &position_axis(const Expr &e) {
    return e.as<Halide::Internal::Call>()->args[0].as<Halide::Internal::Variable>()->name;
}

} // namespace kumiko::chip
