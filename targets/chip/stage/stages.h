// The kinds of stages that can be compiled. Each function takes a root stage, including the stages
// placed in, inlined into or fused into it, and places all its operations.
#pragma once

#include "targets/chip/stage/context.h"

namespace kumiko::chip {

// A sum of products whose inner block is the matrix unit's (tensorize "mfma.f16"). `finished` is
// its fused epilogue, or null.
//
// For each matrix, its words are broadcast from L1BM and forwarded to the inactive face, while the
// matrix unit processes the vectors of the active one. Vectors are in LM0 and LM1, sums in GRF0 or
// GRF1. The loops inside those on which the matrix depends are its vectors.
void lower_contraction(Context &c, const ScheduleState &state, const StageState &stage, const StageState *finished);

// Element-wise vector stages, including the stages computed at their loops, which may be reductions
// (stage/chain.h). Operands are copied to LM0 and LM1; results are forwarded to L1BM.
void lower_pointwise(Context &c, const ScheduleState &state, const StageState &stage);

} // namespace kumiko::chip
