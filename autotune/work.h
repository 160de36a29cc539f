// How much an op has to do, and the least time in which this machine could.
#pragma once

#include "dsl/buffers.h"
#include "machine/machine.h"

namespace kumiko {

struct Work {
    // Arithmetic in sums: a product and an addition count two. An upper bound where there is
    // padding or where conditions exclude terms.
    double operations = 0;
    // Of those, the ones that every schedule executes: of sums all of whose elements and terms are
    // needed. An upper bound where there is padding.
    double least_operations = 0;
    double bytes = 0; // of all inputs and outputs, each once
    double output_bytes = 0;
    int narrowest_bits = 64; // of the types that are multiplied
    bool padded = false;     // zeros around an input may be skipped
};

Work count_work(const Op &op, const Sizes &sizes);

// Seconds below which a measurement cannot be true: the least arithmetic at 1.25 times the peak of
// `threads` units at that clock (half as much where padding may be skipped), and the outputs at two
// vector stores a cycle. 0 when the clock or the machine's rate is unknown, or tensor instructions
// beyond its table may be at work.
double least_possible_seconds(const Work &work, const Machine &machine, int threads, double clock_hz);

// The roofline: the sums' arithmetic at the peak of `threads` units at that clock, and every byte once at a vector a cycle. 0 when the
// clock or the machine's rate is unknown. Of a chip, whose clock is known: products at the rate of its matrix units, and every byte once
// at that of its DRAM. What skips padding, or transforms the sums (Winograd), may be faster.
double bound_seconds(const Work &work, const Machine &machine, int threads, double clock_hz);

// "0.93 of the roofline", or that it is beaten, and so no bound of this op: by a clock above the one that was measured, padding that is
// skipped, products that are saved, or data that stand in caches with more than a vector a cycle.
std::string roofline_text(double bound, double seconds);

// Whether arithmetic rather than memory is what the op is measured by: GFLOP/s, not GB/s.
bool measured_by_operations(const Work &work);
// "112 GFLOP/s", or GB/s for an op that does little with each byte.
std::string rate_text(const Work &work, double seconds);

} // namespace kumiko
