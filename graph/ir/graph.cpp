#include "graph/ir/graph.h"

#include "dsl/narrow_types.h"
#include "graph/ir/strings.h"
#include "support/error.h"

#include <fmt/format.h>

namespace kumiko::graph {

namespace {

// ONNX's numbers of the element types (TensorProto.DataType).
const std::vector<std::pair<int, Type>> &types() {
    static const std::vector<std::pair<int, Type>> all = {
        {8, string_type}, {1, f32},   {2, u8},        {3, i8},          {4, u16},     {5, i16},
        {6, i32},         {7, i64},   {9, boolean},   {10, f16},        {11, f64},    {12, u32},
        {13, u64},        {16, bf16}, {17, f8e4m3fn}, {18, f8e4m3fnuz}, {19, f8e5m2}, {20, f8e5m2fnuz},
        {21, u4},         {22, i4},   {23, f4e2m1},   {24, f8e8m0},     {25, u2},     {26, i2},
    };
    return all;
}

template<typename T>
T attribute_of(const Node &node, const std::string &name, const T &otherwise, const char *kind) {
    const auto found = node.attributes.find(name);
    if (found == node.attributes.end()) return otherwise;
    if (const T *value = std::get_if<T>(&found->second.value)) return *value;
    throw UserError(fmt::format("attribute \"{}\" of {} is not {}", name, node.label(), kind));
}

} // namespace

std::optional<Type> type_of_onnx(int type) {
    for (const auto &[number, t] : types()) {
        if (number == type) return t;
    }
    return std::nullopt;
}

int onnx_type(Type type) {
    for (const auto &[number, t] : types()) {
        if (t == type) return number;
    }
    throw InternalError("ONNX has no element type " + type_name(type));
}

std::string ValueInfo::symbol(size_t axis) const {
    const std::string &stated = shape.value().at(axis).symbol;
    return stated.empty() ? fmt::format("{}:{}", name, axis) : stated;
}

std::string ValueInfo::text() const {
    if (element) return fmt::format("{}: {}({})", name, type_text, element->text().substr(element->name.size() + 2));
    if (!shape) return name + ": " + type_text;
    std::string all;
    for (const Dimension &d : *shape) {
        all += (all.empty() ? "" : ",") + (d.number ? std::to_string(*d.number) : d.symbol.empty() ? "?" : d.symbol);
    }
    return name + ": " + type_text + "[" + all + "]";
}

ValueInfo ValueInfo::of(const std::string &name, Type type, const std::vector<int64_t> &extents) {
    ValueInfo info{name, type, type_name(type), std::vector<Dimension>()};
    for (const int64_t e : extents) info.shape->push_back({e, ""});
    return info;
}

int64_t Node::integer(const std::string &attribute, int64_t otherwise) const {
    return attribute_of<int64_t>(*this, attribute, otherwise, "an integer");
}

float Node::number(const std::string &attribute, float otherwise) const {
    return attribute_of<float>(*this, attribute, otherwise, "a number");
}

std::string Node::text(const std::string &attribute, const std::string &otherwise) const {
    return attribute_of<std::string>(*this, attribute, otherwise, "a text");
}

std::vector<int64_t> Node::integers(const std::string &attribute, const std::vector<int64_t> &otherwise) const {
    return attribute_of<std::vector<int64_t>>(*this, attribute, otherwise, "a list of integers");
}

std::vector<float> Node::numbers(const std::string &attribute, const std::vector<float> &otherwise) const {
    return attribute_of<std::vector<float>>(*this, attribute, otherwise, "a list of numbers");
}

std::optional<Buffer<>> Node::tensor(const std::string &attribute) const {
    const auto found = attributes.find(attribute);
    if (found == attributes.end()) return std::nullopt;
    if (const Buffer<> *value = std::get_if<Buffer<>>(&found->second.value)) return *value;
    throw UserError(fmt::format("attribute \"{}\" of {} is not a tensor", attribute, label()));
}

const Graph &Node::graph(const std::string &attribute) const {
    const auto found = attributes.find(attribute);
    const auto *graph =
        found == attributes.end() ? nullptr : std::get_if<std::shared_ptr<const Graph>>(&found->second.value);
    if (!graph) throw UserError(fmt::format("{} lacks its graph \"{}\"", label(), attribute));
    return **graph;
}

std::vector<std::string> Node::named_outputs() const {
    std::vector<std::string> named;
    for (const std::string &o : outputs) {
        if (!o.empty()) named.push_back(o);
    }
    return named;
}

std::string Node::label() const {
    const std::vector<std::string> made = named_outputs();
    return name.empty() ? fmt::format("node {} of {}", op, made.empty() ? "nothing" : "\"" + made[0] + "\"")
                        : fmt::format("node \"{}\" ({})", name, op);
}

} // namespace kumiko::graph
