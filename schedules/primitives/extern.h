// What extern stages ask of a schedule (dsl/extern.h).
#pragma once

#include "schedules/state.h"

namespace kumiko {

// Why the function of an extern stage would not find whole arrays with their axes in order; "" when it does. A state has to be free of it
// after every directive.
std::string broken_extern(const ScheduleState &state);

} // namespace kumiko
