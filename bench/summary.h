// What a suite comes to: how ours stand beside the best peer of each case, and how near to what the machine can do.
#pragma once

#include "bench/suite.h"

namespace kumiko::bench {

struct Summary {
    int cases = 0, compared = 0; // compared: with at least one peer
    double ratio = 0;            // geometric mean over those compared of ours / the best peer; 0: none
    double fast_ratio = 0;       // the same of the fastest tenths; 0: some rows have none
    double given_ratio = 0;      // of those that take the arrays in the layout given; 0: layouts do not differ
    double default_ratio = 0;    // without tuned schedules; 0: none is tuned
    double worst = 0;
    std::string worst_case;
    double of_peak = 0; // geometric mean over the cases that have a peak; 0: none
    int unsupported = 0;
    double spread = 0; // of ours: the median over the cases

    // "22 cases: geometric mean 0.97x of the best peer (worst 0.34x, 4x4x4), 0.99x at the fastest tenths, 61 % of peak"
    std::string text() const;
};

Summary summarize(const std::vector<BenchRow> &rows);

} // namespace kumiko::bench
