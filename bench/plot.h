// A plot of a suite.
#pragma once

#include "bench/suite.h"

namespace kumiko::bench {

// SVG with a line for each case: a bar for our rate, a mark for each peer, and a stroke for the
// machine's peak, if known. The axis is logarithmic if rates differ by a factor of a hundred.
// Requires at least one row; all rows are of one suite.
std::string plot_svg(const std::vector<BenchRow> &rows);

} // namespace kumiko::bench
