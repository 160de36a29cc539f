#include "dsl/interpret.h"

#include "dsl/extern.h"
#include "dsl/interpreter/program.h"
#include "dsl/recurrence.h"
#include "dsl/types.h"

#include <cstdlib>

namespace kumiko {

namespace {

using interpreter::Array;
using interpreter::Context;

struct Free {
    void operator()(void *p) const { std::free(p); }
};
using Memory = std::unique_ptr<void, Free>;

Memory allocate(int64_t bytes) {
    Memory m(std::malloc(static_cast<size_t>(std::max<int64_t>(bytes, 1))));
    if (!m) throw UserError("the interpreter is out of memory: a stage needs " + std::to_string(bytes) + " bytes");
    return m;
}

int64_t elements(const std::vector<int64_t> &extents) {
    int64_t n = 1;
    for (int64_t e : extents) n *= e;
    return n;
}

Array array_of(const std::string &name, const Buffer<> &b) {
    Array a{name, b.type(), b.extents(), {}, b.raw_buffer()->host, nullptr};
    for (size_t d = 0; d < b.rank(); d++) a.strides.push_back(b.stride(d));
    return a;
}

struct Outcome {
    Results values, bounds;
    std::vector<std::string> unsure;
};

Outcome evaluate(const Op &op, const std::vector<Buffer<>> &buffers, const InterpretOptions &options, bool with_bounds,
                 const std::set<std::string> &exact = {}) {
    const size_t n_inputs = op.inputs().size(), n_outputs = op.outputs().size(), n_own = op.separate_outputs().size();
    if (buffers.size() != n_inputs && buffers.size() != n_inputs + n_own) {
        throw UserError("op \"" + op.name() + "\" takes " + std::to_string(n_inputs) + " inputs and " +
                        std::to_string(n_own) + " outputs, but " + std::to_string(buffers.size()) +
                        " buffers were given");
    }
    std::vector<const halide_buffer_t *> raw;
    for (const Buffer<> &b : buffers) raw.push_back(b.raw_buffer());
    Context context;
    context.op = &op;
    context.sizes = solve_sizes(op, raw, options.sizes);
    check_requirements(op, context.sizes);
    context.in_double = options.in_double;
    const auto add = [&](Array array) {
        context.array_of[array.name] = static_cast<int>(context.arrays.size());
        context.arrays.push_back(std::move(array));
        return static_cast<int>(context.arrays.size()) - 1;
    };
    for (size_t i = 0; i < n_inputs; i++) {
        check_input(op, op.inputs()[i], raw[i], context.sizes);
        add(array_of(op.inputs()[i].name, buffers[i]));
    }
    const auto value_type = [&](Type t) { return options.in_double && t.is_float() ? Float(64) : t; };

    Outcome outcome;
    outcome.values.resize(n_outputs);
    if (with_bounds) outcome.bounds.resize(n_outputs);
    size_t given = n_inputs; // the next output array
    for (size_t o = 0; o < n_outputs; o++) {
        const Stage &s = op.stage(op.outputs()[o]);
        if (!s.updates.empty() && !options.in_double) {
            // The arrays of inputs are in their order.
            outcome.values[o] = buffers[context.array_of.at(s.updates)];
        } else if (buffers.size() == n_inputs || !s.updates.empty()) {
            outcome.values[o] = Buffer<>(value_type(s.type), evaluate_extents(s.axes, context.sizes));
        } else {
            if (value_type(s.type) == s.type) {
                check_output(op, s.name, raw[given], context.sizes);
            } else if (buffers[given].type() != halide_type_t(Float(64)) ||
                       buffers[given].extents() != evaluate_extents(s.axes, context.sizes)) {
                throw UserError("output \"" + s.name +
                                "\" is evaluated in double: give a buffer of f64 with its extents");
            }
            outcome.values[o] = buffers[given++];
        }
        if (with_bounds) outcome.bounds[o] = Buffer<>(f64, outcome.values[o].extents());
    }

    std::vector<Memory> memory;
    std::map<std::string, std::vector<int>> targets; // by stage, one per component
    for (const Stage &s : op.stages()) {
        if (s.kind == Stage::Kind::Padding) continue; // evaluated at each read
        const std::vector<int64_t> extents = evaluate_extents(s.axes, context.sizes);
        const size_t n_components = std::max<size_t>(s.components.size(), 1);
        for (size_t c = 0; c < n_components; c++) {
            const std::string name = c ? s.components[c].tensor : s.name;
            const Type type = value_type(c ? s.components[c].type : s.type);
            Array array{name, type, extents, dense_strides(extents), nullptr, nullptr};
            for (size_t o = 0; o < n_outputs; o++) {
                if (op.outputs()[o] != name) continue;
                array = array_of(name, outcome.values[o]);
                if (with_bounds)
                    array.bound = static_cast<double *>(static_cast<void *>(outcome.bounds[o].raw_buffer()->host));
            }
            if (!array.data) {
                memory.push_back(allocate(elements(extents) * type.bytes()));
                array.data = static_cast<uint8_t *>(memory.back().get());
                if (with_bounds) {
                    memory.push_back(allocate(elements(extents) * 8));
                    array.bound = static_cast<double *>(memory.back().get());
                }
            }
            targets[s.name].push_back(add(std::move(array)));
        }
    }
    interpreter::share_earlier(context);
    for (const auto &group : groups_of_steps(op.stages())) {
        const Stage &last = *group.back();
        if (last.kind == Stage::Kind::Padding) continue;
        if (is_extern(last)) {
            if (!interpreter::run_extern(context, last, targets.at(last.name), with_bounds))
                outcome.unsure.push_back(last.name);
            continue;
        }
        interpreter::run_group(context, group, targets, with_bounds);
        for (const Stage *s : group) {
            for (const int t : targets.at(s->name)) {
                const Array &array = context.arrays[t];
                if (array.bound && exact.contains(array.name)) std::fill_n(array.bound, elements(array.extents), 0.0);
            }
        }
    }
    return outcome;
}

template<typename F>
auto guarded(const Op &op, F f) {
    try {
        return f();
    } catch (const Halide::Error &e) {
        throw UserError("op \"" + op.name() + "\": " + e.what());
    }
}

} // namespace

Results interpret(const Op &op, const std::vector<Buffer<>> &buffers, const InterpretOptions &options) {
    return guarded(op, [&] { return evaluate(op, buffers, options, false).values; });
}

Bounded interpret_with_bound(const Op &op, const std::vector<Buffer<>> &inputs, const Sizes &sizes,
                             const std::set<std::string> &exact) {
    return guarded(op, [&] {
        Outcome o = evaluate(op, inputs, {sizes, true}, true, exact);
        return Bounded{std::move(o.values), std::move(o.bounds), std::move(o.unsure)};
    });
}

} // namespace kumiko
