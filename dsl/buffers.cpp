#include "dsl/buffers.h"

#include "dsl/buffer_elements.h"
#include "dsl/types.h"
#include "support/random.h"

#include <cmath>
#include <cstring>

namespace kumiko {

namespace {

// Binds sizes from extents and strides that are bare sizes, and records where each value came from.
struct Solver {
    const Op &op;
    Sizes sizes;
    std::map<std::string, std::string> source;

    void bind(const Expr &e, int64_t value, const std::string &place) {
        const auto *v = e.as<Halide::Internal::Variable>();
        if (!v) return;
        const auto [it, fresh] = sizes.emplace(v->name, value);
        if (fresh) {
            source[v->name] = place;
        } else if (it->second != value) {
            throw UserError("op \"" + op.name() + "\": size " + v->name + " is " + std::to_string(it->second) + " by " +
                            source[v->name] + " but " + std::to_string(value) + " by " + place);
        }
    }

    void bind_extents(const std::string &tensor, const std::vector<Axis> &axes, const halide_buffer_t *b) {
        if (rank(b) != axes.size()) return; // check_input and check_output report this
        for (size_t d = 0; d < axes.size(); d++) {
            bind(axes[d].extent(), axis_extent(b, d), "axis " + axes[d].name() + " of " + tensor);
        }
    }

    // An extent size / number, as for channel groups, also binds the size: extent * number.
    void bind_quotients(const std::string &tensor, const std::vector<Axis> &axes, const halide_buffer_t *b) {
        if (rank(b) != axes.size()) return;
        for (size_t d = 0; d < axes.size(); d++) {
            const auto *quotient = axes[d].extent().as<Halide::Internal::Div>();
            const auto *v = quotient ? quotient->a.as<Halide::Internal::Variable>() : nullptr;
            const auto by = quotient ? Halide::Internal::as_const_int(quotient->b) : std::nullopt;
            if (v && by && *by > 0 && !sizes.count(v->name))
                bind(quotient->a, *by * axis_extent(b, d), "axis " + axes[d].name() + " of " + tensor);
        }
    }

