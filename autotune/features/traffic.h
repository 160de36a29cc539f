// How many bytes a nest moves into caches, by which loops' iterations still find what earlier ones brought.
//
// A loop's iterations reuse what the last one touched if all that one iteration touches fits the cache; else each iteration brings
// it anew. Lines are counted from the strides of accesses, as in Ding and Zhong, "Predicting whole-program locality through reuse
// distance analysis" (PLDI 2003), for loops whose trip counts are known.
#pragma once

#include "autotune/features/loop_tree.h"

namespace kumiko {

struct Traffic {
    double read = 0, written = 0; // bytes over the whole nest
    double total() const { return read + written; }
};

// For each capacity in bytes, what has to come from beyond a cache of that size (and what is written). Ascending capacities; with
// the last entry for an endless cache: what is touched at all.
std::vector<Traffic> count_traffic(const LoopTree &tree, const std::vector<double> &capacities);

// Pieces of memory of `line` bytes that one run of the whole loop `node` touches: cache lines, or pages.
double touched_lines(const LoopTree &tree, int node, double line = 64);

} // namespace kumiko
