// Pointwise stages that are inlined into their readers.
#pragma once

#include "schedules/schedule.h"

#include <map>

namespace kumiko::library {

// The operations of the stage's expressions, counted as trees. A function call counts about as many
// as its code has.
int64_t operations(const Stage &stage);

// Whether inlining the stage keeps its reader's expression small and computes little twice. Reads
// through padding stages count, since these are inlined too. `sizes` has the operations of the
// inlined stages, counted as trees. If the answer is yes, the stage and its padding are added.
bool inlines_cheaply(const Op &op, const Stage &stage, const Stage &reader, std::map<std::string, int64_t> &sizes);

// Whether recomputing the stage wherever it is read is at most as slow as storing and loading it.
// Two loads count as one store. Each iteration of a reader must read an element of its own. If the
// answer is yes, the stage is added to `sizes`.
bool pays_to_inline(const Schedule &s, const Stage &stage, std::map<std::string, int64_t> &sizes);

} // namespace kumiko::library
