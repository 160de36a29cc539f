// Inputs on which every legal schedule of an op computes the same bits.
#pragma once

#include "dsl/buffers.h"
#include "dsl/op.h"

#include <optional>
#include <set>
#include <string>

namespace kumiko {

// The largest m of 127 (where an input holds bytes), 4, 2 and 1 such that with integer inputs in
// [-m, m] (in [0, m] for unsigned types) every value that the op computes is an integer which its
// type holds exactly: then neither the order of sums nor contraction to FMA changes a bit, and a
// check may demand equal bits. Nothing when the op divides, calls functions (of C too), or sums too
// many terms. A last rounding to a narrower output type is allowed: it is done once, whatever the
// schedule.
std::optional<int> exact_input_magnitude(const Op &op, const Sizes &sizes);

// The tensors of any op that are exact for integer inputs of at most this magnitude. What is
// computed from results of an extern function does not count as exact.
std::set<std::string> exact_tensors(int magnitude, const Op &op, const Sizes &sizes);

} // namespace kumiko
