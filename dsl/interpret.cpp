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

// Evaluates an op on arrays.
class Evaluation {
public:
    Evaluation(const Op &op, const std::vector<Buffer<>> &buffers, const InterpretOptions &options, bool with_bounds)
        : op_(op), buffers_(buffers), options_(options), with_bounds_(with_bounds) {}

    // `exact`: stages whose bounds are set to 0.
    Outcome run(const std::set<std::string> &exact) {
        add_inputs();
        add_outputs();
        for (const Stage &s : op_.stages()) {
            if (s.kind != Stage::Kind::Padding) add_stage(s); // paddings are evaluated at each read
        }
        interpreter::share_earlier(context_);
        for (const auto &group : groups_of_steps(op_.stages())) {
            const Stage &last = *group.back();
            if (last.kind == Stage::Kind::Padding) continue;
            if (is_extern(last)) {
                if (!interpreter::run_extern(context_, last, targets_.at(last.name), with_bounds_))
                    outcome_.unsure.push_back(last.name);
                continue;
            }
            interpreter::run_group(context_, group, targets_, with_bounds_);
            for (const Stage *s : group) {
                for (const int t : targets_.at(s->name)) {
                    const Array &array = context_.arrays[t];
                    if (array.bound && exact.contains(array.name))
                        std::fill_n(array.bound, elements(array.extents), 0.0);
                }
            }
        }
        return std::move(outcome_);
    }

private:
    int add(Array array) {
        context_.array_of[array.name] = static_cast<int>(context_.arrays.size());
        context_.arrays.push_back(std::move(array));
        return static_cast<int>(context_.arrays.size()) - 1;
    }
    Type value_type(Type t) const { return options_.in_double && t.is_float() ? Float(64) : t; }

    // Checks the buffers and binds the sizes.
    void add_inputs() {
        const size_t inputs = op_.inputs().size(), own = op_.separate_outputs().size();
        if (buffers_.size() != inputs && buffers_.size() != inputs + own) {
            throw UserError("op \"" + op_.name() + "\" takes " + std::to_string(inputs) + " inputs and " +
                            std::to_string(own) + " outputs, but " + std::to_string(buffers_.size()) +
                            " buffers were given");
        }
        std::vector<const halide_buffer_t *> raw;
        for (const Buffer<> &b : buffers_) raw.push_back(b.raw_buffer());
        context_.op = &op_;
        context_.sizes = solve_sizes(op_, raw, options_.sizes);
        check_requirements(op_, context_.sizes);
        context_.in_double = options_.in_double;
        for (size_t i = 0; i < inputs; i++) {
            check_input(op_, op_.inputs()[i], raw[i], context_.sizes);
            add(array_of(op_.inputs()[i].name, buffers_[i]));
        }
    }

    // Takes the given buffers of outputs, or allocates them.
    void add_outputs() {
        size_t given = op_.inputs().size(); // the next output buffer
        for (const std::string &name : op_.outputs()) {
            const Stage &s = op_.stage(name);
            Buffer<> values;
            // The arrays of inputs are in their order.
            if (!s.updates.empty() && !options_.in_double)
                values = buffers_[context_.array_of.at(s.updates)];
            else if (buffers_.size() == op_.inputs().size() || !s.updates.empty())
                values = Buffer<>(value_type(s.type), evaluate_extents(s.axes, context_.sizes));
            else
                values = checked_output(s, buffers_[given++]);
            outcome_.values.push_back(values);
            if (with_bounds_) outcome_.bounds.push_back(Buffer<>(f64, values.extents()));
        }
    }
    const Buffer<> &checked_output(const Stage &s, const Buffer<> &buffer) const {
        if (value_type(s.type) == s.type) {
            check_output(op_, s.name, buffer.raw_buffer(), context_.sizes);
        } else if (buffer.type() != halide_type_t(Float(64)) ||
                   buffer.extents() != evaluate_extents(s.axes, context_.sizes)) {
            throw UserError("output \"" + s.name + "\" is evaluated in double: give a buffer of f64 with its extents");
        }
        return buffer;
    }

    // An array for each component: the output's, or a temporary one.
    void add_stage(const Stage &s) {
        const std::vector<int64_t> extents = evaluate_extents(s.axes, context_.sizes);
        for (size_t c = 0; c < std::max<size_t>(s.components.size(), 1); c++) {
            const std::string name = c ? s.components[c].tensor : s.name;
            const Type type = value_type(c ? s.components[c].type : s.type);
            Array array{name, type, extents, dense_strides(extents), nullptr, nullptr};
            for (size_t o = 0; o < op_.outputs().size(); o++) {
                if (op_.outputs()[o] != name) continue;
                array = array_of(name, outcome_.values[o]);
                if (with_bounds_)
                    array.bound = static_cast<double *>(static_cast<void *>(outcome_.bounds[o].raw_buffer()->host));
            }
            if (!array.data) {
                memory_.push_back(allocate(elements(extents) * type.bytes()));
                array.data = static_cast<uint8_t *>(memory_.back().get());
                if (with_bounds_) {
                    memory_.push_back(allocate(elements(extents) * 8));
                    array.bound = static_cast<double *>(memory_.back().get());
                }
            }
            targets_[s.name].push_back(add(std::move(array)));
        }
    }

    const Op &op_;
    const std::vector<Buffer<>> &buffers_;
    const InterpretOptions &options_;
    bool with_bounds_;
    Context context_;
    Outcome outcome_;
    std::vector<Memory> memory_;
    std::map<std::string, std::vector<int>> targets_; // by stage, one per component
};

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
    return guarded(op, [&] { return Evaluation(op, buffers, options, false).run({}).values; });
}

Bounded interpret_with_bound(const Op &op, const std::vector<Buffer<>> &inputs, const Sizes &sizes,
                             const std::set<std::string> &exact) {
    return guarded(op, [&] {
        Outcome o = Evaluation(op, inputs, {sizes, true}, true).run(exact);
        return Bounded{std::move(o.values), std::move(o.bounds), std::move(o.unsure)};
    });
}

} // namespace kumiko
