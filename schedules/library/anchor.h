// Library schedules for single stages of larger ops.
#pragma once

#include "schedules/schedule.h"

namespace kumiko::library {

// Whether the machine has a tensor instruction for the products that the stage, one of `op`'s,
// sums. Throws Unsupported if a tensor that the stage reads is too large for an op of its own.
bool has_instruction(const Op &op, const Stage &stage, const Machine &machine);

// Gives a contraction the loops and copies that the library chooses for an op of that stage alone,
// with the operands as inputs. Applies if the contraction has a tensor instruction or its operands
// exceed L2. Distributes over cores only if `parallel`. The stage must be at the root, without
// directives. Returns false and leaves the schedule unchanged for other stages, if no contraction
// template of the library matches, or if a directive is illegal here.
bool schedule_as_alone(Schedule &s, const Stage &stage, bool parallel);

} // namespace kumiko::library
