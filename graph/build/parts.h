// Values that are contiguous parts of others: joining them, or taking them apart, copies nothing if
// they share memory.
#pragma once

#include "graph/infer/fixed_graph.h"

namespace kumiko::graph {

// Offsets in bytes of parts in a whole.
using PartOffsets = std::vector<int64_t>;

// Whether the size of an input or output of the node depends on data.
bool has_bounded_value(const FixedGraph &graph, const Node &node);

// Where each result of a Slice or Split begins in its first input; those that are missing too.
// nullopt for other nodes, constant inputs, sizes that depend on data, and results that are no
// contiguous part of the input. Parts are contiguous if one axis is cut, and all axes that are
// stored before it have one element. `channels_last`: the second axis is stored as the last one.
std::optional<PartOffsets> parts_of_input(const FixedGraph &graph, const Node &node, bool channels_last = false);

// Where each input of a Concat begins in its result. nullopt for other nodes, if the inputs are no
// contiguous parts of the result, or if a size depends on data.
std::optional<PartOffsets> parts_of_result(const FixedGraph &graph, const Node &node, bool channels_last = false);

} // namespace kumiko::graph
