// Chains of nodes that only change shapes or orders of axes.
#include "graph/rules/constants.h"
#include "graph/rules/rules.h"
#include "graph/rules/views.h"

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
    g.substitute(n, make_reshape(g, n, root, n.outputs[0]));
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

} // namespace

std::vector<Rule> reshapes_rules() {
    return {
        {"merge_views",
         "A Reshape, Flatten, Squeeze, Unsqueeze, or Transpose of axes of one element reads another one.",
         "It becomes one Reshape of the first one's input, or that input if it has the shape.", true,
         "ONNX Runtime: ReshapeFusion, UnsqueezeElimination",
         "(float[2, 3] x) => (float[2, 3] y, float[1, 6] z) <int64[1] a = {0}, int64[1] s = {-1}> "
         "{ b = Unsqueeze(x, a) c = Reshape(b, s) z = Unsqueeze(c, a) d = Squeeze(b, a) y = Relu(d) }",
         "(float[2, 3] x) => (float[2, 3] y, float[1, 6] z) <int64[2] s = {1, 6}> { z = Reshape(x, s) y = Relu(x) }",
         merge_views},
        {"merge_transposes", "A Transpose reads another one.",
         "It becomes one Transpose of the first one's input, or that input if the orders cancel.", true,
         "ONNX Runtime: TransposeOptimizer",
         "(float[2, 3, 4] x) => (float[3, 2, 4] y) { a = Transpose<perm = [2, 0, 1]>(x) "
         "b = Transpose<perm = [2, 1, 0]>(a) y = Relu(b) }",
         "(float[2, 3, 4] x) => (float[3, 2, 4] y) { b = Transpose<perm = [1, 0, 2]>(x) y = Relu(b) }",
         merge_transposes},
    };
}

} // namespace kumiko::graph
