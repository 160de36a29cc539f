#include "graph/eval/evaluate.h"

#include "dsl/interpret.h"
#include "dsl/narrow_types.h"
#include "graph/eval/evaluation.h"
#include "graph/formulas/group.h"
#include "support/error.h"

#include <algorithm>
#include <fmt/format.h>

namespace kumiko::graph {

void Evaluation::run(const Node &node) {
    naming_node(node, [&] {
        if (node.domain.empty() && node.op == "If")
            run_if(node);
        else if (node.domain.empty() && node.op == "Loop")
            run_loop(node);
        else if (node.domain.empty() && node.op == "Scan")
            run_scan(node);
        else if (run_structure(node))
            return;
        else if (find_operator(node.op, node.opset, node.domain))
            run_formula(node);
        else
            run_body(node);
    });
}

const Value &Evaluation::value(const std::string &name, const std::string &reader) const {
    for (const Evaluation *e = this; e; e = e->outer_) {
        const auto found = e->values.find(name);
        if (found != e->values.end()) return found->second;
    }
    throw UserError(fmt::format("{} reads \"{}\", which has no value", reader, name));
}

std::vector<Value> as_values(const std::vector<Buffer<>> &tensors) { return {tensors.begin(), tensors.end()}; }

const Buffer<> &as_tensor(const Value &value, const Node &node, const std::string &name) {
    if (const Buffer<> *tensor = value.tensor()) return *tensor;
    throw UserError(fmt::format("{} reads \"{}\", which is {}; legal is a tensor", node.label(), name, value.kind()));
}

const Buffer<> &Evaluation::tensor(const Node &node, const std::string &name) const {
    return as_tensor(value(name, node.label()), node, name);
}

void Evaluation::run_body(const Node &node) {
    std::vector<ValueInfo> types;
    for (size_t n = 0; n < node.inputs.size(); n++)
        types.push_back(node.has_input(n) ? info_of(node.inputs[n], node) : ValueInfo{});
    const auto body = function_body(node, types, fmt::format("{}/{}/", node.outputs.at(0), bodies_++), opsets_);
    if (!body) throw no_formula(node);
    for (const Node &inner : *body) run(inner);
}

ValueInfo Evaluation::info_of(const std::string &name, const Node &reader) const {
    const Buffer<> &given = tensor(reader, name);
    return ValueInfo::of(name, given.type(), given.extents());
}

std::vector<Value> Evaluation::run_graph(const Node &node, const Graph &graph, const std::vector<Value> &inputs) {
    if (inputs.size() != graph.inputs.size())
        throw UserError(fmt::format("{}: its graph takes {} inputs, and {} are given", node.label(),
                                    graph.inputs.size(), inputs.size()));
    return run_graph(node, graph, inputs, options_);
}

std::vector<Value> Evaluation::run_graph(const Node &node, const Graph &graph, const std::vector<Value> &inputs,
                                         const EvaluateOptions &options) {
    Evaluation inner(options, opsets_, this);
    for (const auto &[name, value] : graph.constants) inner.values[name] = value;
    for (size_t n = 0; n < inputs.size(); n++) inner.values[graph.inputs[n].name] = inputs[n];
    for (const Node &n : graph.nodes) inner.run(n);
    std::vector<Value> outputs;
    for (const ValueInfo &o : graph.outputs) outputs.push_back(inner.value(o.name, node.label()));
    return outputs;
}

void Evaluation::keep(const Node &node, const std::vector<Value> &results) {
    for (size_t o = 0; o < node.outputs.size() && o < results.size(); o++) {
        if (!node.outputs[o].empty()) keep(node.outputs[o], results[o]);
    }
}

void Evaluation::keep(const std::string &name, const Value &value) {
    values[name] = value;
    if (options_.made && value.tensor()) options_.made(name, *value.tensor());
}

void Evaluation::run_formula(const Node &node) {
    const GroupOp made = make_group_op({&node}, node.named_outputs(), [&](const std::string &name) {
        const Buffer<> &given = tensor(node, name);
        return KnownValue{given.type(), given.extents(), given};
    });
    for (const auto &[name, known] : made.known) keep(name, known);
    if (!made.op) return;
    std::vector<Buffer<>> inputs;
    for (const std::string &name : made.inputs) inputs.push_back(tensor(node, name));
    const std::vector<Buffer<>> results = run_group(made, inputs, options_.run);
    for (size_t o = 0; o < results.size(); o++) keep(made.outputs[o], results[o]);
}

namespace {

// Refuses an array that is not of the input's type and shape.
void check_input(const Model &model, const ValueInfo &input, const Buffer<> &array,
                 std::map<std::string, int64_t> &symbols) {
    const auto refuse = [&](const std::string &cause) {
        std::string got = type_name(array.type()) + "[";
        for (size_t d = 0; d < array.rank(); d++) got += (d ? "," : "") + std::to_string(array.extent(d));
        throw UserError(fmt::format("{}: input {} is given {}]: {}", model.name(), input.text(), got, cause));
    };
    if (!input.type)
        throw Unsupported(
            fmt::format("{}: input {} is of a type that is not supported; supported are tensors of numbers "
                        "or strings, sequences and optionals of these",
                        model.name(), input.text()));
    if (*input.type != array.type()) refuse("another element type");
    if (!input.shape) return;
    if (input.shape->size() != array.rank()) refuse("another number of axes");
    for (size_t d = 0; d < array.rank(); d++) {
        const Dimension &want = (*input.shape)[d];
        if (want.number && *want.number != array.extent(d))
            refuse(fmt::format("axis {} has {} elements", d, *want.number));
        if (want.number) continue;
        const std::string symbol = input.symbol(d);
        const auto [known, fresh] = symbols.emplace(symbol, array.extent(d));
        if (!fresh && known->second != array.extent(d))
            refuse(fmt::format("axis {} is \"{}\", which is {} elsewhere", d, symbol, known->second));
    }
}

// The same of any value. All elements of a sequence have the type that the input states.
void check_value(const Model &model, const ValueInfo &input, const Value &value,
                 std::map<std::string, int64_t> &symbols) {
    const bool optional = input.kind == ValueInfo::Kind::Optional, sequence = input.kind == ValueInfo::Kind::Sequence;
    if (optional && value.is_none()) return;
    ValueInfo element = input.element ? *input.element : ValueInfo();
    element.name = input.name;
    if (optional && input.element) return check_value(model, element, value, symbols);
    if (sequence != (value.sequence() != nullptr) || value.is_none())
        throw UserError(fmt::format("{}: input {} is given {}", model.name(), input.text(), value.kind()));
    if (!sequence) return check_input(model, input, *value.tensor(), symbols);
    for (const Value &v : *value.sequence()) {
        std::map<std::string, int64_t> own; // extents may differ
        if (input.element) check_value(model, element, v, own);
    }
}

std::map<std::string, int64_t> check_values(const Model &model, const std::vector<Value> &inputs) {
    const Graph &graph = model.graph();
    if (inputs.size() != graph.inputs.size())
        throw UserError(
            fmt::format("{} takes {} inputs, and {} are given", model.name(), graph.inputs.size(), inputs.size()));
    std::map<std::string, int64_t> symbols;
    for (size_t n = 0; n < inputs.size(); n++) check_value(model, graph.inputs[n], inputs[n], symbols);
    return symbols;
}

} // namespace

std::vector<Buffer<>> run_group(const GroupOp &group, const std::vector<Buffer<>> &inputs, const RunOp &run) {
    std::vector<Buffer<>> stored, results;
    for (const Buffer<> &b : inputs) stored.push_back(retyped(b, stored_type(b.type())));
    if (run)
        results = run(*group.op, stored);
    else
        results = interpret(*group.op, stored);
    for (size_t o = 0; o < results.size(); o++) results[o] = retyped(results[o], group.made.at(group.outputs[o]).type);
    return results;
}

std::map<std::string, int64_t> check_inputs(const Model &model, const std::vector<Buffer<>> &inputs) {
    return check_values(model, as_values(inputs));
}

std::vector<Value> evaluate_values(const Model &model, const std::vector<Value> &inputs,
                                   const EvaluateOptions &options) {
    const Graph &graph = model.graph();
    std::map<std::string, int64_t> symbols = check_values(model, inputs);
    const std::map<std::string, int> opsets = model.opsets();
    Evaluation e(options, opsets);
    e.values.insert(graph.constants.begin(), graph.constants.end());
    for (size_t n = 0; n < inputs.size(); n++) e.values[graph.inputs[n].name] = inputs[n];
    for (const auto &[name, array] : options.given) {
        const auto same = [&, &name = name](const ValueInfo &v) { return v.name == name; };
        const auto found = std::find_if(graph.defaults.begin(), graph.defaults.end(), same);
        if (found == graph.defaults.end()) {
            std::vector<std::string> names;
            for (const ValueInfo &v : graph.defaults) names.push_back("\"" + v.name + "\"");
            throw UserError(
                fmt::format("{}: \"{}\" is not an input with a default; {}", model.name(), name,
                            names.empty() ? "it has none" : fmt::format("legal are {}", fmt::join(names, ", "))));
        }
        check_input(model, *found, array, symbols);
        e.values[name] = array;
    }
    for (const Node &node : graph.nodes) e.run(node);
    std::vector<Value> outputs;
    for (const ValueInfo &o : graph.outputs) outputs.push_back(e.value(o.name, model.name()));
    return outputs;
}

std::vector<Buffer<>> evaluate(const Model &model, const std::vector<Buffer<>> &inputs,
                               const EvaluateOptions &options) {
    std::vector<Buffer<>> outputs;
    for (const Value &v : evaluate_values(model, as_values(inputs), options)) {
        const ValueInfo &info = model.graph().outputs[outputs.size()];
        if (!v.tensor())
            throw Unsupported(
                fmt::format("{}: output {} is {}; supported are tensors", model.name(), info.text(), v.kind()));
        outputs.push_back(*v.tensor());
    }
    return outputs;
}

} // namespace kumiko::graph
