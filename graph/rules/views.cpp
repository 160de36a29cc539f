#include "graph/rules/views.h"

#include "graph/infer/reshapes.h"

#include <algorithm>

namespace kumiko::graph {

std::vector<size_t> order_of(const Rewriter &graph, const Node &transpose) {
    return axis_order(transpose, graph.extents(transpose.inputs.at(0)).size());
}

bool is_view(const Rewriter &graph, const Node &node) {
    return node.has_input(0) && !graph.value(node.inputs[0]).constant &&
           is_reshape(node, graph.extents(node.inputs[0]));
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
