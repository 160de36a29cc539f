// Small models of ONNX in tests.
#pragma once

#include "graph/onnx/model.h"

#include <string>

namespace kumiko::graph {

// The model "m" of ONNX's text format: "(float[2] x) => (float[2] y)", "y = Relu(x)", and constants
// such as "float[1] c = {1}".
inline Model model(const std::string &signature, const std::string &body, const std::string &constants = "") {
    return Model::parse_text("<ir_version: 10, opset_import: [\"\" : 21]> g " + signature +
                                 (constants.empty() ? "" : " <" + constants + ">") + " {" + body + "}",
                             "m");
}

} // namespace kumiko::graph
