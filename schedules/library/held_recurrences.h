// Which recurrences the loops of their readers hold.
#pragma once

#include "schedules/schedule.h"

#include <set>

namespace kumiko::library {

// Elements of a recurrence that are computed together, as unrolled copies: steps, whose results
// stay in registers, and rows, since each element waits for the one before.
struct RecurrenceBlock {
    int64_t steps, rows;
};
RecurrenceBlock block_of_recurrence(const Stage &stage);

// Computes recurrences larger than L2 in their only reader, a pointwise stage at the root, for some
// rows at a time, which the reader finds in the caches. Rows have 512 elements or more. They are
// along the first axis of both stages, which the recurrence is not ordered along. The reader's loop
// over it is split. Stages in `apart` keep their loops.
void hold_recurrences(Schedule &s, const std::set<std::string> &apart);

} // namespace kumiko::library
