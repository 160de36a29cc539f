// Small ops used as examples for the primitives in the reference.
#pragma once

#include "dsl/op.h"

namespace kumiko {

// "matmul", "matmul_any" (symbolic number of rows), "matmul_i16" (accumulates in i32), "conv",
// "conv_i8", "softmax", "dense", "add", "rowsum", "extremes" (argmax and argmin of the rows),
// "chain".
// Throws UserError for any other name.
Op example_op(const std::string &name);
std::vector<std::string> example_op_names();

} // namespace kumiko
