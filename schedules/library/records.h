// Records: the last axes of a stage if they are short, for example the components of a point. One
// vector holds the same element of several records.
#pragma once

#include "schedules/schedule.h"

#include <optional>

namespace kumiko::library {

// Candidate record ranks: how many last axes form a record. A record is the last axis, or several
// axes, for example a small matrix. The latter pays only if elements take enough operations, since
// their accesses are far apart. It requires whole vectors of records, elements of at least 32 bits,
// and either scatter instructions or a division per element.
std::vector<size_t> record_ranks(const Stage &stage, const Machine &machine);

// Vectorizes the axis before a record of `rank` axes, whose elements are shuffled together. Without
// a record, those are elements with different remainders of divisor_of() the last axis. A
// partial last vector could not be shuffled and would be stored lane by lane, so it is moved
// inwards. Returns the loop over vectors. Returns nothing and leaves the schedule unchanged if
// reads are farther apart.
std::optional<LoopName> vectorize_across_records(Schedule &s, StageHandle S, const Stage &stage, size_t rank,
                                                 int lanes);

// Unrolls the last axes if they form a record, so that common subexpressions of its elements are
// computed once. For stages without vectors.
void unroll_record(StageHandle S, const Stage &stage);

} // namespace kumiko::library
