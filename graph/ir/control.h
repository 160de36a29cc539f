// Nodes of control flow in a graph whose sizes are numbers (graph/infer/fixed_graph.h). They differ
// from ONNX's: the values of the enclosing graph that their graphs read are among their inputs, so
// that passes need not inspect the graphs.
//
//   If    inputs: the condition, then the values that its graphs read. The graphs of then and else
//         have these values as their inputs.
//   Loop  inputs: the number of iterations and the first condition, each "" if it is missing; the
//         initial states; arrays of which each iteration reads one slice along axis 0; the values
//         that its graph reads.
//         outputs: the last states; arrays of which each iteration makes one slice along axis 0.
//         Its graph's inputs are the number of the iteration, the states, the slices, and the
//         values that it reads. Its outputs are the condition of a further iteration, if that
//         depends on data, the next states and the slices. If the number of slices depends on data,
//         it is the loop's last output.
//   NonZero, Compress, Unique, NonMaxSuppression
//         inputs: those of ONNX's node, without missing ones. outputs: all that ONNX defines, then
//         the extent that depends on data.
#pragma once

#include "graph/ir/graph.h"

namespace kumiko::graph {

inline constexpr const char *control_domain = "kumiko.control";
inline bool is_control(const Node &node) { return node.domain == control_domain; }

// The structure of a Loop, which its node stores in attributes.
struct LoopForm {
    size_t states = 0, slices = 0;
    int64_t trips = -1;  // iterations; -1: data decide
    int64_t most = 0;    // the bound: a run with more iterations fails
    bool sized = false;  // the last output is the number of iterations
    bool tested = false; // the graph's first output is the condition of a further iteration
    // One number for each array that is read in slices, then for each that is made of slices. 1:
    // the first iteration has the last slice.
    std::vector<int64_t> backward;

    void store(Node &node) const;
    static LoopForm of(const Node &node);
};

// A selection of elements by their values, which a function of the runtime computes.
struct SelectionForm {
    std::string function; // "unique": kumiko_select_unique
    std::vector<int64_t> parameters;
    int64_t workspace = 0;               // bytes
    std::vector<std::string> given = {}; // the outputs of ONNX's node

    void store(Node &node) const;
    static SelectionForm of(const Node &node);
};
inline bool is_selection(const Node &node) { return is_control(node) && node.has("function"); }

// Positions in FixedGraph::graphs: two of an If, one of a Loop.
std::vector<int64_t> graphs_of(const Node &node);
void set_graphs(Node &node, const std::vector<int64_t> &graphs);

} // namespace kumiko::graph
