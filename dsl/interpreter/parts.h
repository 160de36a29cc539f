// Which parts of an op's stages an element of an output depends on.
#pragma once

#include "dsl/interpreter/program.h"

namespace kumiko::interpreter {

using Part = std::vector<Range>; // an index range for each axis

// By the names of stages, without padding, which is evaluated where it is read; stages on which it does not depend are left out. What
// cannot be told without the data counts whole. `index` is that of an element of the stage `output`, or of any of its components.
std::map<std::string, Part> parts_of(const Op &op, const std::map<std::string, int64_t> &sizes,
                                     const std::string &output, const std::vector<int64_t> &index);

// The stage that computes a tensor, itself or one of a reduction's further components; null for inputs.
const Stage *stage_of(const Op &op, const std::string &tensor);

} // namespace kumiko::interpreter
