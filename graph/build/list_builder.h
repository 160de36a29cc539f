// Makes the steps of a graph. Internal to graph/build.
#pragma once

#include "graph/build/value_places.h"

namespace kumiko::graph {

// Where a list of steps leaves an output of its graph.
struct OutputPlace {
    enum class Kind {
        Direct, // in this place, as soon as it is computed
        AtEnd,  // in this place, which other steps of the list read before
        Own,    // in a place of the list's choice
    } kind = Kind::Own;
    Place place;
};

// What the builders of a program's lists share.
struct ListBuilders {
    std::map<std::string, size_t> kernel_of = {}; // by the op's hash
    bool share_kernels = true;
    ProgramChoices chosen = {};
    const ProgramChoices *given = nullptr; // choices to take
};

// Makes the steps of a graph, which is the model's or one of control flow.
class ListBuilder {
public:
    // `depth`: number of loops around the list. `share`: as that of ValuePlaces.
    ListBuilder(Program &program, ListBuilders &shared, const FixedGraph &graph, const GroupOptions &options, int depth,
                const Layouts &layouts, bool share);

    // `inputs` and `outputs`: one for each of the graph.
    StepList run(const std::vector<Place> &inputs, const std::vector<OutputPlace> &outputs);

    // After run(): of a value that the steps make or read.
    Place place(const std::string &value) { return places_.place(value); }
    bool shares() const { return places_.shares(); } // whether values share memory

private:
    struct CopyOf {
        ValuePart from;
        std::string name; // the output of the graph
        Place to;
    };

    // Adds the step that copies the value to its second order, if it has one.
    void add_second_order(const std::string &value);
    size_t kernel_of(const Op &op);
    // Values that a step makes are written to their place at once; others are copied.
    void set_target(const std::string &output, const OutputPlace &target);
    // Adds a step that reads and writes values; its arguments are both, in this order.
    void add(Step step, const std::vector<ValuePart> &reads, const std::vector<std::string> &writes);
    // Lists the value and its views. Hooks do not see slices of iterations: the loop's step has the
    // whole.
    void describe(Step &step, const std::string &value);
    // Adds the copies of a Concat whose other inputs are in their places.
    void add_copies_of_parts(const Group &group);
    // A value of several steps is listed with the last one.
    void list_joined();
    // Adds a copy of the value to a place.
    void add_copy(const ValuePart &from, const std::string &name, const Place &to);
    // Copies next states to their places. A next state that is another state now is first copied
    // elsewhere, because the copies run one after another.
    void add_copies_at_end();
    void add_moved(const CopyOf &c);
    void add(const Group &group, size_t number);
    static void name_step(Step &step, const Node &node);
    // A value with the same elements as this one of indices, each less often. An expanded or tiled
    // tensor has many copies of few indices.
    std::string indices_of(std::string value) const;
    // The task of the check for these nodes, which is the same for equal checks.
    int add(const OpScope::Check &check, const std::vector<std::string> &nodes, size_t group);
    // Orders the first `count` steps; others follow.
    void order_steps(size_t count);

    // ---- Control flow (list_control.cpp)
    void add_selection(const Node &node);
    // The places of a node's inputs from number `first` on.
    std::vector<Place> places_of_inputs(const Node &node, size_t first);
    StepList list_of(const FixedGraph &graph, int depth, const std::vector<Place> &inputs,
                     const std::vector<OutputPlace> &outputs);
    // Adds a step with lists. The task writes the node's outputs and reads its inputs.
    void add_control(Step step, const Node &node);
    void add_branch(const Node &node);
    // One iteration's slice of an array along axis 0.
    Place slice_of(Place place, int64_t bytes, int64_t trips, bool backward) const;
    void add_loop(const Node &node);

    Program &made_;
    ListBuilders &shared_;
    const size_t number_; // of the list in ProgramChoices::lists
    const GroupOptions &options_;
    const int depth_;
    const size_t first_own_; // number of buffers of enclosing lists
    ValuePlaces places_;
    StepList list_;
    std::map<std::string, const Node *> producers_;
    std::map<std::pair<ValuePart, Extents>, int> checks_; // by value and extents
    std::vector<CopyOf> copies_, at_end_;
    std::map<std::string, Place> moved_; // states that are copied twice
    std::set<std::string> kept_;         // values that are used after the list's steps
};

} // namespace kumiko::graph
