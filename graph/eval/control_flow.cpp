#include "dsl/dense.h"
#include "dsl/narrow_types.h"
#include "graph/eval/evaluation.h"
#include "graph/formulas/formula.h"
#include "support/error.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace kumiko::graph {

namespace {

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

} // namespace

Buffer<> Evaluation::stacked_rows(const Node &node, const Graph &body, size_t output, const std::vector<Buffer<>> &rows,
                                  int64_t axis, const std::vector<Value> &inputs) {
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
            const Value made = run_graph(node, body, inputs, quiet)[output];
            const Buffer<> &row = as_tensor(made, node, declared.name);
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

void Evaluation::run_if(const Node &node) {
    const bool taken = scalar<uint8_t>(tensor(node, 0), node, boolean) != 0;
    keep(node, run_graph(node, node.graph(taken ? "then_branch" : "else_branch"), {}));
}

void Evaluation::run_loop(const Node &node) {
    const Graph &body = node.graph("body");
    const int64_t most = node.has_input(0) ? scalar<int64_t>(tensor(node, 0), node, i64) : INT64_MAX;
    bool again = !node.has_input(1) || scalar<uint8_t>(tensor(node, 1), node, boolean) != 0;
    std::vector<Value> carried;
    for (size_t n = 2; n < node.inputs.size(); n++) carried.push_back(input(node, n));
    if (body.outputs.size() < 1 + carried.size()) throw UserError(node.label() + ": its body returns too few values");
    std::vector<std::vector<Buffer<>>> rows(body.outputs.size() - 1 - carried.size());
    const size_t states = carried.size();
    const auto inputs_of = [&](int64_t step) {
        Buffer<> count(i64, {}), condition(boolean, {});
        *static_cast<int64_t *>(count.data()) = step;
        *static_cast<uint8_t *>(condition.data()) = 1;
        std::vector<Value> inputs = {count, condition};
        inputs.insert(inputs.end(), carried.begin(), carried.begin() + int64_t(states));
        return inputs;
    };
    for (int64_t step = 0; step < most && again; step++) {
        const std::vector<Value> results = run_graph(node, body, inputs_of(step));
        again = scalar<uint8_t>(as_tensor(results[0], node, body.outputs[0].name), node, boolean) != 0;
        for (size_t n = 0; n < states; n++) carried[n] = results[1 + n];
        for (size_t n = 0; n < rows.size(); n++)
            rows[n].push_back(as_tensor(results[1 + states + n], node, body.outputs[1 + states + n].name));
    }
    for (size_t n = 0; n < rows.size(); n++) {
        const bool wanted = carried.size() < node.outputs.size();
        if (wanted) carried.push_back(stacked_rows(node, body, 1 + states + n, rows[n], 0, inputs_of(0)));
    }
    keep(node, carried);
}

std::vector<Buffer<>> Evaluation::scanned(const Node &node, const Graph &body, std::vector<Buffer<>> state,
                                          const std::vector<Buffer<>> &sources, const ScanAxes &axes, int64_t steps) {
    const size_t states = state.size(), results = body.outputs.size() - states;
    std::vector<std::vector<Buffer<>>> rows(results);
    for (int64_t step = 0; step < steps; step++) {
        std::vector<Buffer<>> inputs = state;
        for (size_t n = 0; n < sources.size(); n++)
            inputs.push_back(sliced(sources[n], axes.along[n], axes.backward.at(n) ? steps - 1 - step : step));
        const std::vector<Value> values = run_graph(node, body, as_values(inputs));
        std::vector<Buffer<>> made;
        for (size_t n = 0; n < values.size(); n++) made.push_back(as_tensor(values[n], node, body.outputs[n].name));
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
        state.push_back(stacked_rows(node, body, states + n, rows[n], axes.out.at(n), as_values(example)));
    }
    return state;
}

void Evaluation::run_scan(const Node &node) {
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
    for (size_t n = 0; n < states; n++) state.push_back(tensor(node, first + n));
    for (size_t n = 0; n < count; n++) sources.push_back(tensor(node, first + states + n));
    if (batched) {
        keep(node, as_values(scanned_batches(
                       node, body, state, sources,
                       {std::vector<size_t>(count, 0), node.integers("directions", zeros_in), zeros_out, zeros_out})));
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
    keep(node, as_values(scanned(node, body, state, sources, all, sources[0].extent(all.along[0]))));
}

std::vector<Buffer<>> Evaluation::scanned_batches(const Node &node, const Graph &body,
                                                  const std::vector<Buffer<>> &state,
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
        const Buffer<> given = tensor(node, 0).copy();
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

} // namespace kumiko::graph