    void bind_strides(const std::string &tensor, const std::vector<Axis> &axes, const std::vector<Expr> &strides,
                      const halide_buffer_t *b) {
        if (rank(b) != axes.size()) return;
        for (size_t d = 0; d < axes.size(); d++) {
            // The stride of a one-element axis is arbitrary: it binds a size only if nothing else
            // does.
            const auto *v = strides[d].as<Halide::Internal::Variable>();
            if (v && (axis_extent(b, d) > 1 || !sizes.count(v->name)))
                bind(strides[d], axis_stride(b, d), "the stride of axis " + axes[d].name() + " of " + tensor);
        }
    }
};

void check_buffer(const Op &op, const std::string &name, Type type, const std::vector<Axis> &axes,
                  const std::vector<int64_t> &strides, bool stated, const halide_buffer_t *b, const Sizes &sizes) {
    const std::string start = "op \"" + op.name() + "\": tensor " + name + " ";
    if (!b || !b->host) throw UserError(start + "was given no buffer");
    if (Type(b->type) != type)
        throw UserError(start + "is " + type_name(type) + " but its buffer is " + type_name(b->type));
    if (rank(b) != axes.size()) {
        throw UserError(start + "has " + std::to_string(axes.size()) + " axes but its buffer has " +
                        std::to_string(rank(b)));
    }
    for (size_t d = 0; d < axes.size(); d++) {
        const int64_t want = evaluate_size(axes[d].extent(), sizes);
        if (axis_extent(b, d) != want) {
            throw UserError(start + "has extent " + std::to_string(want) + " along axis " + axes[d].name() +
                            " but its buffer has " + std::to_string(axis_extent(b, d)));
        }
        if (b->dim[rank(b) - 1 - d].min != 0)
            throw UserError(start + "was given a buffer whose indices do not begin at 0");
    }
    const std::vector<int64_t> extents = axis_extents(b);
    // An empty array has no strides.
    if (std::find(extents.begin(), extents.end(), 0) != extents.end()) return;
    for (size_t d = 0; d < axes.size(); d++) {
        if (axis_extent(b, d) > 1 && axis_stride(b, d) != strides[d]) {
            throw UserError(start + (stated ? "states" : "is row-major, with") + " strides " + list_text(strides) +
                            " but its buffer has " + list_text(strides_of(b)));
        }
    }
}

std::vector<int64_t> evaluate_strides(const std::vector<Expr> &strides, const Sizes &sizes) {
    std::vector<int64_t> values;
    for (const Expr &s : strides) {
        values.push_back(evaluate_size(s, sizes));
        if (values.back() < 0) {
            std::ostringstream text;
            text << s;
            throw UserError("the stride " + text.str() + " is " + std::to_string(values.back()) +
                            " at these sizes; legal is 0 or more");
        }
    }
    return values;
}

std::vector<int64_t> output_strides(const Stage &s, const Sizes &sizes) {
    return s.strides.empty() ? dense_strides(evaluate_extents(s.axes, sizes)) : evaluate_strides(s.strides, sizes);
}

} // namespace

size_t rank(const halide_buffer_t *b) { return static_cast<size_t>(b->dimensions); }
int64_t axis_extent(const halide_buffer_t *b, size_t axis) { return b->dim[rank(b) - 1 - axis].extent; }
int64_t axis_stride(const halide_buffer_t *b, size_t axis) { return b->dim[rank(b) - 1 - axis].stride; }

std::vector<int64_t> axis_extents(const halide_buffer_t *b) {
    std::vector<int64_t> extents;
    for (size_t d = 0; d < rank(b); d++) extents.push_back(axis_extent(b, d));
    return extents;
}

std::vector<int64_t> dense_strides(const std::vector<int64_t> &extents) {
    std::vector<int64_t> strides(extents.size(), 1);
    for (size_t d = extents.size(); d-- > 1;) {
        if (__builtin_mul_overflow(strides[d], std::max<int64_t>(extents[d], 1), &strides[d - 1]))
            strides[d - 1] = INT64_MAX; // larger than any buffer supports
    }
    return strides;
}

std::vector<halide_dimension_t> halide_shape(const std::vector<int64_t> &extents, const std::vector<int64_t> &strides) {
    if (extents.size() != strides.size()) {
        throw UserError("a buffer with extents " + list_text(extents) + " needs as many strides, not " +
                        list_text(strides));
    }
    std::vector<halide_dimension_t> shape;
    for (size_t d = extents.size(); d-- > 0;) {
        if (extents[d] < 0 || extents[d] > INT32_MAX) {
            throw UserError("a buffer cannot have extents " + list_text(extents) + "; legal is 0 to 2147483647");
        }
        if (extents[d] > 1 && (strides[d] > INT32_MAX || strides[d] < INT32_MIN)) {
            throw UserError("a buffer cannot have strides " + list_text(strides) + "; a stride must fit 32 bits");
        }
        shape.emplace_back(0, static_cast<int32_t>(extents[d]), static_cast<int32_t>(strides[d]));
    }
    return shape;
}

void no_memory(Type type, const std::vector<int64_t> &extents) {
    throw UserError("there is no memory for a buffer of " + type_name(type) + " with extents " + list_text(extents));
}

void check_memory(Type type, const std::vector<int64_t> &extents, const halide_buffer_t *b) {
    int64_t last = type.bytes();
    for (size_t d = 0; d < rank(b); d++) {
        int64_t bytes = 0;
        const int64_t stride = std::abs(axis_stride(b, d)) * type.bytes(), steps = axis_extent(b, d) - 1;
        if (__builtin_mul_overflow(stride, std::max<int64_t>(steps, 0), &bytes) ||
            __builtin_add_overflow(last, bytes, &last))
            no_memory(type, extents);
    }
}

std::string describe(const halide_buffer_t *b) {
    std::string text = type_name(b->type) + list_text(axis_extents(b));
    if (strides_of(b) != dense_strides(axis_extents(b))) text += " with strides " + list_text(strides_of(b));
    return text;
}

void fill_random(const Buffer<> &b, uint64_t seed, double low, double high) {
    Random random(seed);
    const Type t = b.type();
    for_each_element(b.raw_buffer(), [&](const auto &, uint8_t *p) {
        const double v = low + (high - low) * random.real();
        write_element(t, p, t.is_float() ? v : std::floor(v));
    });
}

void fill_random_integers(const Buffer<> &b, uint64_t seed, int64_t low, int64_t high) {
    Random random(seed);
    const Type t = b.type();
    if (t.is_uint()) low = std::max<int64_t>(low, 0);
    for_each_element(b.raw_buffer(), [&](const auto &, uint8_t *p) {
        write_element(t, p, static_cast<double>(random.between(low, high)));
    });
}

void fill_unwritten(const Buffer<> &b) {
    const Type t = b.type();
    for_each_element(b.raw_buffer(), [&](const auto &, uint8_t *p) {
        if (t.is_float()) {
            write_element(t, p, std::numeric_limits<double>::quiet_NaN());
        } else {
            std::memset(p, 0xCD, static_cast<size_t>(t.bytes()));
        }
    });
}

Buffer<> random_buffer(Type type, const std::vector<int64_t> &extents, uint64_t seed, double low, double high) {
    Buffer<> b(type, extents);
    fill_random(b, seed, low, high);
    return b;
}

Buffer<> random_integers(Type type, const std::vector<int64_t> &extents, uint64_t seed, int64_t low, int64_t high) {
    Buffer<> b(type, extents);
    fill_random_integers(b, seed, low, high);
    return b;
}

namespace {

// The value in 64 bits; nullopt if the expression has another form or overflows.
std::optional<int64_t> evaluated(const Expr &e, const Sizes &sizes) {
    using namespace Halide::Internal;
    if (const auto *i = e.as<IntImm>()) return i->value;
    if (const auto *v = e.as<Variable>()) {
        const auto it = sizes.find(v->name);
        return it == sizes.end() ? std::nullopt : std::optional<int64_t>(it->second);
    }
    const auto both = [&](const auto *op, auto f) -> std::optional<int64_t> {
        const auto a = evaluated(op->a, sizes), b = evaluated(op->b, sizes);
        int64_t r = 0;
        if (!a || !b || f(*a, *b, &r)) return std::nullopt;
        return r;
    };
    if (const auto *op = e.as<Add>())
        return both(op, [](int64_t a, int64_t b, int64_t *r) { return __builtin_add_overflow(a, b, r); });
    if (const auto *op = e.as<Sub>())
        return both(op, [](int64_t a, int64_t b, int64_t *r) { return __builtin_sub_overflow(a, b, r); });
    if (const auto *op = e.as<Mul>())
        return both(op, [](int64_t a, int64_t b, int64_t *r) { return __builtin_mul_overflow(a, b, r); });
    const auto exact = [&](const auto *op, auto f) {
        return both(op, [&](int64_t a, int64_t b, int64_t *r) {
            *r = f(a, b);
            return false;
        });
    };
    if (const auto *op = e.as<Div>()) return exact(op, [](int64_t a, int64_t b) { return b ? div_imp(a, b) : 0; });
    if (const auto *op = e.as<Mod>()) return exact(op, [](int64_t a, int64_t b) { return b ? mod_imp(a, b) : 0; });
    if (const auto *op = e.as<Min>()) return exact(op, [](int64_t a, int64_t b) { return std::min(a, b); });
    if (const auto *op = e.as<Max>()) return exact(op, [](int64_t a, int64_t b) { return std::max(a, b); });
    return std::nullopt;
}

} // namespace

int64_t evaluate_size(const Expr &e, const Sizes &sizes) {
    std::map<std::string, Expr> values;
    for (const auto &[name, v] : sizes) {
        if (v < 0 || v > INT32_MAX) {
            throw UserError("size " + name + " is " + std::to_string(v) + "; legal is 0 to 2147483647");
        }
        values[name] = Expr(static_cast<int32_t>(v));
    }
    if (const auto n = evaluated(e, sizes)) return *n;
    const Expr result = Halide::Internal::simplify(Halide::Internal::substitute(values, e));
    const auto n = Halide::Internal::as_const_int(result);
    if (!n) {
        std::ostringstream text;
        text << result;
        throw UserError("the value of " + text.str() + " is not known; pass its sizes by name");
    }
    return *n;
}

std::vector<int64_t> evaluate_extents(const std::vector<Axis> &axes, const Sizes &sizes) {
    std::vector<int64_t> extents;
    for (const Axis &a : axes) {
        extents.push_back(evaluate_size(a.extent(), sizes));
        if (extents.back() < 0) {
            throw UserError("axis " + a.name() + " has the negative extent " + std::to_string(extents.back()) +
                            " at these sizes");
        }
        if (extents.back() > INT32_MAX) {
            throw UserError("axis " + a.name() + " has the extent " + std::to_string(extents.back()) +
                            " at these sizes; legal is 0 to 2147483647");
        }
    }
    return extents;
}

Sizes solve_sizes(const Op &op, const std::vector<const halide_buffer_t *> &buffers, const Sizes &given) {
    Solver solver{op, given, {}};
    for (const auto &[name, value] : given) {
        if (std::find(op.sizes().begin(), op.sizes().end(), name) == op.sizes().end()) {
            throw UserError("op \"" + op.name() + "\" has no size " + name);
        }
        solver.source[name] = "the caller";
    }
    const size_t n_inputs = op.inputs().size();
    for (const auto bind : {&Solver::bind_extents, &Solver::bind_quotients}) {
        for (size_t b = 0; b < buffers.size(); b++) {
            if (!buffers[b]) continue; // check_input reports this
            if (b < n_inputs) {
                const Input &in = op.inputs()[b];
                (solver.*bind)(in.name, in.axes, buffers[b]);
            } else {
                const Stage &s = op.stage(op.separate_outputs()[b - n_inputs]);
                (solver.*bind)(s.name, s.axes, buffers[b]);
            }
        }
    }
    for (size_t b = 0; b < buffers.size(); b++) {
        if (!buffers[b]) continue;
        if (b < n_inputs) {
            const Input &in = op.inputs()[b];
            if (in.stated_strides) solver.bind_strides(in.name, in.axes, in.strides, buffers[b]);
        } else {
            const Stage &s = op.stage(op.separate_outputs()[b - n_inputs]);
            if (!s.strides.empty()) solver.bind_strides(s.name, s.axes, s.strides, buffers[b]);
        }
    }
    // An omitted output is allocated dense.
    for (size_t o = buffers.size() > n_inputs ? buffers.size() - n_inputs : 0; o < op.separate_outputs().size(); o++) {
        const Stage &s = op.stage(op.separate_outputs()[o]);
        if (s.strides.empty()) continue;
        const std::vector<int64_t> dense = dense_strides(evaluate_extents(s.axes, solver.sizes));
        for (size_t d = 0; d < dense.size(); d++) {
            if (const auto *v = s.strides[d].as<Halide::Internal::Variable>()) solver.sizes.emplace(v->name, dense[d]);
        }
    }
    for (const std::string &s : op.sizes()) {
        if (!solver.sizes.count(s)) {
            throw UserError("op \"" + op.name() + "\": no buffer determines the size " + s + "; pass it by name");
        }
    }
    return solver.sizes;
}

void check_requirements(const Op &op, const Sizes &sizes) {
    for (const Requirement &r : op.requirements()) {
        if (!evaluate_size(Halide::select(r.condition, 1, 0), sizes))
            throw UserError("op \"" + op.name() + "\" requires " + r.text);
    }
}

void check_input(const Op &op, const Input &in, const halide_buffer_t *b, const Sizes &sizes) {
    check_buffer(op, in.name, in.type, in.axes, evaluate_strides(in.strides, sizes), in.stated_strides, b, sizes);
}

void check_output(const Op &op, const std::string &output, const halide_buffer_t *b, const Sizes &sizes) {
    const Stage &s = op.stage(output);
    check_buffer(op, s.name, s.type, s.axes, output_strides(s, sizes), !s.strides.empty(), b, sizes);
}

Buffer<> make_input(const Input &in, const Sizes &sizes) {
    return Buffer<>(in.type, evaluate_extents(in.axes, sizes), evaluate_strides(in.strides, sizes));
}

Buffer<> make_output(const Op &op, const std::string &output, const Sizes &sizes) {
    const Stage &s = op.stage(output);
    return Buffer<>(s.type, evaluate_extents(s.axes, sizes), output_strides(s, sizes));
}

} // namespace kumiko
