// Loop and Scan with fixed sizes: what is known about them. A Scan becomes a Loop.
#include "dsl/types.h"
#include "graph/infer/loop.h"
#include "support/error.h"

#include <algorithm>
#include <fmt/format.h>

namespace kumiko::graph {

namespace {

// The most iterations of a loop that becomes copies of its graph, which it does if shapes or other
// known values differ between the iterations.
constexpr int64_t most_copies = 64;

} // namespace

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
            const int64_t trips = *static_cast<const int64_t *>(count.value->data());
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
        else if (!known_condition(node, condition))
            loop.form.trips = 0, loop.count.clear();
    }
    loop.number = loop.body.inputs[0].name, loop.again = loop.body.inputs[1].name;
    loop.returns_condition = true;
    for (size_t n = 0; n + 1 < loop.body.outputs.size(); n++) {
        const std::string result = n < node.outputs.size() ? node.outputs[n] : "";
        if (n < states)
            loop.states.push_back(
                {node.inputs[2 + n], loop.body.inputs[2 + n].name, loop.body.outputs[1 + n].name, result});
        else
            loop.stacks.push_back({result});
    }
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

void GraphFixer::move_axis(const Node &node, const std::string &value, int64_t axis, const std::string &result) {
    const auto rank = static_cast<int64_t>(find(value, node.label()).extents.size());
    const int64_t along = axis < 0 ? axis + rank : axis;
    if (along < 0 || along >= rank)
        throw UserError(
            fmt::format("{}: it stacks along axis {}; legal are {} to {}", node.label(), axis, -rank, rank - 1));
    std::vector<int64_t> order;
    for (int64_t d = 1; d < rank; d++) order.push_back(d);
    order.insert(order.begin() + along, 0);
    if (transposed(node, value, order, result) != result) define_as(result, value, node);
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
    const std::vector<int64_t> axes = list("scan_input_axes", count), out_axes = list("scan_output_axes", results),
                               directions = list("scan_input_directions", count),
                               out_directions = list("scan_output_directions", results);
    const std::string prefix = new_prefix(node);
    for (size_t n = 0; n < states; n++) {
        loop.states.push_back({node.inputs[n], loop.body.inputs[n].name, loop.body.outputs[n].name,
                               n < node.outputs.size() ? node.outputs[n] : ""});
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
        loop.slices.push_back({transposed(node, source, order, fmt::format("{}in{}", prefix, n)),
                               loop.body.inputs[states + n].name, directions[n] != 0});
    }
    std::vector<size_t> moved; // results whose steps are not along axis 0
    for (size_t n = 0; n < results; n++) {
        const std::string result = states + n < node.outputs.size() ? node.outputs[states + n] : "";
        const bool first = out_axes[n] == 0;
        if (!first && !result.empty()) moved.push_back(n);
        loop.stacks.push_back(
            {first || result.empty() ? result : fmt::format("{}out{}", prefix, n), out_directions[n] != 0});
    }
    add(loop);
    for (const size_t n : moved) move_axis(node, loop.stacks[n].result, out_axes[n], node.outputs[states + n]);
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

void GraphFixer::limit_iterations(Loop &loop) {
    const Node &node = loop.node;
    shared_->loops.insert(name_of(node));
    const auto bound = options_.bounds.find(name_of(node));
    const bool stated = bound != options_.bounds.end() || options_.bound > 0;
    loop.form.most = bound != options_.bounds.end() ? bound->second : options_.bound > 0 ? options_.bound : INT32_MAX;
    loop.bounded = stated || loop.form.trips >= 0;
    if (loop.form.trips > loop.form.most)
        throw UserError(fmt::format("{}: it has {} iterations; legal are at most {}", node.label(), loop.form.trips,
                                    loop.form.most));
}

void GraphFixer::take_condition(Loop &loop, FixedGraph &graph) {
    const Node &node = loop.node;
    if (loop.returns_condition) {
        const KnownValue &again = graph.value(graph.outputs[0]);
        require_scalar(node, again, boolean);
        loop.form.tested = true;
        if (again.constant) {
            if (!known_condition(node, again)) {
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
}

void GraphFixer::add(Loop &loop) {
    const Node &node = loop.node;
    for (LoopState &s : loop.states) {
        if (s.changes()) continue;
        if (!s.result.empty()) define_as(s.result, s.initial, node);
        s.result.clear();
    }
    limit_iterations(loop);
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
    take_condition(loop, graph);
    for (size_t n = 0; n < loop.states.size(); n++) {
        const KnownValue &initial = find(loop.states[n].initial, node.label());
        const KnownValue &next = graph.value(graph.outputs[(loop.form.tested ? 1 : 0) + n]);
        if (initial.type == next.type && initial.extents == next.extents) continue;
        if (copies && !loop.form.tested) {
            unroll(loop);
            return;
        }
        throw Unsupported(fmt::format("{}: its state \"{}\" is {} at first and {} after an iteration; supported are "
                                      "equal types and shapes, or at most {} iterations whose number is known",
                                      node.label(), loop.states[n].input, shape_text(initial), shape_text(next),
                                      most_copies));
    }
    finish_loop(loop, std::move(graph));
}

} // namespace kumiko::graph
