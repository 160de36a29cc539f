// The arrays on which a candidate kernel is run and checked.
#pragma once

#include "dsl/buffers.h"
#include "dsl/op.h"

namespace kumiko {

// Inputs of a candidate, and the values that its outputs are compared with.
struct MeasuredArrays {
    std::vector<Buffer<>> inputs;
    std::vector<Buffer<>> expected; // in the outputs' types if bits must be equal, otherwise f64
    std::vector<Buffer<>> bounds;   // f64: error bound per element; empty if bits must be equal
    bool exact = false;
    // Number of output elements that are checked, if evaluating all would take too long; 0: all.
    // `expected` and `bounds` are then f64 and hold only these elements.
    int64_t sampled = 0;
    // Per output: the row-major positions of the sampled elements.
    std::vector<std::vector<int64_t>> places;

    // What is wrong with an output; "" if nothing is.
    std::string fault_of(size_t output, const Buffer<> &actual) const;
};

// If evaluating the op takes longer, in seconds, it is checked on a sample.
constexpr double longest_reference = 10;

// Throws UserError if the arrays for tuning the op would need more than three quarters of this
// machine's memory. Allocates nothing.
void require_memory(const Op &op, const Sizes &sizes, double longest = longest_reference);

// If the op's arithmetic allows it (autotune/exact.h), inputs are small integers and outputs must
// be equal bit for bit. Otherwise inputs are uniform in [-1, 1), and each output element must be
// within its error bound. If an extern function would receive rounded values, inputs are small
// integers and outputs are compared within bounds. Throws UserError if the op cannot be evaluated
// on any of the inputs tried, or if the arrays would need more than three quarters of the machine's
// memory. Throws Unsupported if an extern function receives rounded values even with small
// integers.
//
// If evaluating the op would take more than `longest` seconds, estimated from its operation count,
// 32 to 512 elements are evaluated individually: the corners of the outputs, and random ones spread
// over every axis. Exceptions are ops whose elements depend on almost everything, whose indices are
// data-dependent, that call extern functions, or that update arrays in place: they are evaluated in
// full, however long it takes.
MeasuredArrays make_measured_arrays(const Op &op, const Sizes &sizes, uint64_t seed,
                                    double longest = longest_reference);

} // namespace kumiko
