// Library schedules for single stages of larger ops.
#pragma once

#include "schedules/schedule.h"

namespace kumiko::library {

// Whether the machine has a tensor instruction for the products that the stage sums. `op` has the
// tensors that it reads. Throws Unsupported where one of them is too large for an op of its own.
bool has_instruction(const Op &op, const Stage &stage, const Machine &machine);

// Gives a contraction that has an instruction, or whose operands exceed L2, the loops and copies
// that the library gives an op of that stage alone, with the operands as inputs; over cores only if
// `parallel`. The stage is at the root, without directives. Returns false, and leaves the schedule
// as it was, for other stages, and where no library schedule of contractions matches or a directive
// is illegal here.
bool schedule_as_alone(Schedule &s, const Stage &stage, bool parallel);

} // namespace kumiko::library
