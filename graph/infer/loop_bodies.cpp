// The graph of a loop: as that of a node, or its iterations one after another.
#include "graph/infer/loop.h"
#include "support/error.h"

#include <algorithm>
#include <fmt/format.h>

namespace kumiko::graph {

FixedGraph GraphFixer::fix_body(const Loop &loop, const std::string &prefix) {
    GraphFixer inner(*this);
    Names names;
    const auto add_input = [&](const std::string &name, const KnownValue &v) {
        if (!name.empty()) names[name] = prefix + name;
        inner.made_.values[prefix + name] = v;
        inner.made_.inputs.push_back(prefix + name);
    };
    add_input(loop.number, {i64, {}});
    for (const LoopState &s : loop.states) {
        const KnownValue initial = find(s.initial, loop.node.label());
        if (s.changes())
            add_input(s.input, {initial.type, initial.extents});
        else
            names[s.input] = s.initial;
    }
    for (const LoopSlice &s : loop.slices) {
        KnownValue slice = find(s.source, loop.node.label());
        slice.extents.erase(slice.extents.begin());
        add_input(s.input, {slice.type, slice.extents});
    }
    if (!loop.again.empty()) { // true in each iteration
        names[loop.again] = prefix + loop.again;
        inner.define_constant(prefix + loop.again, truth(true));
    }
    std::vector<std::string> outputs = inner.add_graph(loop.body, prefix, names);
    const size_t before = loop.first_state() + loop.states.size();
    for (size_t n = loop.stacks.size(); n-- > 0;) {
        if (loop.stacks[n].result.empty()) outputs.erase(outputs.begin() + int64_t(before + n));
    }
    FixedGraph graph;
    inner.end_inner(graph, outputs, loop.node);
    return graph;
}

// The node of a loop and its graph, input by input and output by output.
struct GraphFixer::LoopNode {
    Node node;
    FixedGraph graph;
    LoopForm form;
    std::vector<std::string> inputs, outputs, results; // of the graph; of the node
    size_t in = 0, out = 0;                            // the graph's next input and output
    std::string size;                                  // the result with the number of iterations
};

void GraphFixer::finish_loop(const Loop &loop, FixedGraph graph) {
    LoopNode made{{}, std::move(graph), loop.form};
    Node &node = made.node;
    node.name = name_of(loop.node), node.op = "Loop", node.domain = control_domain, node.opset = loop.node.opset;
    node.inputs = {loop.count, loop.condition};
    made.inputs = {made.graph.inputs[made.in++]}; // the number of the iteration
    if (made.form.tested) made.outputs = {made.graph.outputs[made.out++]};
    made.size = unused_name(node.name + "_iterations");
    const std::string prefix = new_prefix(loop.node);
    for (size_t n = 0; n < loop.states.size(); n++)
        add_state(made, loop.states[n], fmt::format("{}state{}", prefix, n));
    for (const LoopSlice &s : loop.slices) {
        made.form.slices++;
        node.inputs.push_back(s.source);
        made.inputs.push_back(made.graph.inputs[made.in++]);
        made.form.backward.push_back(s.backward);
    }
    for (const LoopStack &s : loop.stacks) {
        if (!s.result.empty()) add_stack(made, loop, s);
    }
    if (made.results.empty()) return;
    if (made.form.sized) {
        made_.values[made.size] = {i64, {}};
        made.results.push_back(made.size);
    }
    for (; made.in < made.graph.inputs.size(); made.in++) {
        made.inputs.push_back(made.graph.inputs[made.in]);
        node.inputs.push_back(made.graph.inputs[made.in]);
    }
    made.graph.inputs = made.inputs, made.graph.outputs = made.outputs;
    node.outputs = made.results;
    made.form.store(node);
    set_graphs(node, {static_cast<int64_t>(made_.graphs.size())});
    made_.graphs.push_back(std::make_shared<FixedGraph>(std::move(made.graph)));
    made_.nodes.push_back(node);
}

void GraphFixer::add_state(LoopNode &made, const LoopState &state, const std::string &unnamed) {
    const std::string next = made.graph.outputs[made.out++];
    if (!state.changes()) return;
    const std::string result = state.result.empty() ? unnamed : state.result, input = made.graph.inputs[made.in++];
    const KnownValue initial = find(state.initial, made.node.label());
    made_.values[result] = {initial.type, initial.extents};
    if (initial.bytes() == 0) {
        define_constant(result, Buffer<>(initial.type, initial.extents));
        made.graph.values[input].value = Buffer<>(initial.type, initial.extents);
        made.graph.values[input].constant = true;
        return;
    }
    made.form.states++;
    made.node.inputs.push_back(state.initial);
    made.inputs.push_back(input);
    made.outputs.push_back(next), made.results.push_back(result);
}

void GraphFixer::add_stack(LoopNode &made, const Loop &loop, const LoopStack &stack) {
    const std::string next = made.graph.outputs[made.out++];
    KnownValue v = {made.graph.value(next).type, made.graph.value(next).extents};
    if (!loop.bounded)
        throw Unsupported(fmt::format("{}: data decide the number of its iterations, and so the size of \"{}\"; state "
                                      "the most iterations, as --bound {}=100",
                                      loop.node.label(), stack.result, made.node.name));
    if (made.form.trips < 0 || made.form.tested || !loop.condition.empty()) {
        made.form.sized = true;
        v.bounded = BoundedAxis{0, made.size};
    }
    v.extents.insert(v.extents.begin(), made.form.trips < 0 ? made.form.most : made.form.trips);
    if (!has_legal_size(v.type, v.extents))
        throw UserError(fmt::format("{}: its result \"{}\" is {}; legal are up to 2^40 bytes", loop.node.label(),
                                    stack.result, shape_text(v)));
    made_.values[stack.result] = v;
    if (v.bytes() == 0) {
        define_constant(stack.result, Buffer<>(v.type, v.extents));
        return;
    }
    made.outputs.push_back(next), made.results.push_back(stack.result);
    made.form.backward.push_back(stack.backward);
}

void GraphFixer::unroll(const Loop &loop) {
    const Node &node = loop.node;
    std::vector<std::string> states;
    for (const LoopState &s : loop.states) states.push_back(s.initial);
    std::vector<std::vector<std::string>> rows(loop.stacks.size());
    for (int64_t i = 0; i < loop.form.trips; i++) {
        const std::string prefix = new_prefix(node);
        const std::vector<std::string> results = add_iteration(loop, i, prefix, states);
        for (size_t n = 0; n < states.size(); n++) states[n] = results[loop.first_state() + n];
        for (size_t n = 0; n < rows.size(); n++) {
            if (loop.stacks[n].result.empty()) continue;
            const std::string row = fmt::format("{}row{}", prefix, n),
                              &from = results[loop.first_state() + states.size() + n];
            if (node.opset >= 13) {
                define_constant(prefix + "axes", int64_tensor({0}, {1}));
                add_node(node, "Unsqueeze", {from, prefix + "axes"}, row, "", {});
            } else {
                add_node(node, "Unsqueeze", {from}, row, "axes", {std::vector<int64_t>{0}});
            }
            rows[n].push_back(row);
        }
        if (!loop.returns_condition) continue;
        const KnownValue again = find(results[0], node.label());
        if (!again.constant)
            throw Unsupported(node.label() + ": shapes or values that must be known differ between its iterations, "
                                             "and the condition of a further one depends on data");
        if (!known_condition(node, again)) break;
    }
    for (size_t n = 0; n < states.size(); n++) {
        if (!loop.states[n].result.empty()) define_as(loop.states[n].result, states[n], node);
    }
    for (size_t n = 0; n < rows.size(); n++) {
        if (loop.stacks[n].result.empty()) continue;
        if (loop.stacks[n].backward) std::reverse(rows[n].begin(), rows[n].end());
        add_node(node, "Concat", rows[n], loop.stacks[n].result, "axis", {int64_t(0)});
    }
}

std::vector<std::string> GraphFixer::add_iteration(const Loop &loop, int64_t i, const std::string &prefix,
                                                   const std::vector<std::string> &states) {
    Names names;
    if (!loop.number.empty()) {
        names[loop.number] = prefix + loop.number;
        define_constant(prefix + loop.number, int64_tensor({i}, {}));
    }
    if (!loop.again.empty()) {
        names[loop.again] = prefix + loop.again;
        define_constant(prefix + loop.again, truth(true));
    }
    for (size_t n = 0; n < states.size(); n++) names[loop.states[n].input] = states[n];
    for (size_t n = 0; n < loop.slices.size(); n++) {
        const LoopSlice &s = loop.slices[n];
        const std::string at = fmt::format("{}at{}", prefix, n);
        define_constant(at, int64_tensor({s.backward ? loop.form.trips - 1 - i : i}, {}));
        names[s.input] = fmt::format("{}slice{}", prefix, n);
        add_node(loop.node, "Gather", {s.source, at}, names[s.input], "axis", {int64_t(0)});
    }
    return add_graph(loop.body, prefix, names);
}

void GraphFixer::add_node(const Node &like, const std::string &op, const std::vector<std::string> &inputs,
                          const std::string &output, const std::string &attribute, const Attribute &value) {
    Node made;
    made.name = like.name, made.op = op, made.opset = like.opset;
    made.inputs = inputs, made.outputs = {output};
    if (!attribute.empty()) made.attributes[attribute] = value;
    add(made);
}

} // namespace kumiko::graph
