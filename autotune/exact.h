// Inputs for which every legal schedule of an op computes the same bits.
#pragma once

#include "dsl/buffers.h"
#include "dsl/op.h"

#include <optional>
#include <set>
#include <string>

namespace kumiko {

// The largest m out of 127 (if an input has bytes), 4, 2 and 1 such that, for integer inputs in
// [-m, m] (unsigned: [0, m]), every intermediate value is an integer that its type represents
// exactly. Summation order and FMA contraction then do not change the result, and checks can
// require equal bits. nullopt if the op divides, calls functions (including extern ones), or sums
// too many terms. A final rounding to a narrower output type is allowed, because it happens once in
// every schedule.
std::optional<int> exact_input_magnitude(const Op &op, const Sizes &sizes);

// The tensors of any op that are exact for integer inputs of at most this magnitude. Values
// computed from the results of an extern function do not count as exact.
std::set<std::string> exact_tensors(int magnitude, const Op &op, const Sizes &sizes);

} // namespace kumiko
