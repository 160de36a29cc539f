// Out-of-bounds reads: the formula has no meaning for the given sizes.
#pragma once

#include "schedules/facts.h"

namespace kumiko {

// The first read that is provably out of bounds, as text; "" if there is none. `state` has the
// facts substituted. dsl/reach.h defines which reads are checked.
std::string read_outside(const ScheduleState &state, const Facts &facts);

} // namespace kumiko
