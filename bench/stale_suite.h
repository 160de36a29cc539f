// The suite `stale`: how much slower kernels run if their memory initially holds denormal numbers
// instead of zeros.
#pragma once

#include "bench/suite.h"

namespace kumiko::bench {

struct StaleRow {
    std::string name;           // "conv2d c=16,h=28,…"
    double fresh = 0, used = 0; // median seconds of a call, with zeros and with denormal numbers
    double ratio = 0;           // used to fresh, the median over rounds (bench/timer.h)
    double spread = 0;          // of fresh: (p90 − p10) / median
    std::string failure;        // why it was not measured; "" when it was
    Json json() const;
};

// Default schedules of `stale_cases` (bench/stale_cases.h), one thread. Workspaces and stack are
// filled before each sample, and one untimed call follows: it writes what the kernel writes, and
// what is only read keeps the fill. `only`: cases whose name contains it.
std::vector<StaleRow> run_stale_suite(const Target &target, const BenchOptions &options, const std::string &only = "",
                                      const std::function<void(const std::string &)> &progress = {});
std::string stale_suite_text(const std::vector<StaleRow> &rows);

} // namespace kumiko::bench
