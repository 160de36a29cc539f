// A tensor whose parts stand in several units, combined on the way up the tree.
#pragma once

#include "targets/chip/move/stage.h"

namespace kumiko::chip {

// What stands where after the reductions: in L1BM, or L2BM; elements are numbered without the axis.
struct Reduced {
    State state;
    Ops ops;
    std::vector<std::string> texts;
    Scratch left;
};

// Requires a checked placement. MABs of an L1B, then L1Bs of an L2B, then L2Bs, each level at once or not at all. Throws UserError for
// an operation of another type; Unsupported for an axis that stands on other levels, or too little scratch.
Reduced reduce(const Placement &from, const MoveReduction &reduction, const Scratch &scratch,
               const sim::Config &config);

} // namespace kumiko::chip
