// Dependence analysis: the parts of an op's stages that one element of an output depends on.
#pragma once

#include "dsl/interpreter/program.h"

namespace kumiko::interpreter {

using Part = std::vector<Range>; // an index range per axis

// The parts by stage name. Padding stages are omitted, since they are evaluated at each read;
// stages that the element does not depend on are omitted too. Data-dependent indices require the
// whole extent. `index`: of an element of the stage `output`, or of one of its components.
std::map<std::string, Part> parts_of(const Op &op, const std::map<std::string, int64_t> &sizes,
                                     const std::string &output, const std::vector<int64_t> &index);

// The stage that computes a tensor, or of which the tensor is a component; null for inputs.
const Stage *stage_of(const Op &op, const std::string &tensor);

} // namespace kumiko::interpreter
