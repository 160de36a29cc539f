#include "graph/eval/evaluate.h"

#include "dsl/dense.h"
#include "dsl/interpret.h"
#include "dsl/types.h"
#include "graph/formulas/group.h"
#include "support/error.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace kumiko::graph {

namespace {

std::vector<Buffer<>> by_interpreter(const Op &op, const std::vector<Buffer<>> &inputs) {
    return interpret(op, inputs);
}

// Joins buffers of one type and shape, at least one, along a new axis.
Buffer<> stacked(const std::vector<Buffer<>> &parts, size_t axis, const Node &node) {
    const Buffer<> first = parts.front();
    std::vector<int64_t> extents = first.extents();
    if (axis > extents.size()) throw UserError(fmt::format("{} stacks along axis {}", node.label(), axis));
    int64_t inside = first.type().bytes(), outside = 1;
    for (size_t d = 0; d < extents.size(); d++) (d < axis ? outside : inside) *= extents[d];
    extents.insert(extents.begin() + int64_t(axis), int64_t(parts.size()));
    Buffer<> made(first.type(), extents);
    auto *to = static_cast<uint8_t *>(made.data());
    for (size_t n = 0; n < parts.size(); n++) {
        if (parts[n].extents() != first.extents() || parts[n].type() != first.type())
            throw UserError(node.label() + ": its iterations give results of different shapes or types");
        const Buffer<> part = parts[n].copy();
        const auto *from = static_cast<const uint8_t *>(part.data());
        for (int64_t o = 0; o < outside; o++)
            std::memcpy(to + (o * int64_t(parts.size()) + int64_t(n)) * inside, from + o * inside, size_t(inside));
    }
    return made;
}

// One element along an axis, without that axis.
Buffer<> sliced(const Buffer<> &from, size_t axis, int64_t index) {
    const Buffer<> elements = dense(from);
    std::vector<int64_t> extents = elements.extents();
    int64_t inside = elements.type().bytes(), outside = 1;
    for (size_t d = 0; d < extents.size(); d++) {
        if (d != axis) (d < axis ? outside : inside) *= extents[d];
    }
    const int64_t count = extents[axis];
    extents.erase(extents.begin() + int64_t(axis));
    Buffer<> made(elements.type(), extents);
    auto *to = static_cast<uint8_t *>(made.data());
    const auto *data = static_cast<const uint8_t *>(elements.data());
    for (int64_t o = 0; o < outside; o++)
        std::memcpy(to + o * inside, data + (o * count + index) * inside, size_t(inside));
    return made;
}

size_t bytes_of(const Buffer<> &b) { return size_t(b.number_of_elements()) * size_t(b.type().bytes()); }

// Extends the first axis to `extent` elements, with zeros.
Buffer<> lengthened(const Buffer<> &from, int64_t extent) {
    std::vector<int64_t> extents = from.extents();
    extents[0] = extent;
    Buffer<> made(from.type(), extents);
    const Buffer<> elements = dense(from);
    std::memset(made.data(), 0, bytes_of(made));
    std::memcpy(made.data(), elements.data(), bytes_of(elements));
    return made;
}

template<typename T>
T scalar(const Buffer<> &b, const Node &node, Type type) {
    if (b.number_of_elements() != 1 || Type(b.type()) != type)
        throw UserError(fmt::format("{}: its condition or count is {} elements of {}; legal is one of {}", node.label(),
                                    b.number_of_elements(), type_name(b.type()), type_name(type)));
    T value;
    std::memcpy(&value, b.data(), sizeof(T));
    return value;
}

bool is_control_flow(const Node &node) {
    return node.domain.empty() && (node.op == "If" || node.op == "Loop" || node.op == "Scan");
}

class Evaluation {
public:
    // `outer`: the evaluation of the enclosing graph, whose values this graph may read.
    Evaluation(const EvaluateOptions &options, const std::map<std::string, int> &opsets,
               const Evaluation *outer = nullptr)
        : options_(options), opsets_(opsets), outer_(outer) {}
    std::map<std::string, Buffer<>> values;

