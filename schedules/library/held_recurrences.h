// Recurrences that are computed in the loops of their readers.
#pragma once

#include "schedules/schedule.h"

#include <set>

namespace kumiko::library {

// Block of a recurrence that is unrolled: steps, whose results stay in registers, and independent
// rows, because each element waits for the previous one.
struct RecurrenceBlock {
    int64_t steps, rows;
};
RecurrenceBlock block_of_recurrence(const Stage &stage);

// Computes recurrences larger than L2 at a loop of their only reader, a pointwise stage at the
// root, for some rows at a time, so that the reader finds the results in cache. Rows have at least
// 512 elements. They are along the first axis of both stages, which the recurrence is not ordered
// along; the reader's loop over it is split. Stages in `apart` keep their loops.
void hold_recurrences(Schedule &s, const std::set<std::string> &apart);

} // namespace kumiko::library
