// The small ops on which the reference page shows each primitive.
#pragma once

#include "dsl/op.h"

namespace kumiko {

// "matmul", "matmul_any" (its rows are a size), "matmul_i16" (sums in i32), "conv", "conv_i8",
// "softmax", "dense", "add", "rowsum", "extremes" (of the rows), "chain".
// Throws UserError for another name.
Op example_op(const std::string &name);
std::vector<std::string> example_op_names();

} // namespace kumiko
