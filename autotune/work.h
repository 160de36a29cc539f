// The work of an op, and lower bounds on its time on a machine.
#pragma once

#include "dsl/buffers.h"
#include "machine/machine.h"

namespace kumiko {

struct Work {
    // Arithmetic in sums: a product and an addition count as two. An upper bound if there is
    // padding or conditions exclude terms.
    double operations = 0;
    // The part that every schedule executes: sums of which all elements and terms are needed. An
    // upper bound if there is padding.
    double min_operations = 0;
    double bytes = 0; // of all inputs and outputs, once each
    double output_bytes = 0;
    int narrowest_bits = 64; // of the multiplied types
    bool padded = false;     // zero padding can be skipped
};

Work count_work(const Op &op, const Sizes &sizes);

// The shortest plausible time in seconds: the least arithmetic at 1.25 times the peak of `threads`
// units at that clock (half as much if padding can be skipped), and the outputs at two vector
// stores per cycle. 0 if the clock or the machine's rate is unknown, or if tensor instructions that
// its table does not describe may be used.
double least_possible_seconds(const Work &work, const Machine &machine, int threads, double clock_hz);

// The roofline: the arithmetic of the sums at the peak of `threads` units at that clock, and each
// byte transferred once, at one vector per cycle. 0 if the clock or the machine's rate is unknown.
// For a chip, whose clock is known: products at the rate of its matrix units, and each byte once at
// its DRAM bandwidth. Schedules that skip padding or transform the sums (Winograd) can be faster.
double bound_seconds(const Work &work, const Machine &machine, int threads, double clock_hz);

// "0.93 of the roofline", or that it is exceeded and so is not a bound for this op: because of a
// clock above the measured one, skipped padding, saved products, or caches that deliver more than
// one vector per cycle.
std::string roofline_text(double bound, double seconds);

// Whether the op's rate is stated in GFLOP/s (arithmetic) instead of GB/s (memory).
bool measured_by_operations(const Work &work);
// "112 GFLOP/s", or GB/s for an op with little arithmetic per byte.
std::string rate_text(const Work &work, double seconds);

} // namespace kumiko
