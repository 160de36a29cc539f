// A schedule as a whole: checks that the chip supports it, and generates its stages one after the
// other.
#pragma once

#include "schedules/schedule.h"
#include "sim/run.h"
#include "targets/chip/stage/context.h"

namespace kumiko::chip {

// Throws UserError or Unsupported for schedules that no program of the chip can implement,
// independent of the stages.
void require_program(const Schedule &schedule, const sim::Config &config);

// Places all operations of all stages; `state` must outlive the context's tensors. Returns the
// lower bounds on the time of any schedule.
sim::Bounds lower_stages(Context &c, const Op &op, const ScheduleState &state);

} // namespace kumiko::chip
