// Rows of a table by number: Y(i, …, j) = X(clamp(index(i, …), 0, rows − 1), j). Rows go from DRAM to DRAM through L2BM, by moves whose
// tables of granules the chip makes from the indices as it runs.
//
// X lies row-major in each group, so that a group finds every row in its own memory; Y row-major, its rows over the groups. Each index
// comes to the PEs of a MAB four times, for the four granules of a block of 64 LW: PEs 2n and 2n + 1 make two entries each of one row.
#pragma once

#include "targets/chip/stage/context.h"

namespace kumiko::chip {

// Whether an index of the stage's one read is read itself.
bool is_gather(const StageState &stage);
// Throws Unsupported for other forms than the one above.
void lower_gather(Context &c, const ScheduleState &state, const StageState &stage);

} // namespace kumiko::chip
