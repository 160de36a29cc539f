// Nodes between a QuantizeLinear and a DequantizeLinear that can work with the integers.
#include "graph/ir/control.h"
#include "graph/rules/constants.h"
#include "graph/rules/quantised.h"
#include "graph/rules/rules.h"
#include "graph/rules/views.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace kumiko::graph {

namespace {

// The number of inputs whose elements the node's only result consists of: all of a Concat, 1 of
// other nodes that move elements, 0 of nodes that compute them. A MaxPool moves elements, since the
// largest element of a window is one of its elements.
size_t moved_inputs(const Rewriter &g, const Node &n) {
    static const std::set<std::string> moves = {"DepthToSpace", "Expand",    "Flatten",  "Gather",
                                                "Reshape",      "Slice",     "Squeeze",  "SpaceToDepth",
                                                "Tile",         "Transpose", "Unsqueeze"};
    if (!n.domain.empty() || n.named_outputs().size() != 1 || n.outputs[0].empty()) return 0;
    if (n.op == "Concat") return n.inputs.size();
    constexpr int integer_pools = 12; // opset from which MaxPool takes bytes
    if (n.op == "MaxPool") return n.opset >= integer_pools ? 1 : 0;
    if (!moves.count(n.op)) return 0;
    return g.value(n.inputs.at(0)).constant ? 0 : 1;
}

bool reads_bytes(const Quantisation &q) { return q.type == u8 || q.type == i8; }

// Whether dequantised integers become the same ones when quantised: products of the scale and
// their differences from the zero point are normal numbers.
bool recovers_integers(const Quantisation &q) {
    return q.type.bits() <= 16 && std::all_of(q.scale.begin(), q.scale.end(), [](float s) {
               constexpr float limit = 65535; // of these differences
               return s >= std::numeric_limits<float>::min() && s <= std::numeric_limits<float>::max() / limit;
           });
}

bool cancel_quantisation(Rewriter &g, const Node &n) {
    const auto to = quantisation_of(g, n);
    const Node *before = n.op == "QuantizeLinear" && to ? dequantising(g, n.inputs[0]) : nullptr;
    const auto from = before ? quantisation_of(g, *before) : std::nullopt;
    return from && is_same(*from, *to) && recovers_integers(*to) && g.replace_value(n.outputs[0], before->inputs[0]);
}

bool dequantise_after_move(Rewriter &g, const Node &n) {
    const size_t count = moved_inputs(g, n);
    if (count == 0) return false;
    std::optional<Quantisation> q;
    std::vector<const Node *> old = {&n};
    const Node *first = nullptr;
    Node moved = n;
    for (size_t i = 0; i < count; i++) {
        const Node *before = dequantising(g, n.inputs[i]);
        const auto own = before ? quantisation_of(g, *before) : std::nullopt;
        if (!own || !own->is_single() || !reads_bytes(*own) || (q && !is_same(*q, *own))) return false;
        // Other readers would keep the DequantizeLinear.
        if (g.only_reading_node(n.inputs[i]) != &n) return false;
        if (!first) first = before;
        q = own;
        moved.inputs[i] = before->inputs[0];
        if (!std::count(old.begin(), old.end(), before)) old.push_back(before);
    }
    Node after = *first;
    after.attributes.erase("axis");
    moved.outputs[0] = g.new_name(n.outputs[0] + "/integers");
    after.inputs[0] = moved.outputs[0], after.outputs[0] = n.outputs[0];
    std::sort(old.begin(), old.end(), [&](const Node *a, const Node *b) { return g.precedes(*a, *b); });
    g.substitute(old, {{&n, moved}, {&n, after}});
    return true;
}

bool quantise_before_move(Rewriter &g, const Node &n) {
    const auto q = quantisation_of(g, n);
    if (n.op != "QuantizeLinear" || !q || !q->is_single() || !reads_bytes(*q)) return false;
    const Node *move = g.producer(n.inputs[0]);
    const size_t count = move ? moved_inputs(g, *move) : 0;
    if (count == 0 || g.only_reader(n.inputs[0]) != &n) return false;
    // Otherwise the QuantizeLinear would be a kernel of its own.
    for (size_t i = 0; i < count; i++) {
        const Node *maker = g.producer(move->inputs[i]);
        const Operator *op = maker ? find_operator(maker->op, maker->opset, maker->domain) : nullptr;
        if (!op || op->dependence == Dependence::Injective || g.only_reading_node(move->inputs[i]) != move)
            return false;
    }
    std::vector<NewNode> made;
    Node moved = *move;
    for (size_t i = 0; i < count; i++) {
        Node before = n;
        before.attributes.erase("axis");
        before.inputs[0] = move->inputs[i];
        before.outputs[0] = g.new_name(move->inputs[i] + "/quantised");
        const auto same = std::find(move->inputs.begin(), move->inputs.begin() + std::ptrdiff_t(i), move->inputs[i]);
        if (same != move->inputs.begin() + std::ptrdiff_t(i)) {
            moved.inputs[i] = moved.inputs[size_t(same - move->inputs.begin())];
            continue;
        }
        moved.inputs[i] = before.outputs[0];
        made.push_back({move, before});
    }
    moved.outputs[0] = n.outputs[0];
    made.push_back({move, moved});
    g.substitute({move, &n}, made);
    return true;
}

// Whether a Relu or Clip changes no integer that is made of its results.
bool is_saturated(const Rewriter &g, const Node &n, const Quantisation &q) {
    if (n.op == "Relu") return q.zero[0] == least(q.type);
    if (n.op != "Clip" || !n.domain.empty()) return false;
    const auto bound = [&](size_t input, const char *attribute, float otherwise) -> std::optional<float> {
        if (!n.has_input(input)) return n.number(attribute, otherwise);
        const Buffer<> *b = g.constant(n, input);
        const auto numbers = b ? numbers_of(*b) : std::nullopt;
        if (!numbers || numbers->size() != 1) return {};
        return float((*numbers)[0]);
    };
    constexpr float largest = std::numeric_limits<float>::max();
    const auto low = bound(1, "min", -largest), high = bound(2, "max", largest);
    return low && high && quantised(q, *low) == least(q.type) && quantised(q, *high) == most(q.type);
}

bool saturate_without_clip(Rewriter &g, const Node &n) {
    const auto q = quantisation_of(g, n);
    if (n.op != "QuantizeLinear" || !q || !q->is_single()) return false;
    const Node *before = g.producer(n.inputs[0]);
    if (!before || !before->domain.empty() || !is_saturated(g, *before, *q)) return false;
    if (g.only_reader(n.inputs[0]) != &n) return false;
    Node made = n;
    made.inputs[0] = before->inputs[0];
    g.substitute({before, &n}, {{&n, made}});
    return true;
}

bool dequantise_for_each_reader(Rewriter &g, const Node &n) {
    if (!n.domain.empty() || n.op != "DequantizeLinear" || g.value(n.inputs[0]).constant) return false;
    if (g.is_output(n.outputs[0])) return false;
    std::vector<const Node *> readers = g.readers(n.outputs[0]);
    if (readers.size() < 2) return false;
    // Nodes of control flow read arrays.
    std::erase_if(readers, [](const Node *reader) { return is_control(*reader); });
    if (readers.empty()) return false;
    Node own = n, reader = *readers.back();
    own.outputs[0] = g.new_name(n.outputs[0] + "/again");
    std::replace(reader.inputs.begin(), reader.inputs.end(), n.outputs[0], own.outputs[0]);
    g.substitute({readers.back()}, {{readers.back(), own}, {readers.back(), reader}});
    return true;
}

bool fold_dequantised(Rewriter &g, const Node &n) {
    if (n.op != "DequantizeLinear") return false;
    const Buffer<> *integers = g.constant(n, 0);
    const auto q = integers ? quantisation_of(g, n) : std::nullopt;
    if (!q || g.is_output(n.outputs[0])) return false;
    const std::vector<double> numbers = *numbers_of(*integers);
    const Extents &extents = g.extents(n.inputs[0]);
    size_t inside = 1; // elements of one index of the axis
    for (size_t d = q->axis + 1; d < extents.size(); d++) inside *= size_t(extents[d]);
    std::vector<double> made;
    for (size_t at = 0; at < numbers.size(); at++) {
        const size_t c = q->is_single() ? 0 : at / inside % q->scale.size();
        made.push_back((numbers[at] - double(q->zero[c])) * double(q->scale[c])); // exact
    }
    Buffer<> real = rounded_to(f32, extents, made);
    std::string last = n.outputs[0];
    for (const Node *view = g.only_reader(last); view && is_view(g, *view) && !g.is_output(view->outputs[0]);
         view = g.only_reader(last)) {
        last = view->outputs[0];
        real = reshaped_copy(real, g.extents(last));
    }
    return g.replace_value(last, g.add_constant(n.outputs[0], "dequantised", real));
}

bool multiply_before_quantise(Rewriter &g, const Node &n) {
    const auto q = quantisation_of(g, n);
    if (n.op != "QuantizeLinear" || !q || !q->is_single() || q->scale[0] == 1) return false;
    const float inverse = 1 / q->scale[0];
    if (!std::isnormal(inverse)) return false;
    Node product =
        make_node(n, "Mul", {n.inputs[0], g.add_constant(n.inputs[1], "inverse", rounded_to(f32, {}, {inverse}))},
                  {g.new_name(n.outputs[0] + "/steps")});
    Node made = n;
    made.inputs[0] = product.outputs[0];
    made.inputs[1] = g.add_constant(n.inputs[1], "one", rounded_to(f32, {}, {1}));
    g.substitute({&n}, {{&n, product}, {&n, made}});
    return true;
}

} // namespace

