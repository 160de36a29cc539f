// A lower bound on the cost of moving a tensor from one placement to another: words over each link
// at its full rate.
#pragma once

#include "targets/chip/layout/placement.h"

namespace kumiko::chip {

struct ConversionBound {
    // The LW that have to cross the busiest link of a kind, and the cycles this takes; 0: none.
    struct Part {
        std::string link; // "DRAM read", "L2BM -> L1BM", ...
        int64_t words = 0;
        int64_t cycles = 0;
    };
    std::vector<Part> parts;
    // The maximum of the parts, plus the start-up of an off-chip move; no sequence is faster.
    int64_t cycles = 0;

    std::string to_string() const;
};

// Requires checked placements of tensors of one shape and type. A word that its destination already
// holds crosses no link.
ConversionBound conversion_bound(const Placement &from, const Placement &to, const sim::Config &config);

} // namespace kumiko::chip
