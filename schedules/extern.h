// Constraints of extern stages on a schedule (dsl/extern.h).
#pragma once

#include "schedules/state.h"

namespace kumiko {

// Why some extern stage would not receive whole arrays with their axes in order; "" if all do.
// Checked after every directive.
std::string broken_extern(const ScheduleState &state);

} // namespace kumiko