std::vector<Rule> quantised_moves_rules() {
    const std::string scales = "float s = {0.5}, uint8 z = {3}";
    return {
        {"cancel_quantisation", "A QuantizeLinear reads a DequantizeLinear with the same scale and zero point.",
         "The readers read the integers.", Rounding::Exact, "ONNX Runtime: DoubleQDQPairsRemover",
         "(uint8[4] x) => (uint8[4] y) <" + scales +
             "> { a = DequantizeLinear(x, s, z) "
             "b = QuantizeLinear(a, s, z) y = Max(b, z) }",
         "(uint8[4] x) => (uint8[4] y) <uint8 z = {3}> { y = Max(x, z) }", cancel_quantisation},
        {"dequantise_after_move",
         "A node moves elements (Reshape, Transpose, Concat, MaxPool and others) that only it reads, and that "
         "DequantizeLinears with the same scale and zero point make.",
         "It moves the integers.", Rounding::Exact, "ONNX Runtime: QDQPropagationTransformer",
         "(uint8[2, 3] x) => (float[3, 2] y) <" + scales + "> { a = DequantizeLinear(x, s, z) y = Transpose(a) }",
         "(uint8[2, 3] x) => (float[3, 2] y) <" + scales + "> { a = Transpose(x) y = DequantizeLinear(a, s, z) }",
         dequantise_after_move},
        {"quantise_before_move",
         "A QuantizeLinear alone reads a node that moves elements, and that alone reads them from nodes that compute "
         "them.",
         "The integers are moved.", Rounding::Exact, "ONNX Runtime: QDQPropagationTransformer",
         "(float[2, 3] x) => (uint8[3, 2] y) <" + scales +
             "> { a = Relu(x) b = Transpose(a) "
             "y = QuantizeLinear(b, s, z) }",
         "(float[2, 3] x) => (uint8[3, 2] y) <" + scales +
             "> { a = Relu(x) b = QuantizeLinear(a, s, z) "
             "y = Transpose(b) }",
         quantise_before_move},
        {"saturate_without_clip",
         "A QuantizeLinear alone reads a Relu or Clip whose bounds are the least and the greatest value of the "
         "integers.",
         "The saturation of the integers takes its place.", Rounding::Exact,
         "ONNX Runtime: ReluQuantFusion, ClipQuantFusion",
         "(float[4] x) => (uint8[4] y) <float s = {0.5}, uint8 z = {0}> { a = Relu(x) y = QuantizeLinear(a, s, z) }",
         "(float[4] x) => (uint8[4] y) <float s = {0.5}, uint8 z = {0}> { y = QuantizeLinear(x, s, z) }",
         saturate_without_clip},
        {"dequantise_for_each_reader", "Several nodes read a DequantizeLinear of a tensor that is no constant.",
         "Each has one of its own, so that their kernels read the integers.", Rounding::Exact,
         "ONNX Runtime: EnsureUniqueDQForNodeUnit",
         "(uint8[4] x) => (float[4] y, float[4] t) <" + scales +
             "> { a = DequantizeLinear(x, s, z) y = Abs(a) "
             "t = Neg(a) }",
         "(uint8[4] x) => (float[4] y, float[4] t) <" + scales +
             "> { a = DequantizeLinear(x, s, z) y = Abs(a) "
             "b = DequantizeLinear(x, s, z) t = Neg(b) }",
         dequantise_for_each_reader},
        {"multiply_before_quantise", "A QuantizeLinear has a constant scale, and no other rule applies any more.",
         "Its input is multiplied by the inverse, which is rounded once.", Rounding::Close, "TVM: SimplifyExpr",
         "(float[4] x) => (uint8[4] y) <" + scales + "> { y = QuantizeLinear(x, s, z) }",
         "(float[4] x) => (uint8[4] y) <float i = {2}, float o = {1}, uint8 z = {3}> { m = Mul(x, i) "
         "y = QuantizeLinear(m, o, z) }",
         multiply_before_quantise, true},
        {"fold_dequantised", "A DequantizeLinear reads a constant, and no other rule applies any more.",
         "It becomes a constant, with the Reshapes that follow.", Rounding::Exact, "constant folding",
         "(float[2, 2] x) => (float[2, 2] y) <int8[2, 2] w = {1, 2, 3, 4}, float[2] s = {0.5, 2}> "
         "{ a = DequantizeLinear<axis = 0>(w, s) y = Div(x, a) }",
         "(float[2, 2] x) => (float[2, 2] y) <float[2, 2] w = {0.5, 1, 6, 8}> { y = Div(x, w) }", fold_dequantised,
         true},
    };
}

} // namespace kumiko::graph