    void run(const Node &node) {
        naming_node(node, [&] {
            if (is_control_flow(node))
                node.op == "If" ? run_if(node) : node.op == "Loop" ? run_loop(node) : run_scan(node);
            else
                has_formula(node) ? run_formula(node) : run_body(node);
        });
    }

    // The value, of this graph or an enclosing one. Throws UserError if none has it.
    const Buffer<> &value(const std::string &name, const std::string &reader) const {
        for (const Evaluation *e = this; e; e = e->outer_) {
            const auto found = e->values.find(name);
            if (found != e->values.end()) return found->second;
        }
        throw UserError(fmt::format("{} reads \"{}\", which has no value", reader, name));
    }

private:
    static bool has_formula(const Node &node) { return find_operator(node.op, node.opset, node.domain) != nullptr; }

    // Runs the operator's definition in other operators.
    void run_body(const Node &node) {
        std::vector<ValueInfo> types;
        for (size_t n = 0; n < node.inputs.size(); n++)
            types.push_back(node.has_input(n) ? info_of(node.inputs[n], node) : ValueInfo{});
        const auto body = function_body(node, types, fmt::format("{}/{}/", node.outputs.at(0), bodies_++), opsets_);
        if (!body) throw no_formula(node);
        for (const Node &inner : *body) run(inner);
    }

    ValueInfo info_of(const std::string &name, const Node &reader) const {
        const Buffer<> &given = value(name, reader.label());
        return ValueInfo::of(name, given.type(), given.extents());
    }

    // Runs an inner graph, which may read the values of this one.
    std::vector<Buffer<>> run_graph(const Node &node, const Graph &graph, const std::vector<Buffer<>> &inputs) {
        if (inputs.size() != graph.inputs.size())
            throw UserError(fmt::format("{}: its graph takes {} inputs, and {} are given", node.label(),
                                        graph.inputs.size(), inputs.size()));
        return run_graph(node, graph, inputs, options_);
    }

    std::vector<Buffer<>> run_graph(const Node &node, const Graph &graph, const std::vector<Buffer<>> &inputs,
                                    const EvaluateOptions &options) {
        Evaluation inner(options, opsets_, this);
        for (const auto &[name, value] : graph.constants) inner.values[name] = value;
        for (size_t n = 0; n < inputs.size(); n++) inner.values[graph.inputs[n].name] = inputs[n];
        for (const Node &n : graph.nodes) inner.run(n);
        std::vector<Buffer<>> outputs;
        for (const ValueInfo &o : graph.outputs) outputs.push_back(inner.value(o.name, node.label()));
        return outputs;
    }

    void keep(const Node &node, const std::vector<Buffer<>> &results) {
        for (size_t o = 0; o < node.outputs.size() && o < results.size(); o++) {
            if (!node.outputs[o].empty()) keep(node.outputs[o], results[o]);
        }
    }

    // Joins the rows that an output of a body makes along an axis; a negative axis counts from the
    // end. Without an iteration, the body declares their type and shape, or else an iteration over
    // `inputs` gives them.
    Buffer<> stacked_rows(const Node &node, const Graph &body, size_t output, const std::vector<Buffer<>> &rows,
                          int64_t axis, const std::vector<Buffer<>> &inputs) {
        const auto place = [axis](size_t rank) { return size_t(axis < 0 ? axis + int64_t(rank) + 1 : axis); };
        if (!rows.empty()) return stacked(rows, place(rows[0].rank()), node);
        const ValueInfo &declared = body.outputs[output];
        std::optional<Type> type = declared.type;
        std::optional<Extents> extents = declared.shape ? std::optional(Extents{}) : std::nullopt;
        if (extents) {
            for (const Dimension &d : *declared.shape) {
                if (d.number && extents)
                    extents->push_back(*d.number);
                else
                    extents.reset();
            }
        }
        if (!type || !extents) {
            EvaluateOptions quiet = options_;
            quiet.made = nullptr;
            try {
                const Buffer<> row = run_graph(node, body, inputs, quiet)[output];
                type = row.type(), extents = row.extents();
            } catch (const UserError &e) {
                throw Unsupported(fmt::format("{} stacks \"{}\" of no iteration, whose shape its graph does not "
                                              "declare and no iteration gives: {}",
                                              node.label(), declared.name, e.message_without_places()));
            }
        }
        if (place(extents->size()) > extents->size())
            throw UserError(fmt::format("{} stacks along axis {}", node.label(), axis));
        extents->insert(extents->begin() + int64_t(place(extents->size())), 0);
        return Buffer<>(*type, *extents);
    }

