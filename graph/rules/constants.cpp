#include "graph/rules/constants.h"

#include "dsl/dense.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace kumiko::graph {

namespace {

template<typename T>
std::vector<double> elements_as_doubles(const Buffer<> &b) {
    const T *data = static_cast<const T *>(b.data());
    return {data, data + b.number_of_elements()};
}

} // namespace

std::optional<std::vector<double>> numbers_of(const Buffer<> &constant) {
    const Buffer<> b = dense(constant);
    const Type t = b.type();
    if (t == f32) return elements_as_doubles<float>(b);
    if (t == f64) return elements_as_doubles<double>(b);
    if (t == i32) return elements_as_doubles<int32_t>(b);
    if (t == i64) return elements_as_doubles<int64_t>(b);
    if (t == u8) return elements_as_doubles<uint8_t>(b);
    if (t == i8) return elements_as_doubles<int8_t>(b);
    if (t == u16) return elements_as_doubles<uint16_t>(b);
    if (t == i16) return elements_as_doubles<int16_t>(b);
    if (t == u32) return elements_as_doubles<uint32_t>(b);
    if (t == u64) return elements_as_doubles<uint64_t>(b);
    return {};
}

std::optional<std::vector<int64_t>> integers_of(const Buffer<> &constant) {
    const Buffer<> b = dense(constant);
    const size_t n = b.number_of_elements();
    if (Type(b.type()) == i64) {
        const auto *data = static_cast<const int64_t *>(b.data());
        return std::vector<int64_t>(data, data + n);
    }
    if (Type(b.type()) == i32) {
        const auto *data = static_cast<const int32_t *>(b.data());
        return std::vector<int64_t>(data, data + n);
    }
    return {};
}

Buffer<> rounded_to(Type type, const Extents &extents, const std::vector<double> &numbers) {
    Buffer<> made(type, extents);
    if (type == f64)
        std::copy(numbers.begin(), numbers.end(), static_cast<double *>(made.data()));
    else
        std::transform(numbers.begin(), numbers.end(), static_cast<float *>(made.data()),
                       [](double v) { return static_cast<float>(v); });
    return made;
}

bool all_finite(const Buffer<> &constant) {
    const auto numbers = numbers_of(constant);
    return numbers && std::all_of(numbers->begin(), numbers->end(), [](double v) { return std::isfinite(v); });
}

Buffer<> transposed_copy(const Buffer<> &constant, const std::vector<size_t> &order) {
    return dense(constant.transposed(order));
}

Buffer<> reshaped_copy(const Buffer<> &constant, const Extents &extents) {
    const Buffer<> from = dense(constant);
    Buffer<> made(from.type(), extents);
    std::memcpy(made.data(), from.data(), from.number_of_elements() * size_t(Type(from.type()).bytes()));
    return made;
}

bool is_same_constant(const Buffer<> &a, const Buffer<> &b) {
    if (a.type() != b.type() || a.extents() != b.extents()) return false;
    const Buffer<> x = dense(a), y = dense(b);
    return x.data() == y.data() ||
           std::memcmp(x.data(), y.data(), x.number_of_elements() * size_t(Type(x.type()).bytes())) == 0;
}

std::optional<std::vector<double>> along_axis(const Buffer<> &constant, const Extents &extents, size_t axis) {
    if (constant.rank() > extents.size()) return {};
    const size_t missing = extents.size() - constant.rank();
    bool varies = false;
    for (size_t d = 0; d < constant.rank(); d++) {
        if (constant.extent(d) == 1) continue;
        if (d + missing != axis || constant.extent(d) != extents[axis]) return {};
        varies = true;
    }
    auto numbers = numbers_of(constant);
    if (numbers && !varies) numbers->assign(size_t(extents[axis]), numbers->at(0));
    return numbers;
}

std::optional<std::vector<int64_t>> integers_of(const Rewriter &graph, const Node &node, size_t input,
                                                const std::string &attribute) {
    if (node.has_input(input)) {
        const Buffer<> *b = graph.constant(node, input);
        return b ? integers_of(*b) : std::nullopt;
    }
    if (!attribute.empty() && node.has(attribute)) return node.integers(attribute);
    return {};
}

Node make_node(const Node &like, const std::string &op, const std::vector<std::string> &inputs,
               const std::vector<std::string> &outputs) {
    Node made;
    made.name = like.name, made.opset = like.opset, made.op = op;
    made.inputs = inputs, made.outputs = outputs;
    return made;
}

Node make_reshape(Rewriter &graph, const Node &like, const std::string &from, const std::string &to,
                  const Extents &extents) {
    Node made = make_node(like, "Reshape", {from}, {to});
    if (like.opset < 5)
        made.attributes["shape"].value = extents;
    else
        made.inputs.push_back(graph.add_constant(to, "shape", int64_tensor(extents, {int64_t(extents.size())})));
    return made;
}

} // namespace kumiko::graph
