// A schedule as a whole: what the chip can be given, and its stages one after the other.
#pragma once

#include "schedules/schedule.h"
#include "sim/run.h"
#include "targets/chip/stage/context.h"

namespace kumiko::chip {

// Throws UserError or Unsupported for what no program of that chip is made of, whatever the stages are.
void require_program(const Schedule &schedule, const sim::Config &config);

// Places all operations of all stages; `state` outlives the context's tensors. Returns what a perfect schedule could not go below.
sim::Bounds lower_stages(Context &c, const Op &op, const ScheduleState &state);

} // namespace kumiko::chip
