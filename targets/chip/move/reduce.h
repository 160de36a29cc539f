// Combines a tensor whose partial values are in several units, on the way up the tree.
#pragma once

#include "targets/chip/move/stage.h"

namespace kumiko::chip {

// The state after the reductions, in L1BM or L2BM; elements are numbered without the axis.
struct Reduced {
    State state;
    Ops ops;
    std::vector<std::string> texts;
    Scratch left;
};

// Requires a checked placement. Reduces over the MABs of an L1B, then the L1Bs of an L2B, then the
// L2Bs; each level completely or not at all. Throws UserError for an operation of another type,
// Unsupported for an axis on other levels or too little scratch.
Reduced reduce(const Placement &from, const MoveReduction &reduction, const Scratch &scratch,
               const sim::Config &config);

} // namespace kumiko::chip
