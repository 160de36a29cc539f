// Nodes that compute the same.
#include "graph/rules/constants.h"
#include "graph/rules/rules.h"

#include <algorithm>
#include <cstring>

namespace kumiko::graph {

namespace {

bool is_same_float(float a, float b) { return std::memcmp(&a, &b, sizeof a) == 0; }

bool is_same_attribute(const Attribute &a, const Attribute &b) {
    if (a.value.index() != b.value.index()) return false;
    if (const auto *x = std::get_if<float>(&a.value)) return is_same_float(*x, std::get<float>(b.value));
    if (const auto *x = std::get_if<std::vector<float>>(&a.value)) {
        const auto &y = std::get<std::vector<float>>(b.value);
        return std::equal(x->begin(), x->end(), y.begin(), y.end(), is_same_float);
    }
    if (const auto *x = std::get_if<Buffer<>>(&a.value)) return is_same_constant(*x, std::get<Buffer<>>(b.value));
    if (const auto *x = std::get_if<int64_t>(&a.value)) return *x == std::get<int64_t>(b.value);
    if (const auto *x = std::get_if<std::string>(&a.value)) return *x == std::get<std::string>(b.value);
    if (const auto *x = std::get_if<std::vector<int64_t>>(&a.value))
        return *x == std::get<std::vector<int64_t>>(b.value);
    if (const auto *x = std::get_if<std::vector<std::string>>(&a.value))
        return *x == std::get<std::vector<std::string>>(b.value);
    return false; // graphs
}

bool is_same_node(const Rewriter &g, const Node &a, const Node &b) {
    if (a.op != b.op || a.domain != b.domain || a.opset != b.opset || a.inputs.size() != b.inputs.size() ||
        a.attributes.size() != b.attributes.size())
        return false;
    for (const auto &[name, value] : a.attributes) {
        const auto other = b.attributes.find(name);
        if (other == b.attributes.end() || !is_same_attribute(value, other->second)) return false;
    }
    for (size_t i = 0; i < a.inputs.size(); i++) {
        if (a.inputs[i] == b.inputs[i]) continue;
        const Buffer<> *x = g.constant(a, i), *y = g.constant(b, i);
        if (!x || !y || !is_same_constant(*x, *y)) return false;
    }
    return true;
}

bool share_equal_node(Rewriter &g, const Node &n) {
    // Those that read one of its inputs, preferably one that is not constant.
    const auto shared = std::find_if(n.inputs.begin(), n.inputs.end(),
                                     [&](const std::string &i) { return !i.empty() && !g.value(i).constant; });
    if (shared == n.inputs.end() && !n.has_input(0)) return false;
    // Each reader of a dequantised tensor has its own.
    if (n.op == "DequantizeLinear" && n.domain.empty() && shared != n.inputs.end()) return false;
    const std::string common = shared == n.inputs.end() ? n.inputs[0] : *shared;
    for (const Node *other : g.readers(common)) {
        if (!g.precedes(*other, n)) return false;
        if (!is_same_node(g, *other, n)) continue;
        std::vector<std::pair<std::string, std::string>> moves;
        bool possible = true;
        for (size_t o = 0; o < n.outputs.size() && possible; o++) {
            const std::string &own = n.outputs[o];
            if (own.empty() || (g.readers(own).empty() && !g.is_output(own))) continue;
            possible = o < other->outputs.size() && !other->outputs[o].empty() && g.can_replace(own, other->outputs[o]);
            if (possible) moves.emplace_back(own, other->outputs[o]);
        }
        if (!possible) continue;
        for (const auto &[own, with] : moves) g.replace_value(own, with);
        return true;
    }
    return false;
}

} // namespace

std::vector<Rule> equal_nodes_rules() {
    return {
        {"share_equal_node",
         "Two nodes have the same operator, attributes and inputs; equal constants count as the same. "
         "DequantizeLinears are excepted, because each reader has its own.",
         "One remains.", Rounding::Exact, "common subexpression elimination",
         "(float[2] x) => (float[2] y) <float c = {2}, float d = {2}> { a = Mul(x, c) b = Mul(x, d) y = Div(a, b) }",
         "(float[2] x) => (float[2] y) <float c = {2}> { a = Mul(x, c) y = Div(a, a) }", share_equal_node},
    };
}

} // namespace kumiko::graph
