#include "autotune/exact.h"

#include "dsl/extern.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kumiko {

namespace {

namespace hi = Halide::Internal;

constexpr double inexact = std::numeric_limits<double>::infinity();

// The largest magnitude up to which the type represents every integer. Narrow and unsigned integers
// wrap, independently of the order of operations, so they have no limit.
double capacity(Type type) {
    if (type.is_bfloat()) return std::ldexp(1, 8);
    if (type.is_float()) return std::ldexp(1, type.bits() == 16 ? 11 : type.bits() == 32 ? 24 : 53);
    return std::ldexp(1, std::min(53, type.bits() - (type.is_int() ? 1 : 0)));
}

bool wraps(Type type) { return type.is_uint() || (type.is_int() && type.bits() < 32); }

double fitted(double magnitude, Type type) {
    if (magnitude <= capacity(type)) return magnitude;
    return std::isfinite(magnitude) && wraps(type) && type.bits() < 53 ? capacity(type) : inexact;
}

// Bounds on the magnitudes of integer-valued expressions; `inexact` if a value may not be an exact
// integer.
class Magnitudes {
public:
    std::map<std::string, double> tensors; // inputs and stages
    std::map<std::string, double> axes;

    double of(const Expr &e) const { return fitted(raw(e), e.type()); }

    // Without the outermost casts, which round an exact value once.
    double before_casts(Expr e) const {
        while (const auto *c = e.as<hi::Cast>()) e = c->value;
        return of(e);
    }

private:
    // A negative value converted to an unsigned type can become any of its values.
    static double wrapped(Type type, double magnitude, bool may_be_negative) {
        if (!type.is_uint() || type.is_bool() || !may_be_negative || !std::isfinite(magnitude)) return magnitude;
        return type.bits() < 53 ? capacity(type) : inexact;
    }

    template<typename T>
    bool compared(const Expr &e, double &result) const {
        const T *op = e.as<T>();
        if (op) result = std::isfinite(of(op->a)) && std::isfinite(of(op->b)) ? 1 : inexact;
        return op != nullptr;
    }

    double raw(const Expr &e) const {
        double result = inexact;
        if (const auto *i = e.as<hi::IntImm>()) return std::abs(static_cast<double>(i->value));
        if (const auto *u = e.as<hi::UIntImm>()) return static_cast<double>(u->value);
        if (const auto *f = e.as<hi::FloatImm>())
            return f->value == std::floor(f->value) ? std::abs(f->value) : inexact;
        if (const auto *v = e.as<hi::Variable>()) {
            const auto found = axes.find(v->name);
            return found == axes.end() ? inexact : found->second;
        }
        if (const auto *c = e.as<hi::Cast>()) return wrapped(e.type(), of(c->value), !c->value.type().is_uint());
        if (const auto *a = e.as<hi::Add>()) return of(a->a) + of(a->b);
        if (const auto *s = e.as<hi::Sub>()) return wrapped(e.type(), of(s->a) + of(s->b), true);
        if (const auto *m = e.as<hi::Mul>()) return product(of(m->a), of(m->b));
        if (const auto *m = e.as<hi::Min>()) return std::max(of(m->a), of(m->b));
        if (const auto *m = e.as<hi::Max>()) return std::max(of(m->a), of(m->b));
        if (const auto *s = e.as<hi::Select>()) {
            return std::isfinite(of(s->condition)) ? std::max(of(s->true_value), of(s->false_value)) : inexact;
        }
        if (const auto *d = e.as<hi::Div>())
            return e.type().is_float() ? inexact : std::max(of(d->a), std::isfinite(of(d->b)) ? 0 : inexact);
        if (const auto *m = e.as<hi::Mod>())
            return e.type().is_float() ? inexact : std::max(of(m->b), std::isfinite(of(m->a)) ? 0 : inexact);
        if (const auto *n = e.as<hi::Not>()) return std::isfinite(of(n->a)) ? 1 : inexact;
        if (compared<hi::EQ>(e, result) || compared<hi::NE>(e, result) || compared<hi::LT>(e, result) ||
            compared<hi::LE>(e, result) || compared<hi::GT>(e, result) || compared<hi::GE>(e, result) ||
            compared<hi::And>(e, result) || compared<hi::Or>(e, result)) {
            return result;
        }
        if (const auto *c = e.as<hi::Call>()) return call(c);
        return inexact;
    }

