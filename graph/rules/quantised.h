// Integers that stand for real numbers, in the nodes QuantizeLinear and DequantizeLinear.
#pragma once

#include "graph/rules/rewriter.h"

namespace kumiko::graph {

// real = scale · (integer − zero): one scale and zero for the whole tensor, or one for each index
// of an axis.
struct Quantisation {
    Type type; // of the integers
    std::vector<float> scale;
    std::vector<int64_t> zero; // as many
    size_t axis = 0;
    bool is_single() const { return scale.size() == 1; }
};

// The constant f32 scale and zero point of a node in two of its inputs, for integers of `type` in a
// tensor of these extents; nothing if they are no constants, or are of blocks,
// and of narrow types (dsl/narrow_types.h).
std::optional<Quantisation> quantisation_of(const Rewriter &graph, const Node &node, size_t scale, size_t zero,
                                            Type type, const Extents &extents, int64_t axis);
// The same of a QuantizeLinear or DequantizeLinear; nothing of other nodes.
std::optional<Quantisation> quantisation_of(const Rewriter &graph, const Node &node);

// The DequantizeLinear that makes the value; null if another node does.
const Node *dequantising(const Rewriter &graph, const std::string &value);
// The only reader of the value, if it is a QuantizeLinear of it; else null.
const Node *quantising_reader(const Rewriter &graph, const std::string &value);

bool is_same(const Quantisation &a, const Quantisation &b);
// The integer that QuantizeLinear makes of a number, with the scale and zero of the whole tensor.
int64_t quantised(const Quantisation &q, float number);
// The range of an integer type of at most 32 bits.
int64_t least(Type type);
int64_t most(Type type);

} // namespace kumiko::graph
