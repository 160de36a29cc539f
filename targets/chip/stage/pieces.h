// Regions: each part of a stage is a stage of its own on the chip.
#pragma once

#include "schedules/state.h"
#include "targets/chip/stage/context.h"

namespace kumiko::chip {

// The state with a stage for each box of a divided stage, which says in `part` what it computes; where a stage computes several,
// each has copies of its own. Throws Unsupported for boxes that are cut along two axes.
ScheduleState with_pieces(const ScheduleState &state);
// Of the results in c.tensors from `first` on, what stage `s` computes: the tensor's elements in its part.
void keep_part(Context &c, size_t first, const StageState &s);

} // namespace kumiko::chip
