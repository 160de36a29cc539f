// Loops of a stage that reads its own earlier elements.
#pragma once

#include "schedules/library/elementwise.h"

namespace kumiko::library {

// The last axis is vectorized if the loops around it carry all such reads, so that a whole run
// depends on earlier runs only. Otherwise each element waits for the previous one: some rows run
// interleaved, and some steps are unrolled, with their results in registers.
void schedule_recurrence(Schedule &s, const Stage &stage, int lanes, const ElementwiseParameters &p);

} // namespace kumiko::library
