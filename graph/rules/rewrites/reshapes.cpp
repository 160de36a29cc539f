// Chains of nodes that only change shapes or orders of axes.
#include "graph/rules/constants.h"
#include "graph/rules/rules.h"
#include "graph/rules/views.h"

#include <algorithm>

namespace kumiko::graph {

namespace {

bool merge_views(Rewriter &g, const Node &n) {
    if (!is_view(g, n)) return false;
    const Node *first = &n;
    while (const Node *before = g.producer(first->inputs[0])) {
        if (!is_view(g, *before)) break;
        first = before;
    }
    if (first == &n) return false;
    const std::string root = first->inputs[0];
    if (g.extents(root) == g.extents(n.outputs[0]) && g.replace_value(n.outputs[0], root)) return true;
    g.substitute(n, make_reshape(g, n, root, n.outputs[0], g.extents(n.outputs[0])));
    return true;
}

bool merge_transposes(Rewriter &g, const Node &n) {
    if (!n.domain.empty() || n.op != "Transpose") return false;
    const Node *before = g.producer(n.inputs[0]);
    if (!before || before->op != "Transpose" || !before->domain.empty()) return false;
    const std::vector<size_t> inner = order_of(g, *before), outer = order_of(g, n);
    std::vector<int64_t> order;
    bool same = true;
    for (size_t d = 0; d < outer.size(); d++) {
        order.push_back(static_cast<int64_t>(inner[outer[d]]));
        same = same && order[d] == static_cast<int64_t>(d);
    }
    const std::string root = before->inputs[0];
    if (same && g.replace_value(n.outputs[0], root)) return true;
    Node made = n;
    made.inputs[0] = root;
    made.attributes["perm"].value = order;
    g.substitute(n, made);
    return true;
}

// The constant that, broadcast to the extents before a view, has the elements that `constant` has
// where it is broadcast to the extents after it; nothing if there is none.
std::optional<Buffer<>> before_view(const Buffer<> &constant, const Extents &before, const Extents &after) {
    if (constant.number_of_elements() == 1)
        return constant.rank() <= before.size() ? constant : reshaped_copy(constant, {});
    Extents extents(after.size() - constant.rank(), 1), made(before.size(), 1);
    for (const int64_t e : constant.extents()) extents.push_back(e);
    // Axes of both are grouped so that the groups have as many elements. Along a group the constant
    // is the same, or has all elements.
    size_t a = 0, b = 0;
    while (a < after.size() || b < before.size()) {
        const size_t from = a, to = b;
        int64_t of_a = a < after.size() ? after[a++] : 1, of_b = b < before.size() ? before[b++] : 1;
        while (of_a != of_b) {
            if (of_a < of_b)
                of_a *= after.at(a++);
            else
                of_b *= before.at(b++);
        }
        const bool same = std::all_of(extents.begin() + int64_t(from), extents.begin() + int64_t(a),
                                      [](int64_t e) { return e == 1; });
        if (same) continue;
        for (size_t d = from; d < a; d++) {
            if (extents[d] != after[d]) return {};
        }
        std::copy(before.begin() + int64_t(to), before.begin() + int64_t(b), made.begin() + int64_t(to));
    }
    return reshaped_copy(constant, made);
}

bool pointwise_before_view(Rewriter &g, const Node &n) {
    if (n.op == "Concat" || !commutes(g, n)) return false;
    Node made = n;
    std::string first;
    bool extends = false; // a kernel that computes an input of a view
    for (std::string &i : made.inputs) {
        if (i.empty() || g.value(i).constant) continue;
        const Node *view = g.producer(i);
        if (!view || !is_view(g, *view) || g.only_reading_node(i) != &n || g.extents(i) != g.extents(n.outputs[0]))
            return false;
        i = view->inputs[0];
        if (first.empty()) first = i;
        if (g.extents(i) != g.extents(first)) return false;
        const Node *maker = g.producer(i);
        const Operator *op = maker ? find_operator(maker->op, maker->opset) : nullptr;
        extends = extends || (op && op->dependence != Dependence::Injective && g.only_reader(i) == view);
    }
    if (!extends) return false;
    const Extents before = g.extents(first), after = g.extents(n.outputs[0]);
    std::vector<std::optional<Buffer<>>> constants(n.inputs.size());
    for (size_t k = 0; k < n.inputs.size(); k++) {
        if (!g.constant(n, k)) continue;
        constants[k] = before_view(*g.constant(n, k), before, after);
        if (!constants[k]) return false;
    }
    for (size_t k = 0; k < n.inputs.size(); k++) {
        if (constants[k] && constants[k]->extents() != g.extents(n.inputs[k]))
            made.inputs[k] = g.add_constant(n.inputs[k], "reshaped", *constants[k]);
    }
    made.outputs[0] = g.new_name(n.outputs[0] + "/viewed");
    g.substitute({&n}, {{&n, made}, {&n, make_reshape(g, n, made.outputs[0], n.outputs[0], after)}});
    return true;
}

} // namespace

std::vector<Rule> reshapes_rules() {
    return {
        {"merge_views",
         "A Reshape, Flatten, Squeeze, Unsqueeze, or Transpose of axes of one element reads another one.",
         "It becomes one Reshape of the first one's input, or that input if it has the shape.", Rounding::Exact,
         "ONNX Runtime: ReshapeFusion, UnsqueezeElimination",
         "(float[2, 3] x) => (float[2, 3] y, float[1, 6] z) <int64[1] a = {0}, int64[1] s = {-1}> "
         "{ b = Unsqueeze(x, a) c = Reshape(b, s) z = Unsqueeze(c, a) d = Squeeze(b, a) y = Relu(d) }",
         "(float[2, 3] x) => (float[2, 3] y, float[1, 6] z) <int64[2] s = {1, 6}> { z = Reshape(x, s) y = Relu(x) }",
         merge_views},
        {"merge_transposes", "A Transpose reads another one.",
         "It becomes one Transpose of the first one's input, or that input if the orders cancel.", Rounding::Exact,
         "ONNX Runtime: TransposeOptimizer",
         "(float[2, 3, 4] x) => (float[3, 2, 4] y) { a = Transpose<perm = [2, 0, 1]>(x) "
         "b = Transpose<perm = [2, 1, 0]>(a) y = Relu(b) }",
         "(float[2, 3, 4] x) => (float[3, 2, 4] y) { b = Transpose<perm = [1, 0, 2]>(x) y = Relu(b) }",
         merge_transposes},
        {"pointwise_before_view",
         "A pointwise node reads views of tensors of one shape, which nothing else reads, and another node computes "
         "one of these tensors for that view alone.",
         "The pointwise node comes first, so that it can join that node's kernel; one view follows it.",
         Rounding::Exact, "XLA: ReshapeMover",
         "(float[2, 3, 4] x) => (float[2, 3, 2, 2] y) <int64[4] s = {2, 3, 2, 2}, float[3, 1, 1] c = {1, 2, 3}> "
         "{ a = Softmax(x) b = Reshape(a, s) d = Mul(b, c) y = Exp(d) }",
         "(float[2, 3, 4] x) => (float[2, 3, 2, 2] y) <int64[4] s = {2, 3, 2, 2}, float[1, 3, 1] c = {1, 2, 3}> "
         "{ a = Softmax(x) d = Mul(a, c) e = Exp(d) y = Reshape(e, s) }",
         pointwise_before_view},
    };
}

} // namespace kumiko::graph
