// The summary of a suite: ours compared with the best peer of each case, and with the machine's
// limit.
#pragma once

#include "bench/suite.h"

namespace kumiko::bench {

struct Summary {
    int cases = 0, compared = 0; // compared: with at least one peer
    // Geometric mean of ours / the best peer over the compared cases; 0: none.
    double ratio = 0;
    double fast_ratio = 0; // the same for the fastest tenths; 0: some rows lack them
    // Among those that keep the given layout; 0: layouts do not differ.
    double given_ratio = 0;
    double default_ratio = 0; // with default schedules only; 0: none is tuned
    double worst = 0;
    std::string worst_case;
    double of_peak = 0; // geometric mean over the cases that have a peak; 0: none
    int unsupported = 0;
    double spread = 0; // of ours: the median over the cases

    // "22 cases: geometric mean 0.97x of the best peer (worst 0.34x, 4x4x4), 0.99x at the fastest
    // tenths, 61 % of peak"
    std::string text() const;
};

Summary summarize(const std::vector<BenchRow> &rows);

} // namespace kumiko::bench
