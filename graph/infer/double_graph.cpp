#include "graph/infer/double_graph.h"

#include "dsl/buffer_elements.h"
#include "dsl/dense.h"
#include "graph/formulas/formula.h"

namespace kumiko::graph {

namespace {

void make_double(Node &node) {
    for (const char *stated : {"to", "dtype", "output_datatype"}) {
        const auto found = node.attributes.find(stated);
        if (found == node.attributes.end()) continue;
        const auto *number = std::get_if<int64_t>(&found->second.value);
        const auto type = number ? type_of_onnx(static_cast<int>(*number)) : std::nullopt;
        if (type && is_floating(*type)) found->second.value = static_cast<int64_t>(onnx_type(f64));
    }
    for (auto &[name, attribute] : node.attributes) {
        if (auto *tensor = std::get_if<Buffer<>>(&attribute.value)) *tensor = in_double(*tensor);
    }
}

} // namespace

Buffer<> in_double(const Buffer<> &array) {
    if (!is_floating(array.type()) || array.type() == f64) return array;
    const Buffer<> from = dense(array);
    Buffer<> made(f64, from.extents());
    const auto *p = static_cast<const uint8_t *>(from.data());
    for (size_t n = 0; n < from.number_of_elements(); n++)
        static_cast<double *>(made.data())[n] = read_element(from.type(), p + n * size_t(from.type().bytes()));
    return made;
}

FixedGraph in_double(const FixedGraph &graph) {
    FixedGraph made = graph;
    for (auto &[name, value] : made.values) {
        if (is_floating(value.type)) value.type = f64;
        if (value.value) value.value = in_double(*value.value);
    }
    for (Node &node : made.nodes) make_double(node);
    for (auto &inner : made.graphs) inner = std::make_shared<const FixedGraph>(in_double(*inner));
    return made;
}

} // namespace kumiko::graph
