// Reads that leave their tensor: a formula that has no meaning for the sizes at hand.
#pragma once

#include "schedules/facts.h"

namespace kumiko {

// The first read that some iteration makes outside of its tensor, as text; "" when none is proved to. `state` is one with
// the facts in place. dsl/reach.h says of which reads.
std::string read_outside(const ScheduleState &state, const Facts &facts);

} // namespace kumiko
