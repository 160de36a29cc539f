#include "graph/ir/sequences.h"

#include "support/error.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>

namespace kumiko::graph {

namespace {

Node like(const Node &node, const std::string &op, std::vector<std::string> inputs, std::vector<std::string> outputs) {
    Node made;
    made.name = node.name, made.op = op, made.opset = node.opset;
    made.inputs = std::move(inputs), made.outputs = std::move(outputs);
    return made;
}

// Adds an operator that takes integers as an attribute before opset 13, and as an input since then.
void add_with_integers(TensorNodes &all, Node node, const std::string &attribute, const std::vector<int64_t> &values,
                       const std::string &prefix) {
    constexpr int as_input = 13;
    if (node.opset < as_input) {
        node.attributes[attribute] = {values};
    } else {
        const std::string name = fmt::format("{}{}{}", prefix, attribute, all.nodes.size());
        Node constant = like(node, "Constant", {}, {name});
        constant.attributes["value_ints"] = {values};
        all.nodes.push_back(constant);
        node.inputs.push_back(name);
    }
    all.nodes.push_back(node);
}

} // namespace

size_t sequence_position(const Node &node, int64_t position, size_t count, bool insertion) {
    const auto n = static_cast<int64_t>(count), last = insertion ? n : n - 1;
    if (position < -n || position > last)
        throw UserError(fmt::format("{}: position {} of a sequence of {} elements; {}", node.label(), position, n,
                                    last < 0 ? "no position is legal" : fmt::format("legal are {} to {}", -n, last)));
    return static_cast<size_t>(position < 0 ? position + n : position);
}

TensorNodes split_nodes(const Node &node, const std::vector<int64_t> &extents, const std::vector<int64_t> *lengths,
                        size_t lengths_rank, const std::string &prefix) {
    const auto rank = static_cast<int64_t>(extents.size());
    const int64_t axis = node.integer("axis", 0);
    if (axis < -rank || axis >= rank)
        throw UserError(fmt::format("{}: axis {} of a tensor of {} axes", node.label(), axis, rank));
    const int64_t extent = extents[static_cast<size_t>(axis < 0 ? axis + rank : axis)];
    std::vector<int64_t> parts;
    if (lengths && lengths_rank == 1) {
        parts = *lengths;
    } else {
        const int64_t length = lengths ? lengths->at(0) : 1;
        if (length < 1)
            throw UserError(fmt::format("{}: parts of {} elements; legal are 1 or more", node.label(), length));
        for (int64_t at = 0; at < extent; at += length) parts.push_back(std::min(length, extent - at));
    }
    const bool negative = std::any_of(parts.begin(), parts.end(), [](int64_t p) { return p < 0; });
    if (negative || std::accumulate(parts.begin(), parts.end(), int64_t(0)) != extent)
        throw UserError(fmt::format("{}: parts of {} elements of an axis of {}; legal are parts of 0 or more elements "
                                    "whose sum is the extent",
                                    node.label(), fmt::join(parts, ", "), extent));
    TensorNodes all;
    for (size_t n = 0; n < parts.size(); n++) all.results.push_back(fmt::format("{}part{}", prefix, n));
    if (parts.empty()) return all;
    Node split = like(node, "Split", {node.inputs.at(0)}, all.results);
    split.attributes["axis"] = {axis};
    add_with_integers(all, split, "split", parts, prefix);
    if (lengths || node.integer("keepdims", 1) != 0) return all;
    for (std::string &part : all.results) {
        add_with_integers(all, like(node, "Squeeze", {part}, {part + "/squeezed"}), "axes", {axis}, prefix);
        part += "/squeezed";
    }
    return all;
}

TensorNodes concat_nodes(const Node &node, const std::vector<std::string> &elements, const std::string &prefix) {
    if (elements.empty()) throw UserError(node.label() + ": a sequence of 0 elements; legal are 1 or more");
    TensorNodes all;
    if (!node.has("axis")) throw UserError(node.label() + " lacks its attribute \"axis\"");
    const int64_t axis = node.integer("axis", 0);
    std::vector<std::string> parts = elements;
    for (size_t n = 0; n < parts.size() && node.integer("new_axis", 0) != 0; n++) {
        parts[n] = fmt::format("{}row{}", prefix, n);
        add_with_integers(all, like(node, "Unsqueeze", {elements[n]}, {parts[n]}), "axes", {axis}, prefix);
    }
    all.results = {node.outputs.at(0)};
    Node concat = like(node, "Concat", parts, all.results);
    concat.attributes["axis"] = {axis};
    all.nodes.push_back(concat);
    return all;
}

} // namespace kumiko::graph
