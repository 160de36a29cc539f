#include "graph/infer/graph_fixer.h"

#include "dsl/types.h"
#include "graph/infer/onnx_control.h"
#include "graph/ir/control.h"
#include "graph/ir/strings.h"
#include "support/error.h"
#include "support/names.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>

namespace kumiko::graph {

namespace {

constexpr int64_t max_folded_bytes = 64 * 1024; // of a result that is larger than its inputs
constexpr double max_interpreted_steps = 1e6;

// Iterations of all loops, reductions included.
double steps_of(const Op &op) {
    double all = 0;
    for (const Stage &s : op.stages()) {
        double points = 1;
        for (const auto *axes : {&s.axes, &s.reduction_axes}) {
            for (const int64_t e : evaluate_extents(*axes, {})) points *= static_cast<double>(e);
        }
        all += points;
    }
    return all;
}

} // namespace

Node renamed(Node node, const std::map<std::string, std::string> &names) {
    const auto rename = [](std::string &name, const std::map<std::string, std::string> &to) {
        const auto found = to.find(name);
        if (found != to.end()) name = found->second;
    };
    for (std::string &name : node.inputs) rename(name, names);
    for (std::string &name : node.outputs) rename(name, names);
    for (auto &[attribute, value] : node.attributes) {
        auto *graph = std::get_if<std::shared_ptr<const Graph>>(&value.value);
        if (!graph) continue;
        auto copy = std::make_shared<Graph>(**graph);
        std::map<std::string, std::string> outer = names;
        for (const ValueInfo &in : copy->inputs) outer.erase(in.name);
        for (const auto &constant : copy->constants) outer.erase(constant.first);
        for (const Node &n : copy->nodes) {
            for (const std::string &o : n.outputs) outer.erase(o);
        }
        for (Node &n : copy->nodes) n = renamed(std::move(n), outer);
        for (ValueInfo &o : copy->outputs) rename(o.name, outer);
        *graph = std::move(copy);
    }
    return node;
}

FixedGraph GraphFixer::run() {
    made_.name = model_.name();
    for (const auto &[name, value] : model_.graph().constants) define_constant(name, value);
    add_inputs();
    for (const Node &node : model_.graph().nodes) add(node);
    std::map<size_t, BoundedAxis> bounded;
    for (const ValueInfo &o : model_.graph().outputs) {
        const KnownValue &v = find(o.name, model_.name());
        require_numbers(o.name, model_.name());
        if (v.bounded) bounded[made_.outputs.size()] = *v.bounded;
        made_.outputs.push_back(o.name);
    }
    for (const auto &[output, b] : bounded) {
        const auto begin = made_.outputs.begin() + int64_t(model_.graph().outputs.size());
        const auto size = std::find(begin, made_.outputs.end(), b.size);
        made_.sized.push_back({output, b.axis, size_t(size - made_.outputs.begin())});
        if (size == made_.outputs.end()) made_.outputs.push_back(b.size);
    }
    remove_unused();
    return std::move(made_);
}

void GraphFixer::add_inputs() {
    std::set<std::string> symbols, used_constants;
    for (const ValueInfo &stated : model_.graph().inputs) {
        // An optional tensor is always given to a program.
        ValueInfo in = stated.kind == ValueInfo::Kind::Optional && stated.element ? *stated.element : stated;
        in.name = stated.name;
        const auto constant = options_.constants.find(in.name);
        if (constant != options_.constants.end()) {
            used_constants.insert(in.name);
            if (in.type && Type(constant->second.type()) != *in.type)
                throw UserError(fmt::format("{}: input {} is made a constant of {}; legal is one of {}", model_.name(),
                                            in.text(), type_name(constant->second.type()), type_name(*in.type)));
            define_constant(in.name, constant->second);
            continue;
        }
        if (!in.type)
            throw Unsupported(
                fmt::format("{}: input {} is not a tensor of numbers; supported in programs are tensors of "
                            "numbers, and optional ones",
                            model_.name(), in.text()));
        if (!in.shape)
            throw Unsupported(fmt::format("{}: input {} may have any number of axes; supported is a known one",
                                          model_.name(), in.text()));
        if (*in.type == string_type)
            throw Unsupported(fmt::format("{}: input {} is a tensor of strings; supported in programs are tensors of "
                                          "numbers",
                                          model_.name(), in.text()));
        KnownValue v{*in.type, {}};
        for (size_t d = 0; d < in.shape->size(); d++) v.extents.push_back(size_of(in, d, symbols));
        if (!has_legal_size(v.type, v.extents))
            throw UserError(fmt::format("{}: input {} has the extents [{}]; legal are up to 2^40 bytes", model_.name(),
                                        in.text(), fmt::join(v.extents, ",")));
        made_.values[in.name] = v;
        made_.inputs.push_back(in.name);
    }
    for (const auto &[name, value] : options_.sizes) {
        if (!symbols.count(name))
            throw UserError(fmt::format("{} has no size \"{}\"{}", model_.name(), name,
                                        suggest(name, {symbols.begin(), symbols.end()})));
    }
    for (const auto &[name, value] : options_.constants) {
        if (!used_constants.count(name))
            throw UserError(fmt::format("{} has no input \"{}\" to make a constant", model_.name(), name));
    }
}

int64_t GraphFixer::size_of(const ValueInfo &in, size_t d, std::set<std::string> &symbols) const {
    const Dimension &want = (*in.shape)[d];
    if (want.number) {
        if (*want.number < 0)
            throw UserError(fmt::format("{}: input {} has a negative extent", model_.name(), in.text()));
        return *want.number;
    }
    const std::string symbol = in.symbol(d);
    symbols.insert(symbol);
    const auto given = options_.sizes.find(symbol);
    if (given == options_.sizes.end())
        throw UserError(fmt::format("{}: input {} has an open size \"{}\"; give it a number, such as --size {}=1",
                                    model_.name(), in.text(), symbol, symbol));
    if (given->second < 1 || given->second > INT32_MAX)
        throw UserError(fmt::format("{}: the size \"{}\" is {}; legal are 1 to {}", model_.name(), symbol,
                                    given->second, INT32_MAX));
    return given->second;
}

void GraphFixer::define_constant(const std::string &name, const Buffer<> &value) {
    made_.values[name] = {value.type(), value.extents(), value, true};
}

const KnownValue &GraphFixer::find(const std::string &name, const std::string &reader) {
    if (structure(name))
        throw Unsupported(
            fmt::format("{} reads \"{}\", which is a sequence or an empty optional; supported in programs "
                        "are these as states of loops of a known number of iterations, and inside of the "
                        "graph where they are made",
                        reader, name));
    const auto found = made_.values.find(name);
    if (found != made_.values.end()) return found->second;
    if (outer_) {
        const KnownValue &v = outer_->find(name, reader);
        if (!v.constant) captured_.push_back(name);
        return made_.values[name] = v;
    }
    throw UserError(fmt::format("{} reads \"{}\", which has no value", reader, name));
}

void GraphFixer::add(const Node &node) {
    naming_node(node, [&] {
        if (node.domain.empty() && node.op == "If")
            add_if(node);
        else if (node.domain.empty() && node.op == "Loop")
            add_loop(node);
        else if (node.domain.empty() && node.op == "Scan")
            add_scan(node);
        else if (add_structure(node) || add_selection(node))
            return;
        else if (find_operator(node.op, node.opset, node.domain))
            add_formula(node);
        else
            add_body(node);
    });
}

void GraphFixer::add_formula(const Node &node) {
    const GroupOp group =
        make_group_op({&node}, node.named_outputs(), [&](const std::string &name) { return find(name, node.label()); });
    for (const auto &[name, value] : group.made) {
        made_.values[name] = value;
        made_.values[name].constant = value.value.has_value();
    }
    pass_bound(node);
    if (!group.op) return;
    if (!are_quantised_weights(node) && fold(group)) return;
    for (const auto *names : {&group.inputs, &group.outputs}) {
        for (const std::string &name : *names) require_numbers(name, node.label());
    }
    made_.nodes.push_back(node);
}

// A matrix or window of bytes, which a product may read as integers. The values of enclosing graphs
// are inputs of this one by now.
bool GraphFixer::are_quantised_weights(const Node &node) const {
    if (!node.domain.empty() || node.op != "DequantizeLinear") return false;
    const KnownValue &v = made_.values.at(node.inputs[0]);
    return v.constant && v.type.bits() <= 8 && v.extents.size() >= 2;
}

void GraphFixer::require_numbers(const std::string &name, const std::string &reader) {
    if (find(name, reader).type == string_type)
        throw Unsupported(
            fmt::format("{}: the strings \"{}\" are needed when the model runs; supported in programs are "
                        "strings that only constants depend on, and which no output is",
                        reader, name));
}

bool GraphFixer::fold(const GroupOp &group) {
    int64_t before = 0, after = 0;
    std::vector<Buffer<>> inputs;
    for (const std::string &name : group.inputs) {
        const KnownValue &v = made_.values.at(name);
        if (!v.constant) return false;
        before += v.bytes();
        inputs.push_back(*v.value);
    }
    for (const std::string &name : group.outputs) after += made_.bytes(name);
    bool computed = after <= std::max(before, max_folded_bytes);
    if (options_.folded) computed = options_.folded->emplace(group.outputs.at(0), computed).first->second;
    if (!computed) return false;
    const bool large = options_.run && steps_of(*group.op) > max_interpreted_steps;
    const std::vector<Buffer<>> results = run_group(group, inputs, large ? options_.run : nullptr);
    for (size_t o = 0; o < results.size(); o++) define_constant(group.outputs[o], results[o]);
    return true;
}

void GraphFixer::add_body(const Node &node) {
    std::vector<ValueInfo> types;
    for (size_t n = 0; n < node.inputs.size(); n++) {
        types.emplace_back();
        if (!node.has_input(n)) continue;
        const KnownValue &v = find(node.inputs[n], node.label());
        types.back() = ValueInfo::of(node.inputs[n], v.type, v.extents);
    }
    const auto body = function_body(node, types, new_prefix(node), opsets_);
    if (!body) throw no_formula(node);
    for (const Node &inner : *body) add(inner);
}

std::string GraphFixer::new_prefix(const Node &node) {
    return fmt::format("{}/{}/", fmt::join(node.named_outputs(), "+"), shared_->bodies++);
}

std::string GraphFixer::unused_name(std::string name) const {
    const auto is_used = [&] {
        for (const GraphFixer *g = this; g; g = g->outer_) {
            if (g->made_.values.count(name)) return true;
        }
        return false;
    };
    while (is_used()) name += "_";
    return name;
}

std::vector<std::string> GraphFixer::add_graph(const Graph &graph, const std::string &prefix, Names names) {
    for (const auto &[name, value] : graph.constants) {
        names[name] = prefix + name;
        define_constant(prefix + name, value);
    }
    for (const Node &n : graph.nodes) {
        for (const std::string &o : n.outputs) names[o] = o.empty() ? "" : prefix + o;
    }
    for (const Node &n : graph.nodes) add(renamed(n, names));
    std::vector<std::string> outputs;
    for (const ValueInfo &o : graph.outputs) {
        const auto own = names.find(o.name);
        outputs.push_back(own == names.end() ? o.name : own->second);
    }
    return outputs;
}

void GraphFixer::define_as(const std::string &name, const std::string &value, const Node &node) {
    if (const Structure *s = structure(value)) {
        structures_[name] = Structure(*s);
        return;
    }
    const KnownValue &v = find(value, node.label());
    if (v.constant) {
        define_constant(name, Buffer<>(*v.value));
        return;
    }
    Node copy;
    copy.name = node.name, copy.op = "Identity", copy.opset = node.opset;
    copy.inputs = {value}, copy.outputs = {name};
    add_formula(copy);
}

void GraphFixer::remove_unused() {
    std::set<std::string> needed(made_.outputs.begin(), made_.outputs.end());
    std::vector<Node> kept;
    for (size_t n = made_.nodes.size(); n-- > 0;) {
        Node &node = made_.nodes[n];
        const bool read = std::any_of(node.outputs.begin(), node.outputs.end(), [&](const std::string &o) {
            return !o.empty() && needed.count(o) && !made_.is_constant(o);
        });
        if (!read) continue;
        needed.insert(node.inputs.begin(), node.inputs.end());
        kept.push_back(std::move(node));
    }
    made_.nodes.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
    needed.insert(made_.inputs.begin(), made_.inputs.end());
    for (const Node &n : made_.nodes) needed.insert(n.outputs.begin(), n.outputs.end());
    std::erase_if(made_.values, [&](const auto &v) { return !needed.count(v.first); });
}

FixedGraph fix_sizes(const Model &model, const FixOptions &options) { return GraphFixer(model, options).run(); }

std::pair<Graph, std::vector<ValueInfo>> to_graph(const FixedGraph &graph) {
    const auto info = [&](const std::string &name) {
        const KnownValue &v = graph.value(name);
        return ValueInfo::of(name, v.type, v.extents);
    };
    Graph all;
    all.name = std::filesystem::path(graph.name).stem().string();
    for (const std::string &i : graph.inputs) all.inputs.push_back(info(i));
    for (const std::string &o : graph.outputs) all.outputs.push_back(info(o));
    for (const auto &[name, v] : graph.values) {
        if (v.constant) all.constants[name] = *v.value;
    }
    for (const Node &n : graph.nodes) is_control(n) ? add_onnx_control(all, graph, n) : all.nodes.push_back(n);
    // An output without elements is known, and its node may have others.
    const std::set<std::string> outputs(graph.outputs.begin(), graph.outputs.end());
    std::vector<ValueInfo> inner;
    for (const Node &n : graph.nodes) {
        for (const std::string &o : n.named_outputs()) {
            all.constants.erase(o);
            if (!outputs.count(o)) inner.push_back(info(o));
        }
    }
    return {all, inner};
}

Model to_model(const FixedGraph &graph) {
    const auto [all, inner] = to_graph(graph);
    return Model::of_graph(all, graph.name, inner);
}

} // namespace kumiko::graph
