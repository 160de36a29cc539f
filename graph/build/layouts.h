// In which order the axes of each value of a graph are stored.
#pragma once

#include "driver/target.h"
#include "graph/fuse/groups.h"

#include <functional>

namespace kumiko::graph {

// Estimated seconds of one run of an op; infinite if it cannot run.
using OpSeconds = std::function<double(const Op &)>;

// The estimate of the default schedule on a target: a roofline and cache model of its loops
// (autotune/features/features.h). Lowers each op once.
OpSeconds estimated_seconds(const Target &target);

// Whether the value may be stored in two orders that differ: it is no constant, its size does not
// depend on data, and it has 3 to 5 axes, several channels and several pixels.
bool has_two_orders(const KnownValue &value);

struct Layouts {
    // The order in which the step that computes a value stores it; row-major if it is not listed.
    std::map<std::string, AxisOrder> stored;
    // Values that are stored in a second order too, which a copy makes. Empty: row-major.
    std::map<std::string, AxisOrder> copied;
    // By group: the order in which it reads values; row-major if they are not listed.
    std::vector<std::map<std::string, AxisOrder>> reads;

    const AxisOrder &order_of(const std::string &value) const;
};

// Chooses for each group whether the images that it reads, and those that it computes, have their
// channels as the second axis, as in ONNX, or as the last one, so that the estimated seconds of all
// groups and of copies from one order to the other have the least sum (graph/plan/pbqp.h). Inputs
// and outputs of the graph keep their order. Images are values of 3 to 5 axes. A Concat, Split or
// Slice costs nothing in an order in which parts are contiguous (graph/build/parts.h).
//
// Only groups of convolutions, pools, pointwise nodes and moves have a choice. The formulas of
// their sums keep the order of terms.
Layouts choose_layouts(const FixedGraph &graph, const std::vector<Group> &groups, const OpSeconds &seconds);

// The op that copies a value from one order to another.
GroupOp make_copy_op(const FixedGraph &graph, const std::string &value, const AxisOrder &from, const AxisOrder &to);

} // namespace kumiko::graph
