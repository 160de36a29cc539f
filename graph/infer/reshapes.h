// Nodes that change the shape of a tensor and not the order of its elements.
#pragma once

#include "graph/formulas/formula.h"

namespace kumiko::graph {

// The order of the axes of a Transpose of a tensor of this rank, counted from 0.
std::vector<size_t> axis_order(const Node &transpose, size_t rank);

// Whether the node is a Reshape, Flatten, Squeeze or Unsqueeze, or a Transpose that only moves axes
// of one element. `extents`: of its first input.
bool is_reshape(const Node &node, const Extents &extents);

} // namespace kumiko::graph
