// The page of measured performance: Markdown with a table and a picture of each suite, and behind it the numbers as JSON.
#pragma once

#include "bench/suite.h"

namespace kumiko::bench {

// Writes page/SUITE.json for each suite of `rows`, then page.md and page/SUITE.svg from all page/*.json: suites that were
// measured before keep their numbers. `page` must end in ".md". Throws UserError for rows of a suite
// whose cases are not kernels beside peers (compile, chip-*, sim-speed), and for files that are not such a suite.
void write_page(const std::string &page, const std::vector<BenchRow> &rows, const Target &target);

} // namespace kumiko::bench
