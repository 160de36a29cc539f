// The kinds of stage that become words. Each takes a stage at the root of a schedule, with what is placed in, inlined into or
// finished by it, and places all its operations.
#pragma once

#include "targets/chip/stage/context.h"

namespace kumiko::chip {

// A sum of products whose inner block is the matrix unit's (tensorize "mfma.f16"). `finished`: the stage that is finished in it.
//
// For each matrix, its words go from L1BM by broadcast and forward to the face that is not in use, while the matrix unit takes the
// vectors of the other one; vectors come from LM0 and LM1, sums stay in GRF0 or GRF1. The loops inside those on which the matrix
// depends are its vectors.
void lower_contraction(Context &c, const ScheduleState &state, const StageState &stage, const StageState *finished);

// Elements computed by vectors, with the stages that are computed at its loops, reductions among them (stage/chain.h). Operands come from
// copies in LM0 and LM1, results leave by the forwards.
void lower_pointwise(Context &c, const ScheduleState &state, const StageState &stage);

} // namespace kumiko::chip