    void run_if(const Node &node) {
        const bool taken = scalar<uint8_t>(value(node.inputs.at(0), node.label()), node, boolean) != 0;
        keep(node, run_graph(node, node.graph(taken ? "then_branch" : "else_branch"), {}));
    }

    void run_loop(const Node &node) {
        const Graph &body = node.graph("body");
        const int64_t most =
            node.has_input(0) ? scalar<int64_t>(value(node.inputs[0], node.label()), node, i64) : INT64_MAX;
        bool again = !node.has_input(1) || scalar<uint8_t>(value(node.inputs[1], node.label()), node, boolean) != 0;
        std::vector<Buffer<>> carried;
        for (size_t n = 2; n < node.inputs.size(); n++) carried.push_back(value(node.inputs[n], node.label()));
        if (body.outputs.size() < 1 + carried.size())
            throw UserError(node.label() + ": its body returns too few values");
        std::vector<std::vector<Buffer<>>> rows(body.outputs.size() - 1 - carried.size());
        const size_t states = carried.size();
        const auto inputs_of = [&](int64_t step) {
            Buffer<> count(i64, {}), condition(boolean, {});
            *static_cast<int64_t *>(count.data()) = step;
            *static_cast<uint8_t *>(condition.data()) = 1;
            std::vector<Buffer<>> inputs = {count, condition};
            inputs.insert(inputs.end(), carried.begin(), carried.begin() + int64_t(states));
            return inputs;
        };
        for (int64_t step = 0; step < most && again; step++) {
            const std::vector<Buffer<>> results = run_graph(node, body, inputs_of(step));
            again = scalar<uint8_t>(results[0], node, boolean) != 0;
            for (size_t n = 0; n < carried.size(); n++) carried[n] = results[1 + n];
            for (size_t n = 0; n < rows.size(); n++) rows[n].push_back(results[1 + carried.size() + n]);
        }
        for (size_t n = 0; n < rows.size(); n++) {
            const bool wanted = carried.size() < node.outputs.size();
            if (wanted) carried.push_back(stacked_rows(node, body, 1 + states + n, rows[n], 0, inputs_of(0)));
        }
        keep(node, carried);
    }

    // One pass of a Scan over slices of its inputs: the last states, then the stacked results.
    struct ScanAxes {
        std::vector<size_t> along;              // of the inputs
        std::vector<int64_t> backward;          // of the inputs
        std::vector<int64_t> out, out_backward; // of the results
    };
    std::vector<Buffer<>> scanned(const Node &node, const Graph &body, std::vector<Buffer<>> state,
                                  const std::vector<Buffer<>> &sources, const ScanAxes &axes, int64_t steps) {
        const size_t states = state.size(), results = body.outputs.size() - states;
        std::vector<std::vector<Buffer<>>> rows(results);
        for (int64_t step = 0; step < steps; step++) {
            std::vector<Buffer<>> inputs = state;
            for (size_t n = 0; n < sources.size(); n++)
                inputs.push_back(sliced(sources[n], axes.along[n], axes.backward.at(n) ? steps - 1 - step : step));
            const std::vector<Buffer<>> made = run_graph(node, body, inputs);
            for (size_t n = 0; n < states; n++) state[n] = made[n];
            for (size_t n = 0; n < results; n++) rows[n].push_back(made[states + n]);
        }
        std::vector<Buffer<>> example = state; // inputs of a step, if no step runs
        for (size_t n = 0; n < sources.size() && steps == 0; n++) {
            std::vector<int64_t> extents = sources[n].extents();
            extents.erase(extents.begin() + int64_t(axes.along[n]));
            example.emplace_back(sources[n].type(), extents);
            std::memset(example.back().data(), 0, bytes_of(example.back()));
        }
        for (size_t n = 0; n < results; n++) {
            if (axes.out_backward.at(n)) std::reverse(rows[n].begin(), rows[n].end());
            state.push_back(stacked_rows(node, body, states + n, rows[n], axes.out.at(n), example));
        }
        return state;
    }

