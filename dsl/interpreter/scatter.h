// Scatters (dsl/scatter.h) in the interpreter: each element folds only the steps whose index
// selects it.
#pragma once

#include "dsl/interpreter/program.h"

namespace kumiko::interpreter {

// The axis along which the stage scatters, if the index depends only on the reduction step; "" if
// every step must visit every element.
std::string scatter_axis(const Stage &stage);

// For each index along that axis, of `extent` elements, the steps that select it: row-major
// positions in the reduction axes, ascending. `extents`: of the reduction axes.
using Steps = std::vector<std::vector<int64_t>>;
Steps steps_by_index(const Context &context, const Stage &stage, int64_t extent, const std::vector<int64_t> &extents);

} // namespace kumiko::interpreter
