// Single elements of an op's outputs, for ops that take long as a whole: of each stage only the part is evaluated on which the element
// depends.
#pragma once

#include "dsl/buffers.h"

namespace kumiko {

struct ElementValue {
    double value = 0;
    double bound = 0; // as interpret_with_bound gives it; 0 where the stated types are evaluated
};

// What interpret (dsl/interpret.h) gives there, or, with `bounded`, interpret_with_bound. `index` is inside of the output, outermost axis
// first. Throws as they do, and Unsupported for ops that call extern functions.
ElementValue interpret_element(const Op &op, const std::vector<Buffer<>> &inputs, const Sizes &sizes,
                               const std::string &output, const std::vector<int64_t> &index, bool bounded);

// Seconds, about, that evaluating all outputs takes, or one element: by the count of operations.
double interpret_seconds(const Op &op, const Sizes &sizes, bool bounded);
double interpret_element_seconds(const Op &op, const Sizes &sizes, const std::string &output,
                                 const std::vector<int64_t> &index, bool bounded);

} // namespace kumiko
