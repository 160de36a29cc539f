// The suite `outside`: rates of kernels in a separate C program, which links a library of them and
// has a used heap, compared with the rates that `bench` measures inside this process.
#pragma once

#include "bench/suite.h"

#include <map>
#include <string>
#include <vector>

namespace kumiko::bench {

struct OutsideCase {
    BenchCase bench;
    // Parameters that the kernel takes as arguments of each call.
    std::vector<std::string> open = {};
};

struct OutsideRow {
    std::string suite, name, unit; // of the case; of the rates
    // The schedule comes from BenchOptions::database; otherwise it is the default.
    bool tuned = false;
    double inside = 0, outside = 0;
    // Speed outside relative to inside: medians over rounds. `lines` and `pages` are for arrays
    // aligned to cache lines, and for large pages too (bench/outside_program.h).
    double ratio = 0, lines = 0, pages = 0;
    double spread = 0;   // of the rounds' ratios: (p90 − p10) / median
    double recorded = 0; // rate recorded in the database for this schedule; 0: none
    std::string remark;
    std::string failure; // why it was not measured; "" if it was
    std::string wrong;   // how results outside differ from those inside; "" if all bits are equal
    Json json() const;
};

// Twenty cases of the other suites.
std::vector<OutsideCase> outside_cases();

// Builds one library of all cases, as `kumiko build` does. Both programs run the same schedule on
// the same inputs, alternately. Throws UserError if there is no C compiler, or if the C program
// ends early.
std::vector<OutsideRow> run_outside_suite(const std::vector<OutsideCase> &cases, const Target &target,
                                          const BenchOptions &options,
                                          const std::function<void(const std::string &)> &progress = {});
std::string outside_suite_text(const std::vector<OutsideRow> &rows);

} // namespace kumiko::bench
