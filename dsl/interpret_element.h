// Evaluates single elements of an op's outputs, for ops that are slow to interpret in full. Of each
// stage, only the part that the element depends on is evaluated.
#pragma once

#include "dsl/buffers.h"

namespace kumiko {

struct ElementValue {
    double value = 0;
    double bound = 0; // as from interpret_with_bound; 0 if evaluated in the declared types
};

// The value that interpret (dsl/interpret.h) returns at `index`, or, with `bounded`, that of
// interpret_with_bound. `index` is inside the output, outermost axis first. Throws as they do, and
// Unsupported for ops that call extern functions.
ElementValue interpret_element(const Op &op, const std::vector<Buffer<>> &inputs, const Sizes &sizes,
                               const std::string &output, const std::vector<int64_t> &index, bool bounded);

// Estimated time in seconds to evaluate all outputs, or one element, from the operation count.
double interpret_seconds(const Op &op, const Sizes &sizes, bool bounded);
double interpret_element_seconds(const Op &op, const Sizes &sizes, const std::string &output,
                                 const std::vector<int64_t> &index, bool bounded);

} // namespace kumiko
