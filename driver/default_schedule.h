// A schedule for any op, good without tuning: a library schedule (schedules/library/) where one fits the op, else a generic
// one.
#pragma once

#include "machine/machine.h"
#include "schedules/schedule.h"

namespace kumiko {

Schedule default_schedule(const Op &op, const Machine &machine);

} // namespace kumiko
