// Nodes of control flow with fixed sizes: graphs of their own, or nodes in place of them.
//
// One file, because a Scan becomes a Loop, and both become an inner graph in the same steps.
#include "dsl/types.h"
#include "graph/infer/graph_fixer.h"
#include "graph/ir/control.h"
#include "support/error.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace kumiko::graph {

namespace {

// The most iterations of a loop that becomes copies of its graph, which it does if shapes or other
// known values differ between the iterations.
constexpr int64_t most_copies = 64;

std::string shape_text(const KnownValue &v) {
    return fmt::format("{}[{}]", type_name(v.type), fmt::join(v.extents, ","));
}

bool is_same(const KnownValue &a, const KnownValue &b) { return a.type == b.type && a.extents == b.extents; }

// One element of a condition or a number of iterations. Throws UserError for other tensors.
void require_scalar(const Node &node, const KnownValue &v, Type type) {
    int64_t elements = 1;
    for (const int64_t e : v.extents) elements *= e;
    if (v.type != type || elements != 1)
        throw UserError(fmt::format("{}: its condition or count is {}; legal is one element of {}", node.label(),
                                    shape_text(v), type_name(type)));
}

template<typename T>
T known_scalar(const Node &node, const KnownValue &v, Type type) {
    require_scalar(node, v, type);
    T value;
    std::memcpy(&value, v.value->data(), sizeof value);
    return value;
}

std::string name_of(const Node &node) { return node.name.empty() ? node.named_outputs().at(0) : node.name; }

} // namespace

Buffer<> truth(bool value) {
    Buffer<> b(boolean, {});
    *static_cast<uint8_t *>(b.data()) = value;
    return b;
}

// --- If ---

