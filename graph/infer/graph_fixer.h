// Replaces open sizes of a graph by numbers, node by node. Internal to graph/infer.
#pragma once

#include "graph/infer/fixed_graph.h"

#include <set>

namespace kumiko::graph {

// The node with other names of values. Its graphs are renamed too, except where they define a value
// of the same name.
Node renamed(Node node, const std::map<std::string, std::string> &names);

Buffer<> truth(bool value); // a tensor without axes

// The nodes of one graph: the model's, or one of control flow inside of it.
class GraphFixer {
public:
    GraphFixer(const Model &model, const FixOptions &options)
        : model_(model), options_(options), opsets_(model.opsets()), shared_(std::make_shared<Shared>()) {}
    FixedGraph run();

private:
    using Names = std::map<std::string, std::string>;
    // Of the whole model.
    struct Shared {
        int bodies = 0;              // graphs that have had a prefix
        std::set<std::string> loops; // names of their nodes
    };

    // For a graph of control flow, which may read the values of the enclosing one.
    explicit GraphFixer(GraphFixer &outer)
        : model_(outer.model_), options_(outer.options_), opsets_(outer.opsets_), outer_(&outer),
          shared_(outer.shared_) {
        made_.name = outer.made_.name;
    }

    void add_inputs();
    // The extent of axis d of an input. Adds its symbol to `symbols` if it is an open size.
    int64_t size_of(const ValueInfo &in, size_t d, std::set<std::string> &symbols) const;
    void define_constant(const std::string &name, const Buffer<> &value);
    // The value, of this graph or an enclosing one. Throws UserError that names the reader if there
    // is none.
    const KnownValue &find(const std::string &name, const std::string &reader);
    // Adds a node, or the nodes that replace it, by the functions below.
    void add(const Node &node);
    void add_formula(const Node &node);
    // Throws Unsupported if a value that is needed when the model runs has strings.
    void require_numbers(const std::string &name, const std::string &reader);
    // Computes a group of constants. Returns false if it is left to run time.
    bool fold(const GroupOp &group);
    bool are_quantised_weights(const Node &node) const;
    // Adds the nodes of the operator's definition in place of the node.
    void add_body(const Node &node);
    // Removes nodes and values that no output depends on.
    void remove_unused();
    // A prefix of names for a graph that takes the place of the node.
    std::string new_prefix(const Node &node);
    // The name, with underscores appended while a value of this graph or an enclosing one has it.
    std::string unused_name(std::string name) const;
    // Adds all nodes of a graph with names that begin with the prefix. `names`: of its inputs in
    // this graph. Returns the names of its outputs.
    std::vector<std::string> add_graph(const Graph &graph, const std::string &prefix, Names names);
    // Gives a value a further name.
    void define_as(const std::string &name, const std::string &value, const Node &node);

    // ---- Sizes that depend on data (selections.cpp)
    // Returns false, and adds nothing, if the node's formula computes it.
    bool add_selection(const Node &node);
    // Gives the results of an elementwise node the bounded axis of its inputs.
    void pass_bound(const Node &node);

    // ---- Sequences and optionals (sequences.cpp)
    // What is known of a value that is no tensor: an optional without an element, or a sequence of
    // tensors.
    struct Structure {
        bool none = false;
        std::vector<std::string> elements;
    };
    // Null if the value is a tensor, or does not exist.
    const Structure *structure(const std::string &name) const;
    const Structure &sequence(const Node &node, size_t n) const;
    // The position that an optional input has in a sequence of `count` elements.
    size_t position(const Node &node, size_t n, size_t count, int64_t otherwise, bool insertion = false);
    std::vector<int64_t> constant_integers(const Node &node, size_t n);
    // Returns false, and adds nothing, if the node takes and makes tensors only.
    bool add_structure(const Node &node);
    void add_split(const Node &node);
    void add_map(const Node &node);

    // ---- Control flow (control_flow.cpp, loops.cpp, loop_bodies.cpp)
    struct Loop;
    struct LoopState;
    struct LoopSlice;
    struct LoopStack;
    void add_if(const Node &node);
    // An If whose condition depends on data.
    void add_branches(const Node &node);
    void add_loop(const Node &node);
    void add_scan(const Node &node);
    // A Scan of opset 8, which has a batch as its first axis.
    void add_scan_of_batches(const Node &node);
    // Adds a loop: as a node with a graph of its own, or its iterations one after another.
    void add(Loop &loop);
    // The most iterations: of the node, or as stated.
    void limit_iterations(Loop &loop);
    // What the body says about a further iteration. `graph`: the body's, which loses the condition
    // if it is known. Throws UserError for a loop without an end.
    void take_condition(Loop &loop, FixedGraph &graph);
    // The graph of a loop, for the shapes of its initial states (loop_bodies.cpp).
    FixedGraph fix_body(const Loop &loop, const std::string &prefix);
    // Adds the node of a loop whose graph has fixed sizes.
    void finish_loop(const Loop &loop, FixedGraph graph);
    struct LoopNode;
    void add_state(LoopNode &made, const LoopState &state, const std::string &unnamed);
    void add_stack(LoopNode &made, const Loop &loop, const LoopStack &stack);
    // Adds the nodes of each iteration, whose number is known.
    void unroll(const Loop &loop);
    // Adds those of iteration i. Returns the names of the body's outputs.
    std::vector<std::string> add_iteration(const Loop &loop, int64_t i, const std::string &prefix,
                                           const std::vector<std::string> &states);
    // Adds a node in place of a part of `like`.
    void add_node(const Node &like, const std::string &op, const std::vector<std::string> &inputs,
                  const std::string &output, const std::string &attribute, const Attribute &value);
    // Gives the value's axis 0 another position.
    void move_axis(const Node &node, const std::string &value, int64_t axis, const std::string &result);
    // Ends an inner graph: sets its outputs, and adds the values that it reads of the enclosing
    // graph to its inputs.
    void end_inner(FixedGraph &made, const std::vector<std::string> &outputs, const Node &node);
    // The value with its axes in this order: itself, or the result of a Transpose.
    std::string transposed(const Node &node, const std::string &value, const std::vector<int64_t> &order,
                           const std::string &name);

    const Model &model_;
    const FixOptions &options_;
    const std::map<std::string, int> opsets_;
    GraphFixer *const outer_ = nullptr;
    FixedGraph made_;
    std::map<std::string, Structure> structures_;
    std::vector<std::string> captured_; // values of enclosing graphs that this one reads
    std::shared_ptr<Shared> shared_;
};

} // namespace kumiko::graph
