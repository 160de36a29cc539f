#include "graph/rules/views.h"

#include <algorithm>

namespace kumiko::graph {

std::vector<size_t> order_of(const Rewriter &graph, const Node &transpose) {
    const auto rank = static_cast<int64_t>(graph.extents(transpose.inputs.at(0)).size());
    std::vector<size_t> order;
    for (const int64_t d : transpose.integers("perm")) order.push_back(size_t(d < 0 ? d + rank : d));
    if (!transpose.has("perm")) {
        for (int64_t d = rank; d-- > 0;) order.push_back(size_t(d));
    }
    return order;
}

bool is_view(const Rewriter &graph, const Node &node) {
    if (!node.domain.empty() || !node.has_input(0) || graph.value(node.inputs[0]).constant) return false;
    if (node.op == "Reshape" || node.op == "Flatten" || node.op == "Squeeze" || node.op == "Unsqueeze") return true;
    if (node.op != "Transpose") return false;
    std::vector<size_t> kept;
    for (const size_t d : order_of(graph, node)) {
        if (graph.extents(node.inputs[0])[d] != 1) kept.push_back(d);
    }
    return std::is_sorted(kept.begin(), kept.end());
}

bool commutes(const Rewriter &g, const Node &n) {
    static const std::set<std::string> ops = {"Abs",         "Add",
                                              "And",         "Cast",
                                              "Ceil",        "Celu",
                                              "Clip",        "Concat",
                                              "Cos",         "Div",
                                              "Elu",         "Equal",
                                              "Erf",         "Exp",
                                              "Floor",       "Gelu",
                                              "Greater",     "GreaterOrEqual",
                                              "HardSigmoid", "HardSwish",
                                              "Identity",    "LeakyRelu",
                                              "Less",        "LessOrEqual",
                                              "Log",         "Max",
                                              "Mean",        "Min",
                                              "Mish",        "Mul",
                                              "Neg",         "Not",
                                              "Or",          "PRelu",
                                              "Pow",         "Reciprocal",
                                              "Relu",        "Round",
                                              "Selu",        "Sigmoid",
                                              "Sign",        "Sin",
                                              "Softplus",    "Softsign",
                                              "Sqrt",        "Sub",
                                              "Sum",         "Swish",
                                              "Tanh",        "ThresholdedRelu",
                                              "Where",       "Xor"};
    if (!n.domain.empty() || !ops.count(n.op) || n.outputs.size() != 1) return false;
    const size_t rank = g.extents(n.outputs[0]).size();
    return std::all_of(n.inputs.begin(), n.inputs.end(), [&](const std::string &i) {
        if (i.empty()) return true;
        const KnownValue &v = g.value(i);
        return v.constant ? v.value && v.extents.size() <= rank && v.value->number_of_elements() > 0
                          : v.extents.size() == rank;
    });
}

} // namespace kumiko::graph
