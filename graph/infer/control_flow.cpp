// Nodes of If with fixed sizes, and what they share with loops.
#include "dsl/types.h"
#include "graph/infer/loop.h"
#include "support/error.h"

#include <algorithm>
#include <fmt/format.h>

namespace kumiko::graph {

std::string shape_text(const KnownValue &v) {
    return fmt::format("{}[{}]", type_name(v.type), fmt::join(v.extents, ","));
}

void require_scalar(const Node &node, const KnownValue &v, Type type) {
    int64_t elements = 1;
    for (const int64_t e : v.extents) elements *= e;
    if (v.type != type || elements != 1)
        throw UserError(fmt::format("{}: its condition or count is {}; legal is one element of {}", node.label(),
                                    shape_text(v), type_name(type)));
}

bool known_condition(const Node &node, const KnownValue &v) {
    require_scalar(node, v, boolean);
    return *static_cast<const uint8_t *>(v.value->data()) != 0;
}

std::string name_of(const Node &node) { return node.name.empty() ? node.named_outputs().at(0) : node.name; }

Buffer<> truth(bool value) {
    Buffer<> b(boolean, {});
    *static_cast<uint8_t *>(b.data()) = value;
    return b;
}

void GraphFixer::add_if(const Node &node) {
    const KnownValue condition = find(node.inputs.at(0), node.label());
    require_scalar(node, condition, boolean);
    if (!condition.constant) {
        add_branches(node);
        return;
    }
    const bool taken = known_condition(node, condition) != 0;
    const std::vector<std::string> values =
        add_graph(node.graph(taken ? "then_branch" : "else_branch"), new_prefix(node), {});
    for (size_t o = 0; o < node.outputs.size() && o < values.size(); o++) {
        if (!node.outputs[o].empty()) define_as(node.outputs[o], values[o], node);
    }
}

void GraphFixer::end_inner(FixedGraph &made, const std::vector<std::string> &outputs, const Node &node) {
    for (const std::string &o : outputs) {
        if (find(o, node.label()).bounded)
            throw Unsupported(fmt::format("{}: its graph returns \"{}\", whose size depends on data", node.label(), o));
        made_.outputs.push_back(o);
    }
    remove_unused();
    for (const std::string &name : captured_) {
        if (made_.values.count(name)) made_.inputs.push_back(name);
    }
    made = std::move(made_);
}

void GraphFixer::add_branches(const Node &node) {
    FixedGraph graphs[2];
    for (const bool taken : {true, false}) {
        GraphFixer inner(*this);
        const std::vector<std::string> values =
            inner.add_graph(node.graph(taken ? "then_branch" : "else_branch"), new_prefix(node), {});
        if (values.size() < node.outputs.size())
            throw UserError(node.label() + ": one of its branches returns too few values");
        std::vector<std::string> outputs;
        for (size_t o = 0; o < node.outputs.size(); o++) {
            if (!node.outputs[o].empty()) outputs.push_back(values[o]);
        }
        inner.end_inner(graphs[taken ? 0 : 1], outputs, node);
    }
    Node made;
    made.name = name_of(node), made.op = "If", made.domain = control_domain, made.opset = node.opset;
    const std::vector<std::string> names = node.named_outputs();
    for (size_t o = names.size(); o-- > 0;) {
        const KnownValue a = graphs[0].value(graphs[0].outputs[o]), b = graphs[1].value(graphs[1].outputs[o]);
        if (a.type != b.type || a.extents != b.extents)
            throw Unsupported(fmt::format("{}: its condition depends on data, and its branches give \"{}\" as {} and "
                                          "{}; supported are equal types and shapes, or a condition that is the same "
                                          "in all runs of the model",
                                          node.label(), names[o], shape_text(a), shape_text(b)));
        made_.values[names[o]] = {a.type, a.extents};
        if (a.bytes() > 0) {
            made.outputs.insert(made.outputs.begin(), names[o]);
            continue;
        }
        define_constant(names[o], Buffer<>(a.type, a.extents));
        for (FixedGraph &graph : graphs) graph.outputs.erase(graph.outputs.begin() + int64_t(o));
    }
    if (made.outputs.empty()) return;
    // Both graphs get the same inputs.
    std::vector<std::string> read = graphs[0].inputs;
    for (const std::string &name : graphs[1].inputs) {
        if (std::find(read.begin(), read.end(), name) == read.end()) read.push_back(name);
    }
    std::vector<int64_t> numbers;
    for (FixedGraph &graph : graphs) {
        for (const std::string &name : read) graph.values[name] = made_.values.at(name);
        graph.inputs = read;
        numbers.push_back(static_cast<int64_t>(made_.graphs.size()));
        made_.graphs.push_back(std::make_shared<FixedGraph>(std::move(graph)));
    }
    made.inputs = {node.inputs[0]};
    made.inputs.insert(made.inputs.end(), read.begin(), read.end());
    set_graphs(made, numbers);
    made_.nodes.push_back(made);
}

} // namespace kumiko::graph
