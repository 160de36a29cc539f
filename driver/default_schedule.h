// A schedule for any op, good without tuning: a library schedule (schedules/library/) where one fits the op, else a generic
// one.
#pragma once

#include "machine/machine.h"
#include "schedules/library/packed_by.h"
#include "schedules/schedule.h"

namespace kumiko {

// With PackedBy::Caller for callers that pack weights; throws Unsupported where the library has no such schedule for the op.
Schedule default_schedule(const Op &op, const Machine &machine, PackedBy packed_by = PackedBy::Kernel);

} // namespace kumiko
