#include "graph/build/parts.h"

#include "dsl/buffer_elements.h"

#include <algorithm>
#include <numeric>

namespace kumiko::graph {

namespace {

// The bytes of a step along the axis; nullopt if an axis that is stored before it has more than one
// element.
std::optional<int64_t> stride_of_outermost(const KnownValue &whole, size_t axis, bool channels_last) {
    const auto place = [&](size_t d) { return channels_last && d == 1 ? whole.extents.size() : d; };
    int64_t bytes = whole.type.bytes();
    for (size_t d = 0; d < whole.extents.size(); d++) {
        if (place(d) < place(axis) && whole.extents[d] != 1) return {};
        if (place(d) > place(axis)) bytes *= whole.extents[d];
    }
    return bytes;
}

size_t axis_of(const Node &node, int64_t otherwise, size_t rank) {
    const int64_t axis = node.integer("axis", otherwise);
    return size_t(axis < 0 ? axis + int64_t(rank) : axis);
}

std::optional<std::vector<int64_t>> integers_of(const FixedGraph &graph, const Node &node, size_t input,
                                                const std::string &attribute) {
    if (!node.has_input(input)) {
        if (!node.has(attribute)) return {};
        return node.integers(attribute);
    }
    const KnownValue &known = graph.value(node.inputs[input]);
    if (!known.value) return {};
    std::vector<int64_t> all;
    for_each_element(known.value->raw_buffer(), [&](const std::vector<int64_t> &, const uint8_t *p) {
        all.push_back(static_cast<int64_t>(read_element(known.type, p)));
    });
    return all;
}

std::optional<PartOffsets> part_of_slice(const FixedGraph &graph, const Node &node, bool channels_last) {
    const KnownValue &from = graph.value(node.inputs[0]);
    const Extents &to = graph.value(node.outputs[0]).extents;
    const auto starts = integers_of(graph, node, 1, "starts");
    if (!starts) return {};
    auto axes = integers_of(graph, node, 3, "axes");
    if (!axes) {
        axes.emplace(starts->size());
        std::iota(axes->begin(), axes->end(), 0);
    }
    const auto steps = integers_of(graph, node, 4, "steps").value_or(std::vector<int64_t>(starts->size(), 1));
    if (axes->size() != starts->size() || steps.size() != starts->size()) return {};
    std::optional<int64_t> offset = 0;
    bool cut = false;
    for (size_t k = 0; k < starts->size(); k++) {
        const size_t d = size_t((*axes)[k] < 0 ? (*axes)[k] + int64_t(to.size()) : (*axes)[k]);
        if (steps[k] != 1) return {};
        if (from.extents.at(d) == to[d]) continue;
        const auto stride = stride_of_outermost(from, d, channels_last);
        if (cut || !stride) return {};
        cut = true;
        const int64_t start = (*starts)[k], extent = from.extents[d];
        offset = *stride * std::clamp<int64_t>(start < 0 ? start + extent : start, 0, extent);
    }
    return PartOffsets{*offset};
}

} // namespace

bool has_bounded_value(const FixedGraph &graph, const Node &node) {
    for (const auto *names : {&node.inputs, &node.outputs}) {
        for (const std::string &name : *names) {
            const auto found = graph.values.find(name);
            if (found != graph.values.end() && found->second.bounded) return true;
        }
    }
    return false;
}

std::optional<PartOffsets> parts_of_input(const FixedGraph &graph, const Node &node, bool channels_last) {
    if (!node.domain.empty() || (node.op != "Slice" && node.op != "Split") || graph.is_constant(node.inputs.at(0)) ||
        has_bounded_value(graph, node))
        return {};
    if (node.op == "Slice") return part_of_slice(graph, node, channels_last);
    const KnownValue &whole = graph.value(node.inputs[0]);
    const size_t axis = axis_of(node, 0, whole.extents.size());
    const auto stride = stride_of_outermost(whole, axis, channels_last);
    if (!stride) return {};
    PartOffsets offsets = {0};
    for (const std::string &o : node.outputs) {
        if (o.empty()) return {}; // of an unknown extent
        offsets.push_back(offsets.back() + graph.value(o).extents[axis] * *stride);
    }
    offsets.pop_back();
    return offsets;
}

std::optional<PartOffsets> parts_of_result(const FixedGraph &graph, const Node &node, bool channels_last) {
    if (!node.domain.empty() || node.op != "Concat" || has_bounded_value(graph, node)) return {};
    const KnownValue &whole = graph.value(node.outputs[0]);
    const size_t axis = axis_of(node, 1, whole.extents.size());
    const auto stride = stride_of_outermost(whole, axis, channels_last);
    if (!stride) return {};
    PartOffsets offsets;
    int64_t at = 0;
    for (const std::string &i : node.inputs) {
        offsets.push_back(at);
        at += graph.value(i).extents[axis] * *stride;
    }
    return offsets;
}

} // namespace kumiko::graph
