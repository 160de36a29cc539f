// A graph whose sizes are numbers: every value has an element type and extents, and values that are
// the same in all runs are computed. Kernels are made from it.
#pragma once

#include "graph/eval/evaluate.h"
#include "graph/formulas/group.h"

namespace kumiko::graph {

// An output whose extent along an axis depends on data, and the output with that extent.
struct SizedOutput {
    size_t output = 0, axis = 0, size = 0; // positions in FixedGraph::outputs
};

struct FixedGraph {
    std::string name; // of the model, for messages
    std::vector<std::string> inputs, outputs;
    // By name: inputs, constants and results of nodes.
    std::map<std::string, KnownValue> values;
    // Producers before consumers. Functions are expanded. One of its graphs replaces an If whose
    // condition is known. All have formulas but nodes of control flow (graph/ir/control.h). Nodes
    // whose results are constants or are not needed are left out.
    std::vector<Node> nodes;
    // The outputs after those of the model are extents of these.
    std::vector<SizedOutput> sized;
    // Of nodes of control flow. Their inputs are those that graph/ir/control.h says.
    std::vector<std::shared_ptr<const FixedGraph>> graphs;

    const KnownValue &value(const std::string &name) const { return values.at(name); }
    bool is_constant(const std::string &name) const { return values.at(name).constant; }
    int64_t bytes(const std::string &name) const { return values.at(name).bytes(); }
};

struct FixOptions {
    // Of the symbols in the shapes of inputs: {"batch", 1}. An axis without a symbol is
    // "<input>:0".
    std::map<std::string, int64_t> sizes;
    // Values of inputs that are the same in all runs, by name. FixedGraph::inputs leaves them out.
    std::map<std::string, Buffer<>> constants;
    // Computes nodes of constants that take more than a million steps of `interpret`. Null:
    // `interpret` computes all.
    RunOp run = nullptr;
    // The most iterations of loops whose number of iterations depends on data, by the name of the
    // node; other names are errors. A loop without one may run 2^31 − 1 times, if it does not
    // collect a result of each iteration.
    std::map<std::string, int64_t> bounds = {};
    int64_t bound = 0; // the same of other loops; 0: none
    // Nodes of constants, by their first output: whether they are computed now. Those that are not
    // listed are added, so that graphs of other sizes can have the same nodes. Null: none.
    std::shared_ptr<std::map<std::string, bool>> folded = nullptr;
};

// A node whose inputs are constants is computed now if the result is not larger than they are, or
// has at most 64 KiB. Otherwise a smaller constant would become a larger one. A DequantizeLinear of
// a constant of bytes with two axes or more remains: products may read the bytes.
//
// Throws UserError if a size is missing, unknown or contradicts another, or if inputs do not fit an
// operator, or if a loop has no end; Unsupported for what has no formula and for shapes that depend
// on data. Errors name the node.
FixedGraph fix_sizes(const Model &model, const FixOptions &options = {});

// The graph with all its constants, and the types and shapes of values that nodes make.
std::pair<Graph, std::vector<ValueInfo>> to_graph(const FixedGraph &graph);
// The graph as a model of ONNX, with the types and shapes of all values. Throws as Model::of_graph.
Model to_model(const FixedGraph &graph);

} // namespace kumiko::graph
