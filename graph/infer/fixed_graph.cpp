#include "graph/infer/fixed_graph.h"

#include "dsl/interpret.h"
#include "dsl/types.h"
#include "support/error.h"
#include "support/names.h"

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

// The node with other names of values, also in its graphs where these do not define them.
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

class GraphFixer {
public:
    GraphFixer(const Model &model, const FixOptions &options)
        : model_(model), options_(options), opsets_(model.opsets()) {}

    FixedGraph run() {
        made_.name = model_.name();
        for (const auto &[name, value] : model_.graph().constants) define_constant(name, value);
        add_inputs();
        for (const Node &node : model_.graph().nodes) add(node);
        for (const ValueInfo &o : model_.graph().outputs) {
            find(o.name, model_.name());
            made_.outputs.push_back(o.name);
        }
        leave_out_unused();
        return std::move(made_);
    }

private:
    void add_inputs() {
        std::set<std::string> symbols, used_constants;
        for (const ValueInfo &in : model_.graph().inputs) {
            const auto constant = options_.constants.find(in.name);
            if (constant != options_.constants.end()) {
                used_constants.insert(in.name);
                if (in.type && Type(constant->second.type()) != *in.type)
                    throw UserError(fmt::format("{}: input {} is made a constant of {}; legal is one of {}",
                                                model_.name(), in.text(), type_name(constant->second.type()),
                                                type_name(*in.type)));
                define_constant(in.name, constant->second);
                continue;
            }
            if (!in.type)
                throw Unsupported(
                    fmt::format("{}: input {} is not a tensor of numbers; supported are tensors of numbers",
                                model_.name(), in.text()));
            if (!in.shape)
                throw Unsupported(fmt::format("{}: input {} may have any number of axes; supported is a known one",
                                              model_.name(), in.text()));
            KnownValue v{*in.type, {}};
            for (size_t d = 0; d < in.shape->size(); d++) v.extents.push_back(size_of(in, d, symbols));
            if (!has_legal_size(v.type, v.extents))
                throw UserError(fmt::format("{}: input {} has the extents [{}]; legal are up to 2^40 bytes",
                                            model_.name(), in.text(), fmt::join(v.extents, ",")));
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

    int64_t size_of(const ValueInfo &in, size_t d, std::set<std::string> &symbols) const {
        const Dimension &want = (*in.shape)[d];
        if (want.number) {
            if (*want.number < 0)
                throw UserError(fmt::format("{}: input {} has a negative extent", model_.name(), in.text()));
            return *want.number;
        }
        const std::string symbol = want.symbol.empty() ? fmt::format("{}:{}", in.name, d) : want.symbol;
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

    void define_constant(const std::string &name, const Buffer<> &value) {
        made_.values[name] = {value.type(), value.extents(), value, true};
    }

    const KnownValue &find(const std::string &name, const std::string &reader) const {
        const auto found = made_.values.find(name);
        if (found != made_.values.end()) return found->second;
        throw UserError(fmt::format("{} reads \"{}\", which has no value", reader, name));
    }

    void add(const Node &node) {
        naming_node(node, [&] {
            if (node.domain.empty() && node.op == "If")
                add_branch(node);
            else if (node.domain.empty() && (node.op == "Loop" || node.op == "Scan" || node.op == "SequenceMap"))
                throw Unsupported(node.label() + ": loops over graphs; supported in a compiled model are nodes that "
                                                 "run once. `kumiko run` without sizes runs it node by node");
            else if (find_operator(node.op, node.opset, node.domain))
                add_formula(node);
            else
                add_body(node);
        });
    }

    void add_formula(const Node &node) {
        const GroupOp group = make_group_op({&node}, node.named_outputs(),
                                            [&](const std::string &name) { return find(name, node.label()); });
        for (const auto &[name, value] : group.made) {
            made_.values[name] = value;
            made_.values[name].constant = value.value.has_value();
        }
        if (!group.op) return;
        if (!fold(group)) made_.nodes.push_back(node);
    }

    // Computes a group of constants. Returns false if it is left to run time.
    bool fold(const GroupOp &group) {
        int64_t before = 0, after = 0;
        std::vector<Buffer<>> inputs;
        for (const std::string &name : group.inputs) {
            const KnownValue &v = made_.values.at(name);
            if (!v.constant) return false;
            before += v.bytes();
            inputs.push_back(*v.value);
        }
        for (const std::string &name : group.outputs) after += made_.bytes(name);
        if (after > std::max(before, max_folded_bytes)) return false;
        const bool large = options_.run && steps_of(*group.op) > max_interpreted_steps;
        const std::vector<Buffer<>> results =
            large ? options_.run(*group.op, inputs) : std::vector<Buffer<>>(interpret(*group.op, inputs));
        for (size_t o = 0; o < results.size(); o++) define_constant(group.outputs[o], results[o]);
        return true;
    }

    // Adds the nodes of the operator's definition in place of the node.
    void add_body(const Node &node) {
        std::vector<ValueInfo> types;
        for (size_t n = 0; n < node.inputs.size(); n++) {
            types.emplace_back();
            if (!node.has_input(n)) continue;
            const KnownValue &v = find(node.inputs[n], node.label());
            types.back() = ValueInfo::of(node.inputs[n], v.type, v.extents);
        }
        const auto body = function_body(node, types, fmt::format("{}/{}/", node.outputs.at(0), bodies_++), opsets_);
        if (!body) throw no_formula(node);
        for (const Node &inner : *body) add(inner);
    }

    // The graph of an If whose condition is known takes the node's place.
    void add_branch(const Node &node) {
        const KnownValue &condition = find(node.inputs.at(0), node.label());
        if (!condition.constant)
            throw Unsupported(node.label() + ": its condition depends on data; supported is one that is the same in "
                                             "all runs of the model");
        if (condition.type != boolean || condition.value->number_of_elements() != 1)
            throw UserError(node.label() + ": its condition is not one element of bool");
        uint8_t taken = 0;
        std::memcpy(&taken, condition.value->data(), 1);
        const Graph &branch = node.graph(taken ? "then_branch" : "else_branch");
        // Several branches may have the same names.
        const std::string prefix = fmt::format("{}/{}/", node.outputs.at(0), bodies_++);
        std::map<std::string, std::string> names;
        for (const auto &[name, value] : branch.constants) {
            names[name] = prefix + name;
            define_constant(prefix + name, value);
        }
        for (const Node &n : branch.nodes) {
            for (const std::string &o : n.outputs) names[o] = o.empty() ? "" : prefix + o;
        }
        for (const Node &n : branch.nodes) add(renamed(n, names));
        for (size_t o = 0; o < node.outputs.size() && o < branch.outputs.size(); o++) {
            if (node.outputs[o].empty()) continue;
            const auto own = names.find(branch.outputs[o].name);
            const std::string from = own == names.end() ? branch.outputs[o].name : own->second;
            Node copy;
            copy.name = node.name, copy.op = "Identity", copy.opset = node.opset;
            copy.inputs = {from}, copy.outputs = {node.outputs[o]};
            const KnownValue &v = find(from, node.label());
            if (v.constant)
                define_constant(node.outputs[o], *v.value);
            else
                add_formula(copy);
        }
    }

    void leave_out_unused() {
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

    const Model &model_;
    const FixOptions &options_;
    const std::map<std::string, int> opsets_;
    FixedGraph made_;
    int bodies_ = 0;
};

} // namespace

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
    all.nodes = graph.nodes;
    for (const auto &[name, v] : graph.values) {
        if (v.constant) all.constants[name] = *v.value;
    }
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
