#include "graph/rules/quantised.h"

#include "dsl/narrow_types.h"
#include "graph/rules/constants.h"

#include <algorithm>
#include <cmath>

namespace kumiko::graph {

std::optional<Quantisation> quantisation_of(const Rewriter &g, const Node &n, size_t scale, size_t zero, Type type,
                                            const Extents &extents, int64_t axis) {
    const Buffer<> *scales = g.constant(n, scale);
    if (!scales || is_narrow(type) || Type(scales->type()) != f32 || n.integer("block_size", 0) != 0) return {};
    Quantisation q{type, {}, {}};
    const std::vector<double> numbers = *numbers_of(*scales);
    q.scale.assign(numbers.begin(), numbers.end());
    q.zero.assign(q.scale.size(), 0);
    if (n.has_input(zero)) {
        const Buffer<> *zeros = g.constant(n, zero);
        const auto all = zeros ? numbers_of(*zeros) : std::nullopt;
        if (!all || (all->size() != 1 && all->size() != q.scale.size())) return {};
        for (size_t c = 0; c < q.zero.size(); c++) q.zero[c] = int64_t((*all)[all->size() == 1 ? 0 : c]);
    }
    if (q.is_single()) return q;
    const auto rank = int64_t(extents.size());
    q.axis = size_t(axis < 0 ? axis + rank : axis);
    if (scales->rank() != 1 || q.axis >= extents.size() || extents[q.axis] != int64_t(q.scale.size())) return {};
    return q;
}

std::optional<Quantisation> quantisation_of(const Rewriter &g, const Node &n) {
    const bool to = n.op == "QuantizeLinear";
    if (!n.domain.empty() || (!to && n.op != "DequantizeLinear")) return {};
    const std::string &integers = to ? n.outputs.at(0) : n.inputs.at(0);
    if (to && g.value(n.inputs[0]).type != f32) return {};
    if (!to && g.value(n.outputs[0]).type != f32) return {};
    return quantisation_of(g, n, 1, 2, g.value(integers).type, g.extents(integers), n.integer("axis", 1));
}

const Node *dequantising(const Rewriter &g, const std::string &value) {
    const Node *n = g.producer(value);
    return n && n->domain.empty() && n->op == "DequantizeLinear" ? n : nullptr;
}

const Node *quantising_reader(const Rewriter &g, const std::string &value) {
    const Node *n = g.only_reader(value);
    return n && n->domain.empty() && n->op == "QuantizeLinear" && n->inputs[0] == value ? n : nullptr;
}

bool is_same(const Quantisation &a, const Quantisation &b) {
    return a.type == b.type && a.scale == b.scale && a.zero == b.zero && (a.is_single() || a.axis == b.axis);
}

int64_t least(Type type) { return type.is_uint() ? 0 : -(int64_t(1) << (type.bits() - 1)); }
int64_t most(Type type) { return (int64_t(1) << (type.bits() - (type.is_uint() ? 0 : 1))) - 1; }

int64_t quantised(const Quantisation &q, float number) {
    if (std::isnan(number)) return least(q.type);
    const float whole = std::nearbyint(number / q.scale[0]) + float(q.zero[0]);
    return int64_t(std::clamp(whole, float(least(q.type)), float(most(q.type))));
}

} // namespace kumiko::graph
