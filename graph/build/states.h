// Pairs of inputs and outputs of a model that keep a state from one run to the next.
#pragma once

#include "graph/infer/fixed_graph.h"

namespace kumiko::graph {

using StatePairs = std::vector<std::pair<std::string, std::string>>; // input, output

// Pairs by names, of equal types and of shapes that do not contradict each other. Each output is in
// one pair. The names are
//   1. "past_k" and "present_k", also inside of a name: "past_key_values.0.key", "present.0.key";
//   2. if a word of the input's name says that it is a state ("h", "state1", "conv_cache"):
//      "h" and "hN", "hn", "h_n", "h_out", "h_next", "h_new", "out_h", "new_h", "next_h" or "r_h";
//      "h_in_0" and "h_out_0", or with "input" and "output".
StatePairs find_states(const Graph &graph);

// Throws UserError, naming the pair, if the graph has no such input or output, if one is in two
// pairs, or if their types or shapes differ.
void check_states(const FixedGraph &graph, const StatePairs &states);

} // namespace kumiko::graph
