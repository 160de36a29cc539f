// Regions: each part of a stage becomes a separate stage on the chip.
#pragma once

#include "schedules/state.h"
#include "targets/chip/stage/context.h"

namespace kumiko::chip {

// Replaces each stage with regions by one stage per box; `part` describes what it computes. If a
// stage computes several boxes, each gets its own copies. Throws Unsupported for boxes that are cut
// along two axes.
ScheduleState with_pieces(const ScheduleState &state);
// Restricts the results in c.tensors from `first` on to the part of the tensor that stage `s`
// computes.
void keep_part(Context &c, size_t first, const StageState &s);

} // namespace kumiko::chip
