// Scatters (dsl/scatter.h) as the interpreter runs them: an element folds those steps only that name it.
#pragma once

#include "dsl/interpreter/program.h"

namespace kumiko::interpreter {

// The axis along which a stage scatters by an index that the steps alone decide; "" where every step visits every element.
std::string named_axis(const Stage &stage);

// For each index along the axis, the steps that name it: row-major positions in the reduction's axes, in order.
using Steps = std::vector<std::vector<int64_t>>;
Steps named_steps(const Context &context, const Stage &stage, int64_t extent, const std::vector<int64_t> &extents);

} // namespace kumiko::interpreter
