// Pairs of inputs and outputs of a model that keep a state from one run to the next.
#pragma once

#include "graph/infer/fixed_graph.h"

namespace kumiko::graph {

using StatePairs = std::vector<std::pair<std::string, std::string>>; // input, output

// Pairs by names: "h" and "hN", "hn", "h_n", "h_out", "h_next", "h_new", "out_h", "new_h" or
// "next_h"; "in_h" and "out_h", or "h_in" and "h_out"; "past_h" and "present_h". Each output is in
// one pair.
StatePairs find_states(const Graph &graph);

// Throws UserError, naming the pair, if the graph has no such input or output, if one is in two
// pairs, or if their types or shapes differ.
void check_states(const FixedGraph &graph, const StatePairs &states);

} // namespace kumiko::graph
