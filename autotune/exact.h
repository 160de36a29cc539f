// Inputs on which every legal schedule of an op computes the same bits.
#pragma once

#include "dsl/buffers.h"
#include "dsl/op.h"

#include <optional>
#include <set>
#include <string>

namespace kumiko {

// The largest m of 127 (where an input holds bytes), 4, 2 and 1 such that with integer inputs in [-m, m] (in [0, m] for unsigned types) every value that
// the op computes is an integer which its type holds exactly: then neither the order of sums nor contraction to FMA
// changes a bit, and a check may demand equal bits. Nothing when the op divides, calls functions, or sums too many
// terms. A last rounding to a narrower output type is allowed: it is done once, whatever the schedule.
std::optional<int> exact_input_magnitude(const Op &op, const Sizes &sizes);

// The same of what extern functions take, where what they make is compared by bounds: with a rounded
// input nothing could be promised of it, since it may decide differently. `stages`: the tensors that
// are exact. Nothing if one takes what is rounded, or made by another.
struct ExactBefore {
    int magnitude;
    std::set<std::string> stages;
};
std::optional<ExactBefore> exact_before_extern(const Op &op, const Sizes &sizes);

} // namespace kumiko
