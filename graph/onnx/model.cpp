// One file, because it is one class: reading, checking, inlining and writing of a model share the
// parsed protocol buffer.
#include "graph/onnx/model.h"

#include "graph/onnx/decode.h"
#include "graph/onnx/microsoft.h"
#include "support/atomic_file.h"
#include "support/error.h"
#include "support/names.h"

#include <onnx/defs/parser.h>
#include <onnx/inliner/inliner.h>

#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <set>

namespace kumiko::graph {

namespace fs = std::filesystem;

struct Model::Contents {
    onnx::ModelProto proto;
    Source source;
    Graph graph;
    std::string file; // that it was read from; "" of bytes

    void decode(); // fills in the opsets and the graph
};

namespace {

// The message of an error of the ONNX library without its source lines.
std::string cause(const std::exception &e) {
    const std::string what = e.what();
    return what.substr(0, what.find("\n\n"));
}

} // namespace

void Model::Contents::decode() {
    onnx::ModelProto inlined; // only for models with functions
    try {
        if (proto.functions_size() > 0) {
            inlined = proto;
            onnx::inliner::InlineLocalFunctions(inlined, true);
        }
    } catch (const std::exception &e) {
        throw UserError(fmt::format("{}: its functions cannot be inlined: {}", source.name, cause(e)));
    }
    if (inlined.functions_size() > 0)
        throw Unsupported(fmt::format(
            "{}: the function {} is of other operator sets than the model, to which it cannot be converted; "
            "supported are functions of the model's own",
            source.name, inlined.functions(0).name()));
    const onnx::ModelProto &run = proto.functions_size() > 0 ? inlined : proto;
    for (const auto &opset : run.opset_import())
        source.opsets[opset.domain() == "ai.onnx" ? "" : opset.domain()] = static_cast<int>(opset.version());
    graph = decode_graph(run.graph(), source);
}

Model Model::parse(const std::string &bytes, const std::string &name, const std::string &folder,
                   const std::string &file) {
    auto made = std::make_shared<Contents>();
    made->source.name = name, made->source.folder = folder, made->file = file;
    if (bytes.size() > max_file_bytes || !made->proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
        throw UserError(fmt::format("{}: these {} bytes are no ONNX model, or a part of one", name, bytes.size()));
    if (!made->proto.has_graph())
        throw UserError(fmt::format("{}: the model has no graph; it may be another kind of file", name));
    made->decode();
    Model model;
    model.contents_ = made;
    return model;
}

Model Model::parse_text(const std::string &text, const std::string &name) {
    onnx::ModelProto proto;
    std::string problem;
    try {
        const auto status = onnx::OnnxParser::Parse(proto, text.c_str());
        if (!status.IsOK()) problem = status.ErrorMessage();
    } catch (const std::out_of_range &) { // of std::stoll
        problem = "a number does not fit its type";
    } catch (const std::exception &e) {
        problem = e.what();
    }
    if (!problem.empty()) throw UserError(fmt::format("{}: {}", name, problem));
    return parse(proto.SerializeAsString(), name);
}

Model Model::load(const std::string &path) {
    return parse(file_bytes(path), path, fs::absolute(path).parent_path().string(), path);
}

namespace {

// The first version in which the operator is as in this one; 0 if the library does not know it.
int since_version(const Node &node, int opset) {
    const onnx::OpSchema *schema = onnx::OpSchemaRegistry::Schema(node.op, opset, node.domain);
    return schema && !schema->Deprecated() ? schema->since_version() : 0;
}

// The first node whose operator is another one in this version of its domain's operator set.
const Node *node_that_differs(const std::vector<const Node *> &nodes, int opset) {
    for (const Node *n : nodes) {
        if (n->opset != opset && since_version(*n, n->opset) != since_version(*n, opset)) return n;
    }
    return nullptr;
}

// A version for each domain in which all nodes can be stated.
std::map<std::string, int> common_opsets(const Graph &graph, const std::string &name) {
    std::map<std::string, std::vector<const Node *>> domains;
    for (const Node &n : graph.nodes) domains[n.domain].push_back(&n);
    std::map<std::string, int> made;
    for (const auto &[domain, nodes] : domains) {
        std::set<int, std::greater<>> versions;
        for (const Node *n : nodes) versions.insert(n->opset);
        for (const int v : versions) {
            if (!made.count(domain) && !node_that_differs(nodes, v)) made[domain] = v;
        }
        if (made.count(domain)) continue;
        const Node *n = node_that_differs(nodes, *versions.begin());
        throw Unsupported(
            fmt::format("{}: {} is of opset {} and differs in opset {}, of which another node is; a file of "
                        "ONNX has one opset of each domain",
                        name, n->label(), n->opset, *versions.begin()));
    }
    constexpr int without_nodes = 21;
    made.emplace("", without_nodes);
    return made;
}

} // namespace

Model Model::of_graph(const Graph &graph, const std::string &name, const std::vector<ValueInfo> &values) {
    std::vector<Call> calls;
    for (size_t n = 0; n < graph.nodes.size(); n++) calls.push_back({"", {n}, {}});
    return of_calls(graph, name, values, calls, {});
}

namespace {

constexpr const char *kumiko_domain = "kumiko";

template<class Proto>
void add_metadata(Proto &proto, const std::map<std::string, std::string> &metadata) {
    for (const auto &[key, value] : metadata) {
        auto *made = proto.add_metadata_props();
        made->set_key(key), made->set_value(value);
    }
}

// The values that calls other than their own read, or that the graph returns.
std::set<std::string> values_between(const Graph &graph, const std::vector<Model::Call> &calls) {
    std::map<std::string, size_t> maker;
    std::set<std::string> between;
    for (size_t c = 0; c < calls.size(); c++) {
        for (const size_t n : calls[c].nodes) {
            for (const std::string &o : graph.nodes.at(n).outputs) maker[o] = c;
        }
    }
    for (size_t c = 0; c < calls.size(); c++) {
        for (const size_t n : calls[c].nodes) {
            for (const std::string &i : graph.nodes[n].inputs) {
                const auto made = maker.find(i);
                if (made != maker.end() && made->second != c) between.insert(i);
            }
        }
    }
    for (const ValueInfo &v : graph.outputs) between.insert(v.name);
    return between;
}

// The function of a call. It reads what its nodes do not make, and returns values of `between`.
onnx::FunctionProto function_of(const Graph &graph, const Model::Call &call, const std::set<std::string> &between) {
    onnx::FunctionProto function;
    function.set_name(call.function), function.set_domain(kumiko_domain);
    std::set<std::string> seen = {""};
    for (const size_t n : call.nodes) seen.insert(graph.nodes[n].outputs.begin(), graph.nodes[n].outputs.end());
    for (const size_t n : call.nodes) {
        const Node &node = graph.nodes[n];
        *function.add_node() = encode_node(node);
        for (const std::string &i : node.inputs) {
            if (seen.insert(i).second) function.add_input(i);
        }
        for (const std::string &o : node.outputs) {
            if (!o.empty() && between.count(o)) function.add_output(o);
        }
    }
    return function;
}

} // namespace

Model Model::of_calls(const Graph &graph, const std::string &name, const std::vector<ValueInfo> &values,
                      const std::vector<Call> &calls, const std::map<std::string, std::string> &metadata) {
    auto made = std::make_shared<Contents>();
    made->source.name = name, made->source.folder = ".";
    constexpr int ir_version = 10; // of opset 21; later ones add nothing that a Graph has
    made->proto.set_ir_version(ir_version);
    made->proto.set_producer_name("kumiko");
    add_metadata(made->proto, metadata);
    const std::map<std::string, int> opsets = common_opsets(graph, name);
    const auto add_opset = [](auto &proto, const std::string &domain, int version) {
        auto *opset = proto.add_opset_import();
        opset->set_domain(domain), opset->set_version(version);
    };
    for (const auto &[domain, version] : opsets) add_opset(made->proto, domain, version);
    onnx::GraphProto &proto = *made->proto.mutable_graph();
    proto.set_name(graph.name.empty() ? "graph" : graph.name);
    for (const ValueInfo &v : graph.inputs) *proto.add_input() = encode_value(v);
    for (const auto &[constant, value] : graph.constants) *proto.add_initializer() = encode_tensor(value, constant);
    UniqueNames names; // ONNX Runtime refuses equal ones
    const std::set<std::string> between = values_between(graph, calls);
    for (const Call &call : calls) {
        onnx::NodeProto &node = *proto.add_node();
        if (call.nodes.size() == 1) {
            const Node &only = graph.nodes[call.nodes[0]];
            node = encode_node(only);
            if (!only.name.empty()) node.set_name(names.fresh(only.name));
        } else {
            onnx::FunctionProto &function = *made->proto.add_functions();
            function = function_of(graph, call, between);
            for (const auto &[domain, version] : opsets) add_opset(function, domain, version);
            node.set_name(names.fresh(call.function)), node.set_op_type(call.function), node.set_domain(kumiko_domain);
            for (const std::string &i : function.input()) node.add_input(i);
            for (const std::string &o : function.output()) node.add_output(o);
        }
        add_metadata(node, call.metadata);
    }
    if (made->proto.functions_size() > 0) add_opset(made->proto, kumiko_domain, 1);
    for (const ValueInfo &v : values) *proto.add_value_info() = encode_value(v);
    for (const ValueInfo &v : graph.outputs) *proto.add_output() = encode_value(v);
    made->decode();
    Model model;
    model.contents_ = made;
    return model;
}

void Model::check() const {
    try {
        // The file itself where there is one, so that its external data are found.
        if (contents_->file.empty())
            onnx::checker::check_model(contents_->proto, true);
        else
            onnx::checker::check_model(contents_->file, true);
    } catch (const std::exception &e) {
        throw UserError(fmt::format("{}: {}", name(), cause(e)));
    }
}

void Model::save(const std::string &path) const {
    std::string bytes;
    if (!contents_->proto.SerializeToString(&bytes))
        throw UserError(fmt::format("{}: the model is larger than a file of ONNX may be", name()));
    write_file_atomically(path, bytes);
}

const std::string &Model::name() const { return contents_->source.name; }
const Graph &Model::graph() const { return contents_->graph; }
int64_t Model::ir_version() const { return contents_->proto.ir_version(); }
std::map<std::string, int> Model::opsets() const { return contents_->source.opsets; }

std::map<std::string, ValueInfo> Model::infer() const {
    onnx::ModelProto proto = contents_->proto;
    try {
        onnx::shape_inference::InferShapes(proto, onnx::OpSchemaRegistry::Instance(),
                                           onnx::ShapeInferenceOptions(true, 0, true));
    } catch (const std::exception &e) {
        throw UserError(fmt::format("{}: {}", name(), cause(e)));
    }
    std::map<std::string, ValueInfo> values;
    for (const auto *all : {&proto.graph().input(), &proto.graph().value_info(), &proto.graph().output()}) {
        for (const auto &v : *all) values[v.name()] = decode_value(v);
    }
    return values;
}

namespace {

// " {Conv Relu} step=3": what Kumiko states of a node or value.
template<class Proto>
std::string remarks(const Proto &proto) {
    std::string text;
    for (const auto &m : proto.metadata_props()) {
        if (m.key().starts_with("kumiko.")) text += fmt::format("  {}={}", m.key().substr(7), m.value());
    }
    return text;
}

} // namespace

std::string Model::text() const {
    const onnx::GraphProto &g = contents_->proto.graph();
    const auto values = infer();
    std::string all = fmt::format("graph {}, IR {}, opsets", g.name(), ir_version());
    for (const auto &opset : contents_->proto.opset_import())
        all += fmt::format(" {}={}", opset.domain().empty() ? "ai.onnx" : opset.domain(), opset.version());
    all += remarks(contents_->proto) + '\n';
    const auto typed = [&](const std::string &name) {
        const auto found = values.find(name);
        return found == values.end() ? name : found->second.text();
    };
    const auto add_node = [&](const onnx::NodeProto &n, const auto &shown) {
        std::vector<std::string> outputs;
        for (const std::string &o : n.output()) outputs.push_back(shown(o));
        all += fmt::format("  {} = {}({}){}\n", fmt::join(outputs, ", "), n.op_type(), fmt::join(n.input(), ", "),
                           remarks(n));
    };
    for (const ValueInfo &v : graph().inputs) all += "input " + typed(v.name) + "\n";
    for (const onnx::NodeProto &n : g.node()) add_node(n, typed);
    for (const ValueInfo &v : graph().outputs) all += "output " + typed(v.name) + "\n";
    for (const onnx::FunctionProto &f : contents_->proto.functions()) {
        all +=
            fmt::format("function {}({}) => ({})\n", f.name(), fmt::join(f.input(), ", "), fmt::join(f.output(), ", "));
        for (const onnx::NodeProto &n : f.node()) add_node(n, [](const std::string &name) { return name; });
    }
    for (const onnx::ValueInfoProto &v : g.value_info()) {
        if (const std::string text = remarks(v); !text.empty()) all += fmt::format("value {}{}\n", v.name(), text);
    }
    return all;
}

namespace {

using Attributes = std::map<std::string, onnx::AttributeProto>;

// Replaces references to attributes of the function by their values, in inner graphs too.
void bind_attributes(onnx::NodeProto &node, const Attributes &given) {
    google::protobuf::RepeatedPtrField<onnx::AttributeProto> kept;
    for (const auto &a : node.attribute()) {
        if (a.ref_attr_name().empty()) {
            onnx::AttributeProto *own = kept.Add();
            *own = a;
            if (own->has_g()) {
                for (onnx::NodeProto &inner : *own->mutable_g()->mutable_node()) bind_attributes(inner, given);
            }
        } else if (const auto found = given.find(a.ref_attr_name()); found != given.end()) {
            onnx::AttributeProto *bound = kept.Add();
            *bound = found->second;
            bound->set_name(a.name());
        }
    }
    *node.mutable_attribute() = kept;
}

// Names of values in a function's body, and what they are in the graph that calls it. Inner graphs
// may not shadow names, so one map is for all. Other names are of the calling graph already.
using Names = std::map<std::string, std::string>;

void collect_names(const onnx::NodeProto &node, const std::string &prefix, Names &names) {
    for (const std::string &o : node.output()) {
        if (!o.empty()) names.emplace(o, prefix + o);
    }
    for (const auto &a : node.attribute()) {
        if (!a.has_g()) continue;
        for (const auto &v : a.g().input()) names.emplace(v.name(), prefix + v.name());
        for (const auto &t : a.g().initializer()) names.emplace(t.name(), prefix + t.name());
        for (const onnx::NodeProto &inner : a.g().node()) collect_names(inner, prefix, names);
    }
}

void rename(std::string &name, const Names &names) {
    const auto found = names.find(name);
    if (found != names.end()) name = found->second;
}

void rename_values(onnx::NodeProto &node, const Names &names) {
    for (std::string &i : *node.mutable_input()) rename(i, names);
    for (std::string &o : *node.mutable_output()) rename(o, names);
    for (auto &a : *node.mutable_attribute()) {
        if (!a.has_g()) continue;
        onnx::GraphProto &graph = *a.mutable_g();
        for (auto *all : {graph.mutable_input(), graph.mutable_output()}) {
            for (auto &v : *all) rename(*v.mutable_name(), names);
        }
        for (auto &t : *graph.mutable_initializer()) rename(*t.mutable_name(), names);
        for (onnx::NodeProto &inner : *graph.mutable_node()) rename_values(inner, names);
    }
}

} // namespace

std::optional<std::vector<Node>> function_body(const Node &node, const std::vector<ValueInfo> &inputs,
                                               const std::string &prefix, const std::map<std::string, int> &opsets) {
    constexpr int newest = 28; // opset of ai.onnx in the library
    if (node.domain == "com.microsoft") {
        const auto opset = opsets.find("");
        return microsoft_body(node, inputs, prefix, opset == opsets.end() ? newest : opset->second);
    }
    const onnx::OpSchema *schema = onnx::OpSchemaRegistry::Schema(node.op, node.opset, node.domain);
    if (!schema || (!schema->HasFunction() && !schema->HasContextDependentFunction())) return std::nullopt;
    const onnx::NodeProto proto = encode_node(node);
    onnx::FunctionProto body;
    if (schema->HasContextDependentFunction()) {
        std::vector<onnx::TypeProto> types(node.inputs.size());
        for (size_t i = 0; i < inputs.size(); i++) {
            if (!inputs[i].type) continue;
            auto *tensor = types[i].mutable_tensor_type();
            tensor->set_elem_type(onnx_type(*inputs[i].type));
            auto *shape = tensor->mutable_shape();
            for (const Dimension &d : *inputs[i].shape) shape->add_dim()->set_dim_value(*d.number);
        }
        const onnx::FunctionBodyBuildContextImpl context(proto, types);
        if (!schema->BuildContextDependentFunction(context, body, node.opset)) return std::nullopt;
    } else {
        const onnx::FunctionProto *found = schema->GetFunction(node.opset, true);
        if (!found) return std::nullopt;
        body = *found;
    }
    Names names;
    for (int i = 0; i < body.input_size(); i++)
        names[body.input(i)] = size_t(i) < node.inputs.size() ? node.inputs[size_t(i)] : "";
    for (int o = 0; o < body.output_size(); o++) {
        const bool wanted = size_t(o) < node.outputs.size() && !node.outputs[size_t(o)].empty();
        names[body.output(o)] = wanted ? node.outputs[size_t(o)] : prefix + body.output(o);
    }
    for (const onnx::NodeProto &inner : body.node()) collect_names(inner, prefix, names);
    Source source{node.label(), ".", opsets};
    source.opsets.emplace("", newest);
    for (const auto &opset : body.opset_import())
        source.opsets[opset.domain() == "ai.onnx" ? "" : opset.domain()] = static_cast<int>(opset.version());
    Attributes given;
    for (const auto &a : proto.attribute()) given[a.name()] = a;
    for (const auto &[name, attribute] : schema->attributes()) { // defaults
        if (!given.count(name) && attribute.default_value.has_name()) given[name] = attribute.default_value;
    }
    std::vector<Node> nodes;
    for (onnx::NodeProto inner : body.node()) {
        bind_attributes(inner, given);
        rename_values(inner, names);
        Node made = decode_node(inner, source);
        made.name = node.name.empty() ? node.op + " of " + node.outputs.at(0) : node.name;
        nodes.push_back(std::move(made));
    }
    return nodes;
}

} // namespace kumiko::graph
