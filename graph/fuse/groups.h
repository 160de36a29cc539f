// Divides the nodes of a graph into groups. One op computes each group.
#pragma once

#include "graph/infer/fixed_graph.h"

namespace kumiko::graph {

struct Group {
    std::vector<size_t> nodes;        // positions in FixedGraph::nodes, ascending
    std::vector<std::string> outputs; // values that other groups read, or outputs of the graph
    // The only output is the input with another shape: the same elements in the same order. Nothing
    // is computed.
    bool view = false;
};

struct GroupOptions {
    bool fuse = true; // else each node is a group
};

// Groups in an order in which each follows all that it reads.
//
// A node with a reduction, product or window begins a group (an anchor). Pointwise nodes that
// follow it join, as long as they form a closed region: all paths from the anchor meet again in one
// value before they leave the group (the post-dominator rule of TVM's FuseOps). Each element of the
// anchor is then used where it is computed. Pointwise nodes without an anchor form such regions of
// their own, and take in injective producers that they alone read. Pointwise nodes that make a
// tensor wider, such as DequantizeLinear, belong to the group of their only reader if that is
// pointwise.
std::vector<Group> group_nodes(const FixedGraph &graph, const GroupOptions &options = {});

// A value that one group stores and another one reads.
struct Boundary {
    size_t from = 0, to = 0; // positions in Grouping::groups
    std::string value;
    std::string reason; // why its reader is in another group: "MatMul is not pointwise: …"
};

// The groups of group_nodes(), with the reasons why they are not larger. Views are in no boundary.
struct Grouping {
    std::vector<Group> groups;
    std::vector<Boundary> boundaries;
};
Grouping explain_groups(const FixedGraph &graph, const GroupOptions &options = {});

// The op of a group. `orders`: as those of make_group_op for nodes. Throws as that does.
GroupOp make_group_op(const FixedGraph &graph, const Group &group, const std::map<std::string, AxisOrder> &orders = {});

} // namespace kumiko::graph
