// A stage in a circular buffer of planes, a ring:
//
//   s.stage("P").store_at("H", "y").compute_at("H", "z")
//
// Sliding window with storage folding: Halide's, Ragan-Kelley et al., PLDI 2013. Loop z is serial
// and directly inside y. Iterations of z need overlapping parts of P, which move along one axis of
// P. Each iteration computes only the planes that no earlier one has computed; the ring holds the
// planes that one iteration reads. If the parts do not move along one axis, this is an error; they
// are not recomputed.
#pragma once

#include "schedules/state.h"

namespace kumiko {

// Whether the stage is stored and computed at two different loops of one stage.
bool rolls(const StageState &s);

// Why `s` cannot be computed plane by plane in iterations of `loop`, a loop of the stage at which
// `s` is stored; "" if it can, as far as the directives tell. The moving axis is known only when
// loops have extents.
std::string not_rolling(const ScheduleState &state, const StageState &s, const std::string &loop);

} // namespace kumiko