    void run_scan(const Node &node) {
        const bool batched = node.opset < 9; // its first input is the lengths of sequences
        const size_t first = batched ? 1 : 0;
        const Graph &body = node.graph("body");
        const auto count = size_t(node.integer("num_scan_inputs", 0));
        if (count == 0 || count + first > node.inputs.size())
            throw UserError(node.label() + ": num_scan_inputs is not that of its inputs");
        const size_t states = node.inputs.size() - first - count;
        if (body.outputs.size() < states) throw UserError(node.label() + ": its body returns too few values");
        const size_t results = body.outputs.size() - states;
        const std::vector<int64_t> zeros_in(count, 0), zeros_out(results, 0);
        std::vector<Buffer<>> state, sources;
        for (size_t n = 0; n < states; n++) state.push_back(value(node.inputs[first + n], node.label()));
        for (size_t n = 0; n < count; n++) sources.push_back(value(node.inputs[first + states + n], node.label()));
        if (batched) {
            keep(node, scanned_batches(node, body, state, sources,
                                       {std::vector<size_t>(count, 0), node.integers("directions", zeros_in), zeros_out,
                                        zeros_out}));
            return;
        }
        const std::vector<int64_t> axes = node.integers("scan_input_axes", zeros_in);
        ScanAxes all{{},
                     node.integers("scan_input_directions", zeros_in),
                     node.integers("scan_output_axes", zeros_out),
                     node.integers("scan_output_directions", zeros_out)};
        for (size_t n = 0; n < count; n++) {
            const auto rank = int64_t(sources[n].rank());
            all.along.push_back(size_t(axes.at(n) < 0 ? axes[n] + rank : axes[n]));
            if (all.along[n] >= size_t(rank) || sources[n].extent(all.along[n]) != sources[0].extent(all.along[0]))
                throw UserError(node.label() + ": its inputs have different numbers of steps");
        }
        keep(node, scanned(node, body, state, sources, all, sources[0].extent(all.along[0])));
    }

    // Scan of opset 8: one pass for each batch, each with a length of its own.
    std::vector<Buffer<>> scanned_batches(const Node &node, const Graph &body, const std::vector<Buffer<>> &state,
                                          const std::vector<Buffer<>> &sources, const ScanAxes &axes) {
        const Buffer<> &model = sources[0];
        const auto fits = [&](const Buffer<> &b, size_t rank) {
            return b.rank() >= rank && b.extent(0) == model.extent(0) && (rank < 2 || b.extent(1) == model.extent(1));
        };
        for (const Buffer<> &b : sources) {
            if (!fits(b, 2)) throw UserError(node.label() + ": its inputs have different batches or numbers of steps");
        }
        for (const Buffer<> &b : state) {
            if (!fits(b, 1)) throw UserError(node.label() + ": its inputs have different batches");
        }
        const int64_t batches = model.extent(0), steps = model.extent(1);
        std::vector<int64_t> lengths(size_t(batches), steps);
        if (node.has_input(0)) {
            const Buffer<> given = value(node.inputs[0], node.label()).copy();
            if (Type(given.type()) != i64 || given.extents() != Extents{batches})
                throw UserError(node.label() + ": its first input is not one length of i64 for each batch");
            std::copy_n(static_cast<const int64_t *>(given.data()), batches, lengths.begin());
        }
        if (batches == 0) throw Unsupported(node.label() + " has no batch; supported are one or more");
        std::vector<std::vector<Buffer<>>> made(body.outputs.size());
        for (int64_t b = 0; b < batches; b++) {
            const int64_t length = lengths[size_t(b)];
            if (length < 0 || length > steps)
                throw UserError(fmt::format("{}: a sequence of {} steps of {}", node.label(), length, steps));
            std::vector<Buffer<>> own, slices;
            for (const Buffer<> &s : state) own.push_back(sliced(s, 0, b));
            for (const Buffer<> &s : sources) slices.push_back(sliced(s, 0, b));
            const std::vector<Buffer<>> results = scanned(node, body, own, slices, axes, length);
            for (size_t n = 0; n < results.size(); n++)
                made[n].push_back(n < state.size() ? results[n] : lengthened(results[n], steps));
        }
        std::vector<Buffer<>> all;
        for (const auto &parts : made) all.push_back(stacked(parts, 0, node));
        return all;
    }

