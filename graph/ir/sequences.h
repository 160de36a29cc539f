// Operators of sequences in terms of tensors, for sequences whose number of elements is known.
#pragma once

#include "graph/ir/graph.h"

namespace kumiko::graph {

// A position in a sequence of `count` elements; a negative one counts from the end. Throws
// UserError that names the node if it is not one of 0 to `count` − 1, or to `count` for an
// insertion.
size_t sequence_position(const Node &node, int64_t position, size_t count, bool insertion = false);

// Nodes of tensors, producers before consumers, and the names of their results.
struct TensorNodes {
    std::vector<Node> nodes;
    std::vector<std::string> results;
};

// The elements of a SplitToSequence of a tensor of these extents. `lengths`: the elements of its
// second input, which has `lengths_rank` axes; null if it is missing. Names begin with `prefix`.
// Throws UserError that names the node if these do not fit.
TensorNodes split_nodes(const Node &node, const std::vector<int64_t> &extents, const std::vector<int64_t> *lengths,
                        size_t lengths_rank, const std::string &prefix);
// A ConcatFromSequence of these tensors, whose result has the name of the node's. Throws UserError
// if there is none.
TensorNodes concat_nodes(const Node &node, const std::vector<std::string> &elements, const std::string &prefix);

} // namespace kumiko::graph
