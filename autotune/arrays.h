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
};

// Where the op's arithmetic allows (autotune/exact.h), inputs are small integers and outputs must have equal bits; elsewhere inputs
// are uniform in [-1, 1) and each output element must lie within the bound that its arithmetic implies. Throws UserError when the op
// cannot be evaluated on any of the inputs tried.
JudgedArrays make_judged_arrays(const Op &op, const Sizes &sizes, uint64_t seed);

} // namespace kumiko
