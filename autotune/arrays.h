// What a kernel of an op is run on when it is judged, and what it has to compute.
#pragma once

#include "dsl/buffers.h"
#include "dsl/op.h"

namespace kumiko {

struct JudgedArrays {
    std::vector<Buffer<>> inputs;
    std::vector<Buffer<>> expected; // in the outputs' types where they have to have equal bits, else f64
    std::vector<Buffer<>> bounds;   // f64: how far each element may be from that; none where bits have to be equal
    bool exact = false;
    // Elements of the outputs that are checked, where evaluating all would take too long; 0: all. Then `expected` and `bounds` are f64
    // in either case, and have those elements alone.
    int64_t sampled = 0;
    std::vector<std::vector<int64_t>>
        places; // of a sample, for each output: which elements these are, in row-major order

    // What is wrong with an output; empty: nothing.
    std::string fault_of(size_t output, const Buffer<> &actual) const;
};

// An op that takes longer to evaluate is checked on a sample.
constexpr double longest_reference = 10;

// Throws UserError where tuning the op would take more than three quarters of this machine's memory for arrays. It makes none.
void require_memory(const Op &op, const Sizes &sizes, double longest = longest_reference);

// Where the op's arithmetic allows (autotune/exact.h), inputs are small integers and outputs must
// have equal bits. Elsewhere inputs are uniform in [-1, 1), and each output element must lie within
// the bound that its arithmetic implies. Where an extern function would take rounded values, inputs
// are small integers and outputs are compared with bounds. Throws UserError if the op cannot be
// evaluated on any of the inputs tried, or the arrays would take more than three quarters of the
// machine's memory. Throws Unsupported if an extern function takes rounded values with small
// integers too.
//
// Where evaluating the op would take more than `longest` seconds, as its operations count, 32 to 512 elements are evaluated, each alone:
// the corners of the outputs, and others at random, spread over every axis. Not of ops whose single elements take almost all there is,
// whose indices data decide, or which call extern functions or update arrays: they are evaluated as a whole, however long it takes.
JudgedArrays make_judged_arrays(const Op &op, const Sizes &sizes, uint64_t seed, double longest = longest_reference);

} // namespace kumiko
