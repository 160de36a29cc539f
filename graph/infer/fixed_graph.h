// A graph whose sizes are numbers: every value has an element type and extents, and values that are
// the same in all runs are computed. Kernels are made from it.
#pragma once

#include "graph/eval/evaluate.h"
#include "graph/formulas/group.h"

namespace kumiko::graph {

struct FixedGraph {
    std::string name; // of the model, for messages
    std::vector<std::string> inputs, outputs;
    // By name: inputs, constants and results of nodes.
    std::map<std::string, KnownValue> values;
    // Producers before consumers. All have formulas: functions are expanded, an If is replaced by
    // one of its graphs. Nodes whose results are constants or are not needed are left out.
    std::vector<Node> nodes;

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
};

// A node whose inputs are constants is computed now if the result is not larger than they are, or
// has at most 64 KiB. Otherwise a smaller constant would become a larger one.
//
// Throws UserError if a size is missing, unknown or contradicts another, or if inputs do not fit an
// operator; Unsupported for what has no formula, for shapes that depend on data, and for loops.
// Errors name the node.
FixedGraph fix_sizes(const Model &model, const FixOptions &options = {});

// The graph with all its constants, and the types and shapes of values that nodes make.
std::pair<Graph, std::vector<ValueInfo>> to_graph(const FixedGraph &graph);
// The graph as a model of ONNX, with the types and shapes of all values. Throws as Model::of_graph.
Model to_model(const FixedGraph &graph);

} // namespace kumiko::graph
