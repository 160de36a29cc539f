// Nodes of control flow as those of ONNX. Internal to graph/infer.
#pragma once

#include "graph/infer/fixed_graph.h"

namespace kumiko::graph {

// Adds a control node of `graph` (graph/ir/control.h) as an If, Loop, Scan or selection of ONNX.
// Its graphs read the values of `all` by their names. Constants such as numbers of iterations are
// added to it, and nodes that make sizes that depend on data.
void add_onnx_control(Graph &all, const FixedGraph &graph, const Node &node);

} // namespace kumiko::graph
