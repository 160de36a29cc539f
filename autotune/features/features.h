// Numbers that describe a nest on a machine, for a model to learn from, and an estimate of its time that needs no learning.
//
// The estimate follows the roofline and execution-cache-memory models (Williams, Waterman and Patterson 2009; Treibig and Hager
// 2010): cycles of the arithmetic units, of loads and stores and of chains of dependent sums, body by body, beside cycles that
// bytes take between levels of memory. Features are those terms as logarithms, relative to what the op has to do at least, so that
// what is learnt of one shape holds for another; and each once more as its difference from the same of the space's default schedule, a good
// one whose weaknesses show in what others do otherwise.
#pragma once

#include "dsl/buffers.h"
#include "machine/machine.h"

#include <string>
#include <vector>

namespace kumiko {

struct Nest;

// Numbers that describe a candidate, in the order that `version` fixes; equal length for all candidates.
struct Features {
    int version = 0; // 0: none
    std::vector<float> values;
};

inline constexpr int features_version = 3;

// What each value is, "bodies.0.multiply_adds"; then "bodies.0.multiply_adds beside the default".
const std::vector<std::string> &feature_names();
// How many of them, the first ones, describe a nest by itself.
size_t own_features();

struct NestCost {
    Features features;
    double seconds = 0; // the estimate
};

// Of a lowered nest that runs on `threads` cores. A machine without clock or bandwidths counts as a typical one. `operations`: that the op
// needs (autotune/work.h), so that a nest which does more is seen to; 0: what the nest does.
NestCost cost_of(const Nest &nest, const Machine &machine, int threads, const Sizes &sizes, double operations = 0);
// With differences from what the other is by itself; until then they are 0.
void set_beside(Features &features, const Features &other);

} // namespace kumiko
