#include "ops/quantise.h"

#include "dsl/types.h"
#include "ops/elementwise.h"
#include "support/error.h"

#include <cmath>
#include <fmt/format.h>

namespace kumiko::ops {

namespace {

void check(const char *op, Type quantised, const Quantisation &q) {
    if (!q.rows.defined() && !(std::isfinite(q.scale) && static_cast<float>(q.scale) > 0))
        throw UserError(fmt::format("{}: the scale is {}; legal is a number above 0", op, q.scale));
    const bool is_signed = quantised.is_int();
    const int low = is_signed ? -128 : 0, high = is_signed ? 127 : 255;
    if (quantised.bits() == 8 && (q.zero_point < low || q.zero_point > high))
        throw UserError(fmt::format("{}: the zero point is {}; legal is a value of {}, {} to {}", op, q.zero_point,
                                    type_name(quantised), low, high));
}

void check_type(const char *op, const char *verb, Type t, bool legal, const char *legal_types) {
    if (!legal) throw UserError(fmt::format("{} {} {}, not {}", op, verb, legal_types, type_name(t)));
}

bool is_byte(Type t) { return t == i8 || t == u8; }

// X over one axis or in rows, and the scale of each element.
struct Elements {
    std::vector<Axis> axes;
    Tensor X;
    std::vector<Tensor> inputs;
    Expr x, scale;

    Elements(Type from, Type computed, const Expr &N, const Quantisation &q) {
        const Axis i("i", q.rows.defined() ? q.rows : N), j("j", N);
        axes = q.rows.defined() ? std::vector<Axis>{i, j} : std::vector<Axis>{i};
        X = input("X", from, axes);
        inputs = {X};
        x = X.at(std::vector<Expr>(axes.begin(), axes.end()));
        scale = Halide::Internal::make_const(computed, q.scale);
        if (q.rows.defined()) {
            inputs.push_back(input("scale", f32, {j}));
            scale = inputs.back()(j);
            if (computed != f32) scale = cast(computed, scale);
        }
    }
    Op op(const char *name, const Expr &value) const { return Op(name, inputs, {compute("Y", axes, value)}); }
};

// Relies on saturating casts from float to integer.
Expr rounded(Type to, const Expr &x, int zero_point) {
    const Expr whole = round(Element(x));
    return cast(to, Element(zero_point ? whole + Halide::Internal::make_const(x.type(), zero_point) : whole));
}

} // namespace

Op quantise(Type from, Type to, const Expr &N, const Quantisation &q) {
    check_type("quantise", "takes", from, from.is_float(), "floats");
    check_type("quantise", "gives", to, is_byte(to), "i8 or u8");
    check("quantise", to, q);
    const Type c = accumulator_type(from);
    const Elements e(from, c, N, q);
    return e.op("quantise", rounded(to, cast(c, Element(e.x)) / e.scale, q.zero_point));
}

Op dequantise(Type from, Type to, const Expr &N, const Quantisation &q) {
    check_type("dequantise", "takes", from, is_byte(from) || from == i32, "i8, u8 or i32");
    check_type("dequantise", "gives", to, to.is_float(), "floats");
    check("dequantise", from, q);
    const Type c = accumulator_type(to);
    const Elements e(from, c, N, q);
    const Element x = cast(i32, Element(e.x));
    const Expr value = cast(c, q.zero_point ? x - q.zero_point : x) * e.scale;
    return e.op("dequantise", cast(to, Element(value)));
}

Op requantise(Type to, const Expr &N, const Quantisation &q) {
    check_type("requantise", "gives", to, is_byte(to), "i8 or u8");
    check("requantise", to, q);
    const Elements e(i32, f32, N, q);
    return e.op("requantise", rounded(to, cast(f32, Element(e.x)) * e.scale, q.zero_point));
}

Expr requantised(const char *op, Type to, const Expr &x, const Expr &scale, int zero_point,
                 const std::string &activation) {
    check_type(op, "requantises to", to, is_byte(to), "i8 or u8 (its output)");
    check(op, to, {.zero_point = zero_point});
    return rounded(to, activated(activation, cast(f32, Element(x)) * scale), zero_point);
}

} // namespace kumiko::ops
