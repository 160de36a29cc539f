// Compares each tensor of a model's run with the same tensor in ONNX Runtime.
#pragma once

#include "graph/onnx/model.h"

#include <map>
#include <string>

namespace kumiko::cli {

struct PeerValues {
    std::string version;
    std::map<std::string, Buffer<>> values; // by name
};

// All values of the model's file in ONNX Runtime, as it is written, without its optimisations.
// `given`: the inputs by name. Throws UserError if ONNX Runtime is missing or refuses the model.
PeerValues run_onnxruntime(const graph::Model &model, const std::map<std::string, Buffer<>> &given);

struct CompareOptions {
    // Floats may differ by tolerance · (a + 1e-4), where a is the largest finite element of ONNX
    // Runtime's tensor. 0: 1e-7 for f64, 1e-3 for f32, 1e-2 for f16, 4e-2 for bf16. Bytes may
    // be one step away, since floats are quantised to neighbours; other integers and bools are
    // equal, and so are infinities; NaN are at the same elements.
    double tolerance = 0;
    std::string folder = "difference";
    // How the saved nodes are run alone: compiled as one program, or node by node.
    bool compiled = true;
};

// Runs the model's file in ONNX Runtime, as it is written, without its optimisations. `made`: the
// run's inputs, and the values that it has computed, by name.
//
// Prints how many values agree. The first one that does not, in the order of the nodes, is an
// error: its nodes, back to values that agree, are saved in the folder as a test of ONNX:
// model.onnx, test_data_set_0/input_0.pb, output_0.pb, with ONNX Runtime's values.
// Throws UserError for that, and if ONNX Runtime is missing or refuses the model.
void compare_with_onnxruntime(const graph::Model &model, const std::map<std::string, Buffer<>> &made,
                              const CompareOptions &options);

} // namespace kumiko::cli