    double call(const hi::Call *c) const {
        double arguments = 0;
        for (const Expr &a : c->args) arguments = std::max(arguments, of(a));
        if (!std::isfinite(arguments)) return inexact;
        if (c->call_type == hi::Call::Image) {
            const auto found = tensors.find(c->name);
            return found == tensors.end() ? inexact : found->second;
        }
        if (c->is_intrinsic(hi::Call::abs) || c->is_intrinsic(hi::Call::likely) ||
            c->is_intrinsic(hi::Call::if_then_else))
            return arguments;
        return inexact;
    }

    static double product(double a, double b) {
        return a == 0 || b == 0 ? (std::isfinite(a + b) ? 0 : inexact) : a * b;
    }
};

struct Exactness {
    std::map<std::string, double> tensors; // magnitudes; results of extern functions are missing
    bool outputs = true;                   // all outputs are exact, except for a final rounding
};

// Analyses the op for integer inputs of magnitude m.
Exactness exactness(int m, const Op &op, const Sizes &sizes) {
    Magnitudes known;
    bool outputs = true;
    for (const auto &[name, value] : sizes) known.axes[name] = static_cast<double>(value);
    for (const Input &input : op.inputs()) known.tensors[input.name] = input.type.is_bool() ? 1 : m;
    for (const Stage &stage : op.stages()) {
        const auto range = [&](const std::vector<Axis> &axes) {
            double points = 1;
            for (const Axis &axis : axes) {
                const double extent = static_cast<double>(evaluate_size(axis.extent(), sizes));
                known.axes[axis.name()] = extent;
                points *= extent;
            }
            return points;
        };
        if (is_extern(stage)) {
            outputs = false;
            continue;
        }
        range(stage.axes);
        if (!stage.is_reduction()) {
            known.tensors[stage.name] = known.of(stage.value);
            if (op.is_output(stage.name)) outputs = outputs && std::isfinite(known.before_casts(stage.value));
            continue;
        }
        const double terms = range(stage.reduction_axes);
        double largest = 0; // over all terms: argmax compares one and returns another
        for (const Component &component : stage.components) largest = std::max(largest, known.of(component.term));
        for (const Component &component : stage.components) {
            double magnitude = known.of(component.term);
            if (stage.reduction_kind == "sum")
                magnitude *= terms;
            else if (stage.reduction_kind == "argmax" || stage.reduction_kind == "argmin")
                magnitude = std::isfinite(largest) ? std::max(magnitude, terms) : inexact;
            else if (stage.reduction_kind != "maximum" && stage.reduction_kind != "minimum")
                magnitude = inexact;
            known.tensors[component.tensor] = fitted(magnitude, component.type);
            if (op.is_output(component.tensor)) outputs = outputs && std::isfinite(known.tensors[component.tensor]);
        }
    }
    return {known.tensors, outputs};
}

} // namespace

std::set<std::string> exact_tensors(int magnitude, const Op &op, const Sizes &sizes) {
    std::set<std::string> exact;
    for (const auto &[tensor, largest] : exactness(magnitude, op, sizes).tensors) {
        if (std::isfinite(largest)) exact.insert(tensor);
    }
    return exact;
}

std::optional<int> exact_input_magnitude(const Op &op, const Sizes &sizes) {
    // Bytes use their whole range if possible, as quantised data does: some kernels are only valid
    // for small values.
    const bool bytes = std::any_of(op.inputs().begin(), op.inputs().end(), [](const Input &in) {
        return (in.type.is_int() || in.type.is_uint()) && in.type.bits() == 8;
    });
    if (bytes && exactness(127, op, sizes).outputs) return 127;
    for (int m : {4, 2, 1}) {
        if (exactness(m, op, sizes).outputs) return m;
    }
    return std::nullopt;
}

} // namespace kumiko
