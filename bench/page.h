// The page of measured performance: Markdown with a table and a plot of each suite, followed by the
// numbers as JSON.
#pragma once

#include "bench/suite.h"

namespace kumiko::bench {

// Writes page/SUITE.json for each suite of `rows`, then page.md and page/SUITE.svg from all
// page/*.json: suites that were measured earlier keep their numbers. `page` must end in ".md".
// Throws UserError for rows of a suite whose cases are not kernels compared with peers (compile,
// chip-*, sim-speed), and for files that are not such a suite.
void write_page(const std::string &page, const std::vector<BenchRow> &rows, const Target &target);

} // namespace kumiko::bench