void GraphFixer::add_if(const Node &node) {
    const KnownValue condition = find(node.inputs.at(0), node.label());
    require_scalar(node, condition, boolean);
    if (!condition.constant) {
        add_branches(node);
        return;
    }
    const bool taken = known_scalar<uint8_t>(node, condition, boolean) != 0;
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
        if (!is_same(a, b))
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

// --- Loop and Scan ---

// A Loop or Scan with what is known about it.
struct GraphFixer::Loop {
    Loop(const Node &node, const Graph &body) : node(node), body(body) {}

    const Node &node;
    const Graph &body;
    LoopForm form;
    std::string count, condition;             // values that depend on data; "" if they do not
    std::string number, again;                // inputs of the body: iteration, condition; or ""
    bool bounded = false;                     // the most iterations are known or stated
    bool returns_condition = false;           // the body's first output
    std::vector<std::string> initial;         // values of states
    std::vector<std::string> states, slices;  // of the body: its inputs
    std::vector<std::string> sources;         // values that are sliced
    std::vector<std::string> finals, stacked; // names of results; "" for those that are not needed
};

void GraphFixer::add_loop(const Node &node) {
    Loop loop(node, node.graph("body"));
    const size_t states = std::max<size_t>(node.inputs.size(), 2) - 2;
    if (loop.body.inputs.size() != 2 + states || loop.body.outputs.size() < 1 + states)
        throw UserError(fmt::format("{}: its body takes {} values and returns {}; legal are {} and at least {}",
                                    node.label(), loop.body.inputs.size(), loop.body.outputs.size(), 2 + states,
                                    1 + states));
    if (node.has_input(0)) {
        const KnownValue count = find(node.inputs[0], node.label());
        require_scalar(node, count, i64);
        if (count.constant) {
            // Exporters write the largest number for a loop that only its condition ends.
            const int64_t trips = known_scalar<int64_t>(node, count, i64);
            if (trips != INT64_MAX) loop.form.trips = std::max<int64_t>(trips, 0);
        } else {
            loop.count = node.inputs[0];
        }
    }
    if (node.has_input(1)) {
        const KnownValue condition = find(node.inputs[1], node.label());
        require_scalar(node, condition, boolean);
        if (!condition.constant)
            loop.condition = node.inputs[1];
        else if (!known_scalar<uint8_t>(node, condition, boolean))
            loop.form.trips = 0, loop.count.clear();
    }
    loop.number = loop.body.inputs[0].name, loop.again = loop.body.inputs[1].name;
    loop.returns_condition = true;
    for (size_t n = 0; n < states; n++) {
        loop.initial.push_back(node.inputs[2 + n]);
        loop.states.push_back(loop.body.inputs[2 + n].name);
    }
    for (size_t n = 0; n + 1 < loop.body.outputs.size(); n++) {
        const std::string result = n < node.outputs.size() ? node.outputs[n] : "";
        (n < states ? loop.finals : loop.stacked).push_back(result);
    }
    loop.form.backward.assign(loop.stacked.size(), 0);
    add(loop);
}

std::string GraphFixer::transposed(const Node &node, const std::string &value, const std::vector<int64_t> &order,
                                   const std::string &name) {
    if (std::is_sorted(order.begin(), order.end())) return value;
    Node made;
    made.name = node.name, made.op = "Transpose", made.opset = node.opset;
    made.inputs = {value}, made.outputs = {name};
    made.attributes["perm"].value = order;
    add(made);
    return name;
}

void GraphFixer::add_scan(const Node &node) {
    if (node.opset < 9) {
        add_scan_of_batches(node);
        return;
    }
    Loop loop(node, node.graph("body"));
    const auto count = static_cast<size_t>(node.integer("num_scan_inputs", 0));
    if (count == 0 || count > node.inputs.size() || loop.body.inputs.size() != node.inputs.size())
        throw UserError(fmt::format("{}: num_scan_inputs is {}, and its body takes {} values; legal are at least 1 and "
                                    "as many values as its {} inputs",
                                    node.label(), count, loop.body.inputs.size(), node.inputs.size()));
    const size_t states = node.inputs.size() - count;
    if (loop.body.outputs.size() < states) throw UserError(node.label() + ": its body returns too few values");
    const size_t results = loop.body.outputs.size() - states;
    const auto list = [&](const char *attribute, size_t size) {
        const std::vector<int64_t> values = node.integers(attribute, std::vector<int64_t>(size, 0));
        if (values.size() != size)
            throw UserError(
                fmt::format("{}: {} has {} numbers; legal are {}", node.label(), attribute, values.size(), size));
        return values;
    };
    const std::vector<int64_t> axes = list("scan_input_axes", count), out_axes = list("scan_output_axes", results);
    const std::string prefix = new_prefix(node);
    for (size_t n = 0; n < states; n++) {
        loop.initial.push_back(node.inputs[n]), loop.states.push_back(loop.body.inputs[n].name);
        loop.finals.push_back(n < node.outputs.size() ? node.outputs[n] : "");
    }
    for (size_t n = 0; n < count; n++) {
        const std::string &source = node.inputs[states + n];
        const Extents extents = find(source, node.label()).extents;
        const auto rank = static_cast<int64_t>(extents.size());
        const int64_t along = axes[n] < 0 ? axes[n] + rank : axes[n];
        if (along < 0 || along >= rank)
            throw UserError(
                fmt::format("{}: it scans axis {} of \"{}\", which has {} axes", node.label(), axes[n], source, rank));
        if (n > 0 && extents[size_t(along)] != loop.form.trips)
            throw UserError(node.label() + ": its inputs have different numbers of steps");
        loop.form.trips = extents[size_t(along)];
        std::vector<int64_t> order = {along};
        for (int64_t d = 0; d < rank; d++) {
            if (d != along) order.push_back(d);
        }
        loop.sources.push_back(transposed(node, source, order, fmt::format("{}in{}", prefix, n)));
        loop.slices.push_back(loop.body.inputs[states + n].name);
    }
    loop.form.backward = list("scan_input_directions", count);
    const std::vector<int64_t> backward = list("scan_output_directions", results);
    loop.form.backward.insert(loop.form.backward.end(), backward.begin(), backward.end());
    std::vector<size_t> moved; // results whose steps are not along axis 0
    for (size_t n = 0; n < results; n++) {
        const std::string result = states + n < node.outputs.size() ? node.outputs[states + n] : "";
        const bool first = out_axes[n] == 0;
        if (!first && !result.empty()) moved.push_back(n);
        loop.stacked.push_back(first || result.empty() ? result : fmt::format("{}out{}", prefix, n));
    }
    add(loop);
    for (const size_t n : moved) {
        const std::string &value = loop.stacked[n];
        const auto rank = static_cast<int64_t>(find(value, node.label()).extents.size());
        const int64_t along = out_axes[n] < 0 ? out_axes[n] + rank : out_axes[n];
        if (along < 0 || along >= rank)
            throw UserError(fmt::format("{}: it stacks along axis {}; legal are {} to {}", node.label(), out_axes[n],
                                        -rank, rank - 1));
        std::vector<int64_t> order;
        for (int64_t d = 1; d < rank; d++) order.push_back(d);
        order.insert(order.begin() + along, 0);
        const std::string &result = node.outputs[states + n];
        if (transposed(node, value, order, result) != result) define_as(result, value, node);
    }
}

// Scan of opset 8 has a batch as the first axis of all inputs and outputs: a Scan over the batch,
// in which a later Scan does the steps.
void GraphFixer::add_scan_of_batches(const Node &node) {
    if (node.has_input(0)) throw Unsupported(node.label() + ": lengths of sequences; supported are whole sequences");
    const auto count = node.integer("num_scan_inputs", 0);
    Node inner = node, outer = node;
    inner.opset = outer.opset = 9;
    inner.inputs.erase(inner.inputs.begin());
    outer.inputs = inner.inputs;
    inner.attributes.erase("directions"), outer.attributes.erase("directions");
    if (node.has("directions")) inner.attributes["scan_input_directions"] = node.attributes.at("directions");
    outer.attributes["num_scan_inputs"].value = static_cast<int64_t>(inner.inputs.size());
    inner.attributes["num_scan_inputs"].value = count;
    auto body = std::make_shared<Graph>();
    for (size_t n = 0; n < inner.inputs.size(); n++) {
        inner.inputs[n] = fmt::format("in{}", n);
        body->inputs.emplace_back().name = inner.inputs[n];
    }
    for (size_t n = 0; n < inner.outputs.size(); n++) {
        inner.outputs[n] = fmt::format("out{}", n);
        body->outputs.emplace_back().name = inner.outputs[n];
    }
    body->nodes = {inner};
    outer.attributes["body"].value = std::shared_ptr<const Graph>(std::move(body));
    add_scan(outer);
}

void GraphFixer::add(Loop &loop) {
    const Node &node = loop.node;
    // A state that no iteration changes is a value of the enclosing graph.
    const size_t first = loop.returns_condition ? 1 : 0;
    for (size_t n = 0; n < loop.states.size(); n++) {
        if (loop.body.outputs[first + n].name != loop.states[n]) continue;
        if (!loop.finals[n].empty()) define_as(loop.finals[n], loop.initial[n], node);
        loop.finals[n].clear();
    }
    shared_->loops.insert(name_of(node));
    const auto bound = options_.bounds.find(name_of(node));
    const bool stated = bound != options_.bounds.end() || options_.bound > 0;
    loop.form.most = bound != options_.bounds.end() ? bound->second : options_.bound > 0 ? options_.bound : INT32_MAX;
    loop.bounded = stated || loop.form.trips >= 0;
    if (loop.form.trips > loop.form.most)
        throw UserError(fmt::format("{}: it has {} iterations; legal are at most {}", node.label(), loop.form.trips,
                                    loop.form.most));
    const std::string prefix = new_prefix(node);
    const bool copies = loop.form.trips > 0 && loop.form.trips <= most_copies && loop.condition.empty();
    FixedGraph graph;
    try {
        graph = fix_body(loop, prefix);
    } catch (const Unsupported &) {
        if (!copies) throw;
        unroll(loop);
        return;
    }
    if (loop.returns_condition) {
        const KnownValue &again = graph.value(graph.outputs[0]);
        require_scalar(node, again, boolean);
        loop.form.tested = true;
        if (again.constant) {
            if (!known_scalar<uint8_t>(node, again, boolean)) {
                loop.form.trips = loop.form.trips < 0 ? 1 : std::min<int64_t>(loop.form.trips, 1);
                if (!loop.count.empty() || !loop.condition.empty())
                    throw Unsupported(node.label() + ": it ends after one iteration that data may leave out; "
                                                     "supported is a condition that the iterations compute");
            }
            loop.form.tested = false;
            graph.outputs.erase(graph.outputs.begin());
        }
    }
    if (loop.form.trips < 0 && loop.count.empty() && !loop.form.tested)
        throw UserError(node.label() + ": it has no end: neither a number of iterations nor a condition that changes; "
                                       "legal is a loop with one of them");
    for (size_t n = 0; n < loop.states.size(); n++) {
        const KnownValue &initial = find(loop.initial[n], node.label());
        const KnownValue &next = graph.value(graph.outputs[(loop.form.tested ? 1 : 0) + n]);
        if (is_same(initial, next)) continue;
        if (copies && !loop.form.tested) {
            unroll(loop);
            return;
        }
        throw Unsupported(fmt::format("{}: its state \"{}\" is {} at first and {} after an iteration; supported are "
                                      "equal types and shapes, or at most {} iterations whose number is known",
                                      node.label(), loop.states[n], shape_text(initial), shape_text(next),
                                      most_copies));
    }
    finish_loop(loop, graph);
}

FixedGraph GraphFixer::fix_body(const Loop &loop, const std::string &prefix) {
    GraphFixer inner(*this);
    Names names;
    const auto add_input = [&](const std::string &name, const KnownValue &v) {
        if (!name.empty()) names[name] = prefix + name;
        inner.made_.values[prefix + name] = v;
        inner.made_.inputs.push_back(prefix + name);
    };
    add_input(loop.number, {i64, {}});
    const size_t first = loop.returns_condition ? 1 : 0;
    for (size_t n = 0; n < loop.states.size(); n++) {
        const KnownValue initial = find(loop.initial[n], loop.node.label());
        if (loop.body.outputs[first + n].name == loop.states[n])
            names[loop.states[n]] = loop.initial[n];
        else
            add_input(loop.states[n], {initial.type, initial.extents});
    }
    for (size_t n = 0; n < loop.slices.size(); n++) {
        KnownValue slice = find(loop.sources[n], loop.node.label());
        slice.extents.erase(slice.extents.begin());
        add_input(loop.slices[n], {slice.type, slice.extents});
    }
    if (!loop.again.empty()) { // true in each iteration
        names[loop.again] = prefix + loop.again;
        inner.define_constant(prefix + loop.again, truth(true));
    }
    std::vector<std::string> outputs = inner.add_graph(loop.body, prefix, names);
    for (size_t n = loop.stacked.size(); n-- > 0;) {
        if (loop.stacked[n].empty()) outputs.erase(outputs.begin() + int64_t(first + loop.states.size() + n));
    }
    FixedGraph graph;
    inner.end_inner(graph, outputs, loop.node);
    return graph;
}

void GraphFixer::finish_loop(const Loop &loop, const FixedGraph &fixed) {
    const Node &node = loop.node;
    FixedGraph graph = fixed;
    LoopForm form = loop.form;
    const size_t tested = form.tested ? 1 : 0;
    Node made;
    made.name = name_of(node), made.op = "Loop", made.domain = control_domain, made.opset = node.opset;
    made.inputs = {loop.count, loop.condition};
    const std::string prefix = new_prefix(node);
    std::vector<std::string> outputs(graph.outputs.begin(), graph.outputs.begin() + int64_t(tested));
    std::vector<std::string> inputs = {graph.inputs[0]}, results;
    size_t in = 1, out = tested;
    std::vector<int64_t> backward;
    const std::string size = unused_name(made.name + "_iterations");
    for (size_t n = 0; n < loop.states.size(); n++) {
        const std::string next = graph.outputs[out++];
        const size_t first = loop.returns_condition ? 1 : 0;
        if (loop.body.outputs[first + n].name == loop.states[n]) continue; // no state
        const std::string result = loop.finals[n].empty() ? fmt::format("{}state{}", prefix, n) : loop.finals[n];
        const KnownValue initial = find(loop.initial[n], node.label());
        made_.values[result] = {initial.type, initial.extents};
        if (initial.bytes() == 0) {
            define_constant(result, Buffer<>(initial.type, initial.extents));
            graph.values[graph.inputs[in]].value = Buffer<>(initial.type, initial.extents);
            graph.values[graph.inputs[in++]].constant = true;
            continue;
        }
        form.states++;
        made.inputs.push_back(loop.initial[n]);
        inputs.push_back(graph.inputs[in++]);
        outputs.push_back(next), results.push_back(result);
    }
    for (size_t n = 0; n < loop.slices.size(); n++) {
        form.slices++;
        made.inputs.push_back(loop.sources[n]);
        inputs.push_back(graph.inputs[in++]);
        backward.push_back(form.backward[n]);
    }
    for (size_t n = 0; n < loop.stacked.size(); n++) {
        if (loop.stacked[n].empty()) continue;
        const std::string next = graph.outputs[out++];
        KnownValue v = {graph.value(next).type, graph.value(next).extents};
        if (!loop.bounded)
            throw Unsupported(fmt::format("{}: data decide the number of its iterations, and so the size of \"{}\"; "
                                          "state the most iterations, as --bound {}=100",
                                          node.label(), loop.stacked[n], made.name));
        if (form.trips < 0 || form.tested || !loop.condition.empty()) {
            form.sized = true;
            v.bounded = BoundedAxis{0, size};
        }
        v.extents.insert(v.extents.begin(), form.trips < 0 ? form.most : form.trips);
        if (!has_legal_size(v.type, v.extents))
            throw UserError(fmt::format("{}: its result \"{}\" is {}; legal are up to 2^40 bytes", node.label(),
                                        loop.stacked[n], shape_text(v)));
        made_.values[loop.stacked[n]] = v;
        if (v.bytes() == 0) {
            define_constant(loop.stacked[n], Buffer<>(v.type, v.extents));
            continue;
        }
        outputs.push_back(next), results.push_back(loop.stacked[n]);
        backward.push_back(form.backward[loop.slices.size() + n]);
    }
    if (results.empty()) return;
    if (form.sized) {
        made_.values[size] = {i64, {}};
        results.push_back(size);
    }
    form.backward = backward;
    for (; in < graph.inputs.size(); in++) {
        inputs.push_back(graph.inputs[in]);
        made.inputs.push_back(graph.inputs[in]);
    }
    graph.inputs = inputs, graph.outputs = outputs;
    made.outputs = results;
    form.store(made);
    set_graphs(made, {static_cast<int64_t>(made_.graphs.size())});
    made_.graphs.push_back(std::make_shared<FixedGraph>(std::move(graph)));
    made_.nodes.push_back(made);
}

void GraphFixer::unroll(const Loop &loop) {
    const Node &node = loop.node;
    std::vector<std::string> states = loop.initial;
    std::vector<std::vector<std::string>> rows(loop.stacked.size());
    const auto add_node = [&](const std::string &op, const std::vector<std::string> &inputs, const std::string &output,
                              const std::string &attribute, const Attribute &value) {
        Node made;
        made.name = node.name, made.op = op, made.opset = node.opset;
        made.inputs = inputs, made.outputs = {output};
        if (!attribute.empty()) made.attributes[attribute] = value;
        add(made);
    };
    for (int64_t i = 0; i < loop.form.trips; i++) {
        const std::string prefix = new_prefix(node);
        Names names;
        if (!loop.number.empty()) {
            names[loop.number] = prefix + loop.number;
            define_constant(prefix + loop.number, int64_tensor({i}, {}));
        }
        if (!loop.again.empty()) {
            names[loop.again] = prefix + loop.again;
            define_constant(prefix + loop.again, truth(true));
        }
        for (size_t n = 0; n < states.size(); n++) names[loop.states[n]] = states[n];
        for (size_t n = 0; n < loop.slices.size(); n++) {
            const std::string at = fmt::format("{}at{}", prefix, n);
            define_constant(at, int64_tensor({loop.form.backward[n] ? loop.form.trips - 1 - i : i}, {}));
            names[loop.slices[n]] = fmt::format("{}slice{}", prefix, n);
            add_node("Gather", {loop.sources[n], at}, names[loop.slices[n]], "axis", {int64_t(0)});
        }
        const std::vector<std::string> results = add_graph(loop.body, prefix, names);
        const size_t first = loop.returns_condition ? 1 : 0;
        for (size_t n = 0; n < states.size(); n++) states[n] = results[first + n];
        for (size_t n = 0; n < rows.size(); n++) {
            if (loop.stacked[n].empty()) continue;
            const std::string row = fmt::format("{}row{}", prefix, n), &from = results[first + states.size() + n];
            if (node.opset >= 13) {
                define_constant(prefix + "axes", int64_tensor({0}, {1}));
                add_node("Unsqueeze", {from, prefix + "axes"}, row, "", {});
            } else {
                add_node("Unsqueeze", {from}, row, "axes", {std::vector<int64_t>{0}});
            }
            rows[n].push_back(row);
        }
        if (loop.returns_condition) {
            const KnownValue again = find(results[0], node.label());
            if (!again.constant)
                throw Unsupported(node.label() + ": shapes or values that must be known differ between its iterations, "
                                                 "and the condition of a further one depends on data");
            if (!known_scalar<uint8_t>(node, again, boolean)) break;
        }
    }
    for (size_t n = 0; n < states.size(); n++) {
        if (!loop.finals[n].empty()) define_as(loop.finals[n], states[n], node);
    }
    for (size_t n = 0; n < rows.size(); n++) {
        if (loop.stacked[n].empty()) continue;
        if (loop.form.backward[loop.slices.size() + n]) std::reverse(rows[n].begin(), rows[n].end());
        add_node("Concat", rows[n], loop.stacked[n], "axis", {int64_t(0)});
    }
}

} // namespace kumiko::graph
