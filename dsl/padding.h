// Padding with any number; zero_padded and clamped are in dsl/tensor.h.
#pragma once

#include "dsl/tensor.h"

namespace kumiko {

// X padded with a number: a stage "X.padded" that may be read at any index, including negative
// ones. `axes` names the padded axes; empty means all. Throws UserError if `value` is not a number
// or does not fit X's type.
Tensor constant_padded(const Tensor &x, const Expr &value, const std::vector<Axis> &axes = {},
                       std::source_location where = std::source_location::current());

} // namespace kumiko
