// A Loop or Scan while its sizes are fixed. Internal to graph/infer.
#pragma once

#include "graph/infer/graph_fixer.h"
#include "graph/ir/control.h"

namespace kumiko::graph {

// Names of values: in the enclosing graph, and of the body's inputs and outputs.
struct GraphFixer::LoopState {
    std::string initial, input, next;
    std::string result;                            // "" if it is not needed
    bool changes() const { return next != input; } // else it is a value of the enclosing graph
};
struct GraphFixer::LoopSlice { // of an array, one for each iteration
    std::string source, input;
    bool backward = false;
};
struct GraphFixer::LoopStack { // of one value of each iteration
    std::string result;        // "" if it is not needed
    bool backward = false;
};

struct GraphFixer::Loop {
    Loop(const Node &node, const Graph &body) : node(node), body(body) {}

    // The position of the body's first output that is a state.
    size_t first_state() const { return returns_condition ? 1 : 0; }

    const Node &node;
    const Graph &body;
    LoopForm form;                  // trips, most and tested
    std::string count, condition;   // values that depend on data; "" if they do not
    std::string number, again;      // inputs of the body: iteration, condition; or ""
    bool bounded = false;           // the most iterations are known or stated
    bool returns_condition = false; // the body's first output
    std::vector<LoopState> states;
    std::vector<LoopSlice> slices;
    std::vector<LoopStack> stacks;
};

// "f32[2,3]", for messages.
std::string shape_text(const KnownValue &v);
// One element of a condition or a number of iterations. Throws UserError for other tensors.
void require_scalar(const Node &node, const KnownValue &v, Type type);
bool known_condition(const Node &node, const KnownValue &v);
// The name of the node, or of its first output.
std::string name_of(const Node &node);

} // namespace kumiko::graph
