// A stage in a circular buffer of planes, a ring: s.stage("P").store_at("H", "y").compute_at("H",
// "z"), of a serial loop z directly inside y. Iterations of z need overlapping parts of P that move
// along one of its axes. Each computes the planes that no earlier one has computed, and only those
// are kept that it reads. This is the sliding window and the storage folding of Halide
// (Ragan-Kelley et al., PLDI 2013), where what is not one moving axis is an error instead of a
// recomputation.
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
