// Bytes that a nest transfers into caches, from the reuse between loop iterations.
//
// An iteration reuses what the previous one touched if the footprint of one iteration fits in the
// cache; otherwise it loads everything again. Cache lines are counted from access strides, as in
// Ding and Zhong, "Predicting whole-program locality through reuse distance analysis" (PLDI 2003),
// for loops with known trip counts.
#pragma once

#include "autotune/features/loop_tree.h"

namespace kumiko {

struct Traffic {
    double read = 0, written = 0; // bytes over the whole nest
    double total() const { return read + written; }
};

// For each capacity in bytes (ascending): the traffic from beyond a cache of that size, and the
// bytes written. The last entry is for an infinite cache: the footprint.
std::vector<Traffic> count_traffic(const LoopTree &tree, const std::vector<double> &capacities);

// Number of `line`-byte blocks (cache lines or pages) touched by one run of loop `node`.
double touched_lines(const LoopTree &tree, int node, double line = 64);

} // namespace kumiko
