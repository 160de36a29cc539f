// Gathers rows of a table: Y(i, …, j) = X(clamp(index(i, …), 0, rows − 1), j). Rows are moved from
// DRAM to DRAM through L2BM, by indirect moves whose granule tables the chip computes from the
// indices at run time.
//
// X is row-major and replicated in each group, so that a group finds every row in its own memory. Y
// is row-major with its rows distributed over the groups. Each index arrives at the PEs of a MAB
// four times, for the four granules of a block of 64 LW: PEs 2n and 2n + 1 compute two entries each
// of one row.
#pragma once

#include "targets/chip/stage/context.h"

namespace kumiko::chip {

// Whether the stage's only read has an index that is itself a tensor read.
bool is_gather(const StageState &stage);
// Throws Unsupported for forms other than the one above.
void lower_gather(Context &c, const ScheduleState &state, const StageState &stage);

} // namespace kumiko::chip
