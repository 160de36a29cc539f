// Nodes whose result is one of their inputs.
#include "graph/rules/constants.h"
#include "graph/rules/rules.h"
#include "graph/rules/views.h"

#include <algorithm>
#include <cmath>

namespace kumiko::graph {

namespace {

bool has_unused_outputs(const Rewriter &g, const Node &n) {
    return std::all_of(n.outputs.begin() + 1, n.outputs.end(),
                       [&](const std::string &o) { return o.empty() || (g.readers(o).empty() && !g.is_output(o)); });
}

bool is_zero_everywhere(const std::optional<std::vector<int64_t>> &numbers) {
    return numbers && std::all_of(numbers->begin(), numbers->end(), [](int64_t v) { return v == 0; });
}

// Types and extents of input and output are known to be equal.
bool is_no_op(const Rewriter &g, const Node &n) {
    if (n.op == "Identity" || n.op == "Cast" || n.op == "CastLike" || n.op == "Expand" || n.op == "Tile") return true;
    if (n.op == "Dropout") return has_unused_outputs(g, n);
    if (n.op == "Concat" || n.op == "Sum" || n.op == "Max" || n.op == "Min" || n.op == "Mean")
        return n.inputs.size() == 1;
    if (n.op == "Split") return n.outputs.size() == 1;
    if (n.op == "Pad") return is_zero_everywhere(integers_of(g, n, 1, "pads"));
    if (n.op == "Slice") {
        // Extents are equal, so a positive step above 1 is along an axis of one element.
        if (!n.has_input(4)) return true;
        const auto steps = integers_of(g, n, 4, "");
        return steps && std::all_of(steps->begin(), steps->end(), [](int64_t s) { return s > 0; });
    }
    return is_view(g, n);
}

bool remove_no_op(Rewriter &g, const Node &n) {
    if (!n.domain.empty() || n.outputs.empty() || n.outputs[0].empty() || !n.has_input(0)) return false;
    const KnownValue &from = g.value(n.inputs[0]), &to = g.value(n.outputs[0]);
    if (from.constant || from.type != to.type || from.extents != to.extents || !is_no_op(g, n)) return false;
    return g.replace_value(n.outputs[0], n.inputs[0]);
}

// The input of a binary node whose elements the other, constant input does not change; −1 if
// there is none. `positive_zero`: +0 counts as such a summand, although -0 + 0 is +0.
int unchanged_input(const Rewriter &g, const Node &n, bool positive_zero) {
    if (!n.domain.empty() || n.inputs.size() != 2) return -1;
    const bool sum = n.op == "Add", difference = n.op == "Sub", product = n.op == "Mul", quotient = n.op == "Div";
    if (!sum && !difference && !product && !quotient) return -1;
    for (size_t c = 0; c < 2; c++) {
        if (c == 0 && (difference || quotient)) continue;
        const Buffer<> *b = g.constant(n, c);
        const size_t data = 1 - c;
        if (!b || g.constant(n, data)) continue;
        if (g.extents(n.inputs[data]) != g.extents(n.outputs[0])) continue;
        const auto numbers = numbers_of(*b);
        if (!numbers) continue;
        const bool floats = Type(b->type()).is_float();
        const auto keeps = [&](double v) {
            if (product || quotient) return v == 1;
            if (v != 0) return false;
            // x - 0 and x + (-0) are x, also if x is -0.
            return !floats || positive_zero || std::signbit(v) == sum;
        };
        if (std::all_of(numbers->begin(), numbers->end(), keeps)) return static_cast<int>(data);
    }
    return -1;
}

bool remove_neutral_constant(Rewriter &g, const Node &n) {
    const int data = unchanged_input(g, n, false);
    return data >= 0 && g.replace_value(n.outputs[0], n.inputs[size_t(data)]);
}

bool remove_zero_summand(Rewriter &g, const Node &n) {
    const int data = unchanged_input(g, n, true);
    return data >= 0 && g.replace_value(n.outputs[0], n.inputs[size_t(data)]);
}

} // namespace

std::vector<Rule> no_ops_rules() {
    return {
        {"remove_no_op",
         "A node moves, converts or joins nothing: Identity, Dropout in inference, Cast to the same type, Expand, "
         "Tile, Reshape, Squeeze, Unsqueeze, Flatten or Transpose to the same shape and order, Slice of all, Pad of "
         "nothing, Concat, Sum, Max, Min or Mean of one input, Split into one.",
         "Its readers read its input.", Rounding::Exact, "ONNX Runtime: EliminateIdentity, NoopElimination and others",
         "(float[2, 3] x) => (float[2, 3] y) <int64[2] s = {2, 3}> { a = Reshape(x, s) b = Identity(a) y = Relu(b) }",
         "(float[2, 3] x) => (float[2, 3] y) { y = Relu(x) }", remove_no_op},
        {"remove_neutral_constant",
         "A tensor is multiplied or divided by 1, or has 0 subtracted or -0 added, or an integer 0.",
         "The readers read the tensor.", Rounding::Exact, "ONNX Runtime: NoopElimination",
         "(float[2, 3] x) => (float[2, 3] y) <float[3] one = {1, 1, 1}, float zero = {0}> "
         "{ a = Mul(x, one) b = Sub(a, zero) y = Relu(b) }",
         "(float[2, 3] x) => (float[2, 3] y) { y = Relu(x) }", remove_neutral_constant},
        {"remove_zero_summand", "0 is added to a tensor of floats, which only changes -0 to 0.",
         "The readers read the tensor.", Rounding::Close, "ONNX Runtime: NoopElimination",
         "(float[2, 3] x) => (float[2, 3] y) <float[3] zero = {0, 0, 0}> { a = Add(x, zero) y = Relu(a) }",
         "(float[2, 3] x) => (float[2, 3] y) { y = Relu(x) }", remove_zero_summand},
    };
}

} // namespace kumiko::graph
