// Padding with any number; zero_padded and clamped are in dsl/tensor.h.
#pragma once

#include "dsl/tensor.h"

namespace kumiko {

// X with a number around it: a stage "X.padded" that may be read at any index, also a negative one. `axes` names the axes that may
// be read outside; empty means all. Throws UserError for what is no number, or one that X's type does not hold.
Tensor constant_padded(const Tensor &x, const Expr &value, const std::vector<Axis> &axes = {},
                       std::source_location where = std::source_location::current());

} // namespace kumiko
