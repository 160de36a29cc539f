// Operators of the domain com.microsoft that ONNX Runtime's quantiser writes, by those of ONNX.
#pragma once

#include "graph/ir/graph.h"

#include <optional>

namespace kumiko::graph {

// The nodes that compute an operator of com.microsoft; nothing if it is not known. Names of inner
// values begin with `prefix`. `opset`: of ai.onnx, of these nodes. Throws UserError if inputs are
// missing, and Unsupported for options that have no nodes; both name the node.
std::optional<std::vector<Node>> microsoft_body(const Node &node, const std::vector<ValueInfo> &inputs,
                                                const std::string &prefix, int opset);

} // namespace kumiko::graph
