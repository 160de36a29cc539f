// Reductions whose result is an output.
#pragma once

#include "schedules/state.h"

namespace kumiko::chip {

// Splits each root reduction without a tensor instruction into two stages: the reduction itself,
// "<name>.reduced", computed at the loop below which it accumulates, and one that stores the
// result. A result reduced over lanes is equal in all lanes and PEs; the innermost time loop of the
// storing stage is distributed over those, so that words are full. Throws UserError if
// accumulate_in is missing. argmax and argmin become three stages: "<name>.value", the extreme, and
// "<name>.reduced", the first position at which an element equals it.
ScheduleState with_results_stored(const ScheduleState &state);

// A read of this f32 tensor at an axis that a stage reduces has the value of the axis.
inline const char *const position_tensor = "kumiko.position";
inline bool is_position(const Expr &e) {
    const auto *call = e.as<Halide::Internal::Call>();
    return call && call->name == position_tensor;
}
inline const std::string &position_axis(const Expr &e) {
    return e.as<Halide::Internal::Call>()->args[0].as<Halide::Internal::Variable>()->name;
}

} // namespace kumiko::chip
