// Features of a nest on a machine, as input of the cost model, and an analytical estimate of its
// time.
//
// The estimate follows the roofline and execution-cache-memory models (Williams, Waterman and
// Patterson 2009; Treibig and Hager 2010): per loop body, the cycles of arithmetic units, of loads
// and stores, and of dependence chains, plus the cycles of transfers between memory levels.
// Features are these terms as logarithms, relative to the minimum work of the op, so that a model
// generalises over shapes. Each feature also appears as the difference from the space's default
// schedule, which is a good reference.
#pragma once

#include "dsl/buffers.h"
#include "machine/machine.h"

#include <string>
#include <vector>

namespace kumiko {

struct Nest;

// Feature values, in an order fixed by `version`; the length is equal for all candidates.
struct Features {
    int version = 0; // 0: none
    std::vector<float> values;
};

inline constexpr int features_version = 3;

// The name of each value, "bodies.0.multiply_adds"; then "bodies.0.multiply_adds beside the
// default".
const std::vector<std::string> &feature_names();
// The number of leading values, which describe the nest itself.
size_t own_features();

struct NestCost {
    Features features;
    double seconds = 0; // the analytical estimate
};

// For a lowered nest that runs on `threads` cores. A machine without clock or bandwidths is treated
// as a typical one. `operations`: the operations that the op needs (autotune/work.h), which exposes
// redundant work. 0 stands for the operations of the nest.
NestCost cost_of(const Nest &nest, const Machine &machine, int threads, const Sizes &sizes, double operations = 0);
// Sets the difference values relative to `other`; before, they are 0.
void set_beside(Features &features, const Features &other);

} // namespace kumiko
