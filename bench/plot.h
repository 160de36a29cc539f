// A suite as a picture.
#pragma once

#include "bench/suite.h"

namespace kumiko::bench {

// SVG: a line for each case, with a bar as long as our rate, a mark for each peer, and a stroke for the machine's peak where
// there is one. Rates that differ a hundredfold stand on a logarithmic axis. Requires at least one row, all of one suite.
std::string plot_svg(const std::vector<BenchRow> &rows);

} // namespace kumiko::bench
