// A stage in a circular buffer of planes, a ring:
//
//   s.stage("P").store_at("H", "y").compute_at("H", "z")
//
// The loop z is serial and stands directly inside y. Iterations of z need overlapping parts of P,
// which move along one axis of P. An iteration computes the planes that no earlier one has computed.
// The ring holds only the planes that one iteration reads. This is Halide's sliding window with
// storage folding (Ragan-Kelley et al., PLDI 2013). Parts that do not move along one axis are an
// error here, and are not computed again.
#pragma once

#include "schedules/state.h"

namespace kumiko {

// Whether the stage is kept and computed at two loops of one stage.
bool rolls(const StageState &s);

// Why iterations of `loop`, of the stage in whose loops `s` is kept, cannot compute it plane by
// plane; "" when they can, as far as directives tell. Which axis moves is known when loops have
// extents.
std::string not_rolling(const ScheduleState &state, const StageState &s, const std::string &loop);

} // namespace kumiko
