// Nodes that change the shape of a tensor and not the order of its elements.
#pragma once

#include "graph/rules/rewriter.h"

namespace kumiko::graph {

// Whether is_reshape (graph/infer/reshapes.h) holds and the reshaped value is not constant.
bool is_view(const Rewriter &graph, const Node &node);

// The order of axes of a Transpose, counted from 0.
std::vector<size_t> order_of(const Rewriter &graph, const Node &transpose);

// Whether the node commutes with a transposition of all its inputs and of its result: a pointwise
// operator, or a Concat with another axis. Its inputs are constants or have as many axes as its
// only result.
bool commutes(const Rewriter &graph, const Node &node);

} // namespace kumiko::graph
