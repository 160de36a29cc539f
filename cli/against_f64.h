// Compares the kernels of a model, and the whole of it, with their formulas in double.
#pragma once

#include "graph/build/compiled_model.h"

namespace kumiko::cli {

// Runs the compiled model. Each kernel is compared with its formula, evaluated in double on the
// inputs that the kernel received, within the propagated error bound (dsl/interpret.h): all
// elements if that takes less than a second, otherwise elements at random. In a loop, that is the
// first call. Then the outputs are compared with those of the model in double, which is run node by
// node: their distance may be at most twice that of ONNX Runtime, or an error of rounding.
//
// `inputs`: of the model, in its order. Prints what was compared. Returns the outputs. Throws
// UserError for elements that differ by more.
std::vector<Buffer<>> compare_with_f64(const graph::Model &model, const graph::CompileModelOptions &options,
                                       const std::vector<Buffer<>> &inputs);

} // namespace kumiko::cli