    void run_formula(const Node &node) {
        const GroupOp made = make_group_op({&node}, node.named_outputs(), [&](const std::string &name) {
            const Buffer<> &given = value(name, node.label());
            return KnownValue{given.type(), given.extents(), given};
        });
        for (const auto &[name, known] : made.known) keep(name, known);
        if (!made.op) return;
        std::vector<Buffer<>> inputs;
        for (const std::string &name : made.inputs) inputs.push_back(value(name, node.label()));
        const std::vector<Buffer<>> results =
            options_.run ? options_.run(*made.op, inputs) : by_interpreter(*made.op, inputs);
        for (size_t o = 0; o < results.size(); o++) keep(made.outputs[o], results[o]);
    }

    void keep(const std::string &name, const Buffer<> &value) {
        values[name] = value;
        if (options_.made) options_.made(name, value);
    }

    const EvaluateOptions &options_;
    const std::map<std::string, int> &opsets_;
    const Evaluation *outer_;
    int bodies_ = 0;
};

// Refuses an array that is not of the input's type and shape.
void check_input(const Model &model, const ValueInfo &input, const Buffer<> &array,
                 std::map<std::string, int64_t> &symbols) {
    const auto refuse = [&](const std::string &cause) {
        std::string got = type_name(array.type()) + "[";
        for (size_t d = 0; d < array.rank(); d++) got += (d ? "," : "") + std::to_string(array.extent(d));
        throw UserError(fmt::format("{}: input {} is given {}]: {}", model.name(), input.text(), got, cause));
    };
    if (!input.type)
        throw Unsupported(fmt::format("{}: input {} is not a tensor of numbers; supported are tensors of numbers",
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

} // namespace

std::map<std::string, int64_t> check_inputs(const Model &model, const std::vector<Buffer<>> &inputs) {
    const Graph &graph = model.graph();
    if (inputs.size() != graph.inputs.size())
        throw UserError(
            fmt::format("{} takes {} inputs, and {} are given", model.name(), graph.inputs.size(), inputs.size()));
    std::map<std::string, int64_t> symbols;
    for (size_t n = 0; n < inputs.size(); n++) check_input(model, graph.inputs[n], inputs[n], symbols);
    return symbols;
}

std::vector<Buffer<>> evaluate(const Model &model, const std::vector<Buffer<>> &inputs,
                               const EvaluateOptions &options) {
    const Graph &graph = model.graph();
    std::map<std::string, int64_t> symbols = check_inputs(model, inputs);
    const std::map<std::string, int> opsets = model.opsets();
    Evaluation e(options, opsets);
    e.values = graph.constants;
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
    std::vector<Buffer<>> outputs;
    for (const ValueInfo &o : graph.outputs) outputs.push_back(e.value(o.name, model.name()));
    return outputs;
}

} // namespace kumiko::graph
