// What it costs at least to bring a tensor from one placement to another: words over each link, at the link's full rate.
#pragma once

#include "targets/chip/layout/placement.h"

namespace kumiko::chip {

struct ConversionBound {
    // LW that have to cross a link of one unit, where most have to, and the cycles that takes; 0: nothing has to.
    struct Part {
        std::string link; // "DRAM read", "L2BM -> L1BM", ...
        int64_t words = 0;
        int64_t cycles = 0;
    };
    std::vector<Part> parts;
    int64_t cycles = 0; // the greatest of the parts, plus the start of a move off the chip; no sequence is quicker

    std::string to_string() const;
};

// Requires checked placements of tensors of one shape and type. A word that its destination already holds crosses nothing.
ConversionBound conversion_bound(const Placement &from, const Placement &to, const sim::Config &config);

} // namespace kumiko::chip
