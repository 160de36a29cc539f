#include "graph/onnx/decode.h"

#include "support/error.h"

#include <fmt/format.h>

namespace kumiko::graph {

namespace {

ValueInfo decode_type(const onnx::TypeProto &type) {
    ValueInfo info;
    if (type.has_sequence_type() || type.has_optional_type()) {
        const bool sequence = type.has_sequence_type();
        info.kind = sequence ? ValueInfo::Kind::Sequence : ValueInfo::Kind::Optional;
        info.type_text = sequence ? "sequence" : "optional";
        const onnx::TypeProto &inner = sequence ? type.sequence_type().elem_type() : type.optional_type().elem_type();
        info.element = std::make_shared<const ValueInfo>(decode_type(inner));
        return info;
    }
    if (!type.has_tensor_type()) {
        info.kind = ValueInfo::Kind::Other;
        info.type_text = type.has_map_type() ? "map" : "unknown";
        return info;
    }
    info.type_text = data_type_name(type.tensor_type().elem_type());
    info.type = type_of_onnx(type.tensor_type().elem_type());
    if (!type.tensor_type().has_shape()) return info;
    info.shape.emplace();
    for (const auto &d : type.tensor_type().shape().dim()) {
        Dimension dimension;
        // Some exporters write −1 or "?" for an extent that is not known.
        if (d.has_dim_value() && d.dim_value() >= 0) dimension.number = d.dim_value();
        if (d.has_dim_param() && d.dim_param() != "?") dimension.symbol = d.dim_param();
        info.shape->push_back(dimension);
    }
    return info;
}

// Leaves `proto` unset if the type is not known.
void encode_type(const ValueInfo &value, onnx::TypeProto &proto) {
    if (value.element) {
        const bool sequence = value.kind == ValueInfo::Kind::Sequence;
        encode_type(*value.element, sequence ? *proto.mutable_sequence_type()->mutable_elem_type()
                                             : *proto.mutable_optional_type()->mutable_elem_type());
    }
    if (!value.type) return;
    auto *tensor = proto.mutable_tensor_type();
    tensor->set_elem_type(onnx_type(*value.type));
    if (!value.shape) return;
    auto *shape = tensor->mutable_shape();
    for (const Dimension &d : *value.shape) {
        auto *dimension = shape->add_dim();
        if (d.number)
            dimension->set_dim_value(*d.number);
        else if (!d.symbol.empty())
            dimension->set_dim_param(d.symbol);
    }
}

} // namespace

ValueInfo decode_value(const onnx::ValueInfoProto &value) {
    ValueInfo info = decode_type(value.type());
    info.name = value.name();
    return info;
}

onnx::ValueInfoProto encode_value(const ValueInfo &value) {
    onnx::ValueInfoProto proto;
    proto.set_name(value.name);
    for (const auto &[key, text] : value.metadata) {
        auto *made = proto.add_metadata_props();
        made->set_key(key), made->set_value(text);
    }
    // A type that is not stated is inferred by the reader.
    if (value.type || value.element) encode_type(value, *proto.mutable_type());
    return proto;
}

namespace {

Attribute decode_attribute(const onnx::AttributeProto &a, const Source &source, const Node &node) {
    Attribute made;
    switch (a.type()) {
    case onnx::AttributeProto::INT:
        made.value = int64_t(a.i());
        return made;
    case onnx::AttributeProto::FLOAT:
        made.value = a.f();
        return made;
    case onnx::AttributeProto::STRING:
        made.value = a.s();
        return made;
    case onnx::AttributeProto::INTS:
        made.value = std::vector<int64_t>(a.ints().begin(), a.ints().end());
        return made;
    case onnx::AttributeProto::FLOATS:
        made.value = std::vector<float>(a.floats().begin(), a.floats().end());
        return made;
    case onnx::AttributeProto::STRINGS:
        made.value = std::vector<std::string>(a.strings().begin(), a.strings().end());
        return made;
    case onnx::AttributeProto::TENSOR:
        made.value = decode_tensor(a.t(), source);
        return made;
    case onnx::AttributeProto::GRAPH:
        // Values of the outer graphs are looked up when the body runs.
        made.value = std::make_shared<const Graph>(decode_graph(a.g(), source, {"*"}));
        return made;
    case onnx::AttributeProto::TYPE_PROTO:
        made.value = decode_type(a.tp());
        return made;
    default:
        throw Unsupported(fmt::format("{}: attribute \"{}\" of {} is of a kind ({}) that is not supported; supported "
                                      "are numbers, texts, lists of these, tensors and graphs",
                                      source.name, a.name(), node.label(), static_cast<int>(a.type())));
    }
}

} // namespace

Node decode_node(const onnx::NodeProto &proto, const Source &source) {
    Node node;
    node.name = proto.name(), node.op = proto.op_type();
    node.domain = proto.domain() == "ai.onnx" ? "" : proto.domain();
    node.inputs.assign(proto.input().begin(), proto.input().end());
    node.outputs.assign(proto.output().begin(), proto.output().end());
    const auto opset = source.opsets.find(node.domain);
    if (opset == source.opsets.end())
        throw UserError(fmt::format("{}: {} is of domain \"{}\", for which the model names no opset", source.name,
                                    node.label(), node.domain));
    node.opset = opset->second;
    for (const auto &a : proto.attribute()) node.attributes[a.name()] = decode_attribute(a, source, node);
    for (const auto &m : proto.metadata_props()) node.metadata[m.key()] = m.value();
    return node;
}

namespace {

onnx::GraphProto encode_graph(const Graph &graph) {
    onnx::GraphProto proto;
    proto.set_name(graph.name);
    for (const auto *all : {&graph.inputs, &graph.defaults}) {
        for (const ValueInfo &v : *all) *proto.add_input() = encode_value(v);
    }
    for (const ValueInfo &v : graph.outputs) *proto.add_output() = encode_value(v);
    for (const auto &[name, tensor] : graph.constants) *proto.add_initializer() = encode_tensor(tensor, name);
    for (const Node &n : graph.nodes) *proto.add_node() = encode_node(n);
    return proto;
}

} // namespace

onnx::NodeProto encode_node(const Node &node) {
    onnx::NodeProto proto;
    proto.set_name(node.name), proto.set_op_type(node.op), proto.set_domain(node.domain);
    for (const std::string &i : node.inputs) proto.add_input(i);
    for (const std::string &o : node.outputs) proto.add_output(o);
    for (const auto &[key, value] : node.metadata) {
        auto *made = proto.add_metadata_props();
        made->set_key(key), made->set_value(value);
    }
    for (const auto &[name, attribute] : node.attributes) {
        onnx::AttributeProto *a = proto.add_attribute();
        a->set_name(name);
        if (const auto *i = std::get_if<int64_t>(&attribute.value)) {
            a->set_type(onnx::AttributeProto::INT), a->set_i(*i);
        } else if (const auto *f = std::get_if<float>(&attribute.value)) {
            a->set_type(onnx::AttributeProto::FLOAT), a->set_f(*f);
        } else if (const auto *s = std::get_if<std::string>(&attribute.value)) {
            a->set_type(onnx::AttributeProto::STRING), a->set_s(*s);
        } else if (const auto *ints = std::get_if<std::vector<int64_t>>(&attribute.value)) {
            a->set_type(onnx::AttributeProto::INTS);
            for (const int64_t v : *ints) a->add_ints(v);
        } else if (const auto *floats = std::get_if<std::vector<float>>(&attribute.value)) {
            a->set_type(onnx::AttributeProto::FLOATS);
            for (const float v : *floats) a->add_floats(v);
        } else if (const auto *strings = std::get_if<std::vector<std::string>>(&attribute.value)) {
            a->set_type(onnx::AttributeProto::STRINGS);
            for (const std::string &v : *strings) a->add_strings(v);
        } else if (const auto *tensor = std::get_if<Buffer<>>(&attribute.value)) {
            a->set_type(onnx::AttributeProto::TENSOR);
            *a->mutable_t() = encode_tensor(*tensor, "");
        } else if (const auto *type = std::get_if<ValueInfo>(&attribute.value)) {
            a->set_type(onnx::AttributeProto::TYPE_PROTO);
            encode_type(*type, *a->mutable_tp());
        } else {
            a->set_type(onnx::AttributeProto::GRAPH);
            *a->mutable_g() = encode_graph(*std::get<std::shared_ptr<const Graph>>(attribute.value));
        }
    }
    return proto;
}

Graph decode_graph(const onnx::GraphProto &proto, const Source &source, const std::set<std::string> &outer) {
    Graph graph;
    graph.name = proto.name();
    if (proto.sparse_initializer_size() > 0)
        throw Unsupported(fmt::format("{}: the graph \"{}\" has sparse initialisers; supported are dense ones",
                                      source.name, proto.name()));
    for (const auto &t : proto.initializer()) graph.constants[t.name()] = decode_tensor(t, source);
    std::set<std::string> known = outer;
    for (const auto &[name, tensor] : graph.constants) known.insert(name);
    for (const auto &v : proto.input()) {
        (graph.constants.count(v.name()) ? graph.defaults : graph.inputs).push_back(decode_value(v));
        known.insert(v.name());
    }
    for (const auto &n : proto.node()) {
        graph.nodes.push_back(decode_node(n, source));
        const Node &node = graph.nodes.back();
        for (const std::string &i : node.inputs) {
            if (i.empty() || known.count(i) || known.count("*")) continue;
            throw UserError(fmt::format("{}: {} reads \"{}\", which no input, constant or earlier node makes; nodes "
                                        "stand after those whose values they read",
                                        source.name, node.label(), i));
        }
        for (const std::string &o : node.outputs) {
            if (!o.empty() && !known.insert(o).second)
                throw UserError(fmt::format("{}: {} makes \"{}\", which is made already; each value has one producer",
                                            source.name, node.label(), o));
        }
    }
    for (const auto &v : proto.output()) {
        if (!known.count(v.name()) && !known.count("*"))
            throw UserError(fmt::format("{}: output \"{}\" is made by no node", source.name, v.name()));
        graph.outputs.push_back(decode_value(v));
    }
    return graph;
}

} // namespace kumiko::graph
