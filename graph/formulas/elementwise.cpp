// Operators of single elements.
#include "dsl/math.h"
#include "dsl/types.h"
#include "graph/formulas/narrow.h"
#include "graph/formulas/strings.h"

#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace kumiko::graph {

namespace {

// Computes f16 and bf16 in f32 and rounds once.
Element in_f32(const Element &e, const std::function<Element(const Element &)> &f) {
    const Type t = e.type();
    return accumulator(t) == t ? f(e) : Element(cast(t, f(cast(f32, e))));
}

Formula unary(std::function<Element(const Element &)> f) {
    return [f](Call &c) -> Results {
        const View x = c.in(0);
        return {mapped(x, x.type, [f](const Element &e) { return in_f32(e, f); })};
    };
}

// With an attribute or two.
Formula activation(std::function<Element(const Element &, float, float)> f, float alpha, float beta = 0) {
    return [=](Call &c) -> Results {
        const float a = c.node.number("alpha", alpha), b = c.node.number("beta", beta);
        const View x = c.in(0);
        return {mapped(x, x.type,
                       [=](const Element &e) { return in_f32(e, [=](const Element &v) { return f(v, a, b); }); })};
    };
}

Formula test(std::function<Element(const Element &)> f) {
    return [f](Call &c) -> Results { return {mapped(c.in(0), boolean, f)}; };
}

using Binary = std::function<Element(const Element &, const Element &)>;

Formula binary(const Binary &f) {
    return [f](Call &c) -> Results { return {zipped(c, c.in(0), c.in(1), c.type(0), f)}; };
}

Formula comparison(const Binary &f) {
    return [f](Call &c) -> Results { return {zipped(c, c.in(0), c.in(1), boolean, f)}; };
}

// Of any number of inputs.
Formula variadic(const Binary &f, bool mean = false) {
    return [f, mean](Call &c) -> Results {
        std::vector<Extents> all;
        for (size_t n = 0; n < c.size(); n++) all.push_back(c.extents(n));
        const Extents extents = broadcast(c, all);
        const Type t = c.type(0), in = accumulator(t);
        View made = broadcast(converted(c.in(0), in), extents);
        for (size_t n = 1; n < c.size(); n++) made = zipped(c, made, converted(c.in(n), in), in, f);
        const double count = static_cast<double>(c.size());
        if (mean) made = mapped(made, in, [count](const Element &e) { return e / number(e.type(), count); });
        return {converted(made, t)};
    };
}

bool is_number(const Element &e) {
    const auto *f = e.as<Halide::Internal::FloatImm>();
    return f && !std::isnan(f->value);
}

// NaN wins, as in NumPy. max(a, b) is b if one of them is NaN, so a number comes first.
Element larger(const Element &a, const Element &b) {
    if (!is_floating(a.type()) || is_number(a)) return max(a, b);
    return is_number(b) ? max(b, a) : select(a != a, a, max(a, b));
}
Element smaller(const Element &a, const Element &b) {
    if (!is_floating(a.type()) || is_number(a)) return min(a, b);
    return is_number(b) ? min(b, a) : select(a != a, a, min(a, b));
}

Element divided(const Element &a, const Element &b) {
    if (is_floating(a.type())) return a / b;
    return Element(Halide::div_round_to_zero(Expr(a), Expr(b)));
}

Element sign(const Element &e) {
    const Type t = e.type();
    if (t.is_uint()) return select(e > number(t, 0), number(t, 1), number(t, 0));
    return select(e > number(t, 0), number(t, 1), e < number(t, 0), number(t, -1), e);
}

Element negated(const Element &e) { return is_floating(e.type()) ? -e : subtract(number(e.type(), 0), e); }

Element number_like(const Element &like, double value) { return number(like.type(), value); }

Results power(Call &c) {
    const Type base = c.type(0), exponent = c.type(1);
    const bool whole = !is_floating(base) && !is_floating(exponent);
    return {zipped(c, c.in(0), c.in(1), base, [=](const Element &a, const Element &b) -> Element {
        if (whole) { // by squaring; results wrap
            const Type t = base;
            Element result = number(t, 1), factor = a;
            const Element times = cast(i64, b), none = number(i64, 0);
            const int bits = exponent.bits() >= 32 ? 63 : exponent.bits();
            for (int bit = 0; bit < bits; bit++) {
                const Element odd = (times >> bit & number(i64, 1)) != none;
                result = select(odd, multiply(result, factor), result);
                if (bit + 1 < bits) factor = multiply(factor, factor);
            }
            const Element one = number(t, 1);
            Element inverse = select(a == one, one, number(t, 0));
            if (t.is_int()) {
                const Element odd = (times & number(i64, 1)) != none;
                inverse = select(a == number(t, -1), select(odd, number(t, -1), one), inverse);
            }
            return select(times < none, inverse, result);
        }
        const Type in = base == f64 || exponent == f64 || !is_floating(base) ? f64 : f32;
        return cast(base, pow(Element(cast(in, a)), Element(cast(in, b))));
    })};
}

Results modulo(Call &c) {
    const bool like_c = c.node.integer("fmod", 0) != 0;
    return {zipped(c, c.in(0), c.in(1), c.type(0), [=](const Element &a, const Element &b) -> Element {
        const Type t = a.type();
        if (is_floating(t)) {
            // Parts of the quotient of 29 bits, so that each product with a divisor of 24 is exact
            // in f64. The quotient of two f32 has less than 278 bits. That of f64 is one part, and
            // rounded.
            const int last = t == f64 ? 0 : 9;
            const Element x = cast(f64, a), y = cast(f64, b), zero = number(f64, 0);
            Element rest = x;
            for (int part = last; part >= 0; part--) {
                const Element scaled = y * number(f64, std::ldexp(1.0, 29 * part));
                rest = rest - trunc(Element(rest / scaled)) * scaled;
            }
            const Element size = abs(y);
            rest = select(rest != zero && (rest < zero) != (x < zero), rest + select(x < zero, -size, size), rest);
            rest = select(is_inf(y) && !is_inf(x), x, rest); // the sign of a
            if (like_c) return cast(t, rest);
            return cast(t, select(rest != zero && (rest < zero) != (y < zero), rest + y, rest));
        }
        if (t.is_uint()) return a % b;
        const Element rest = Element(Halide::mod_round_to_zero(Expr(a), Expr(b))); // the sign of a
        if (like_c) return rest;
        const Element zero = number(t, 0);
        return select(rest != zero && (rest < zero) != (b < zero), add(rest, b), rest);
    })};
}

Results clip(Call &c) {
    const View x = c.in(0);
    const Type t = x.type;
    View made = x;
    const bool inputs = c.node.opset >= 11;
    const auto bound = [&](size_t n, const char *attribute, bool lower) {
        if (inputs && !c.has(n)) return;
        using Limits = std::numeric_limits<float>;
        const float value = inputs ? 0 : c.node.number(attribute, lower ? Limits::lowest() : Limits::max());
        const View limit = inputs ? broadcast(reshaped(c.in(n), {}), x.extents)
                                  : constant_view(t, x.extents, [=](const Indices &) { return number(t, value); });
        made = zipped(c, made, limit, t, lower ? larger : smaller);
    };
    bound(1, "min", true);
    bound(2, "max", false);
    return {made};
}

Results cast_to(Call &c, Type to) {
    if (c.type(0) == string_type || to == string_type) return cast_strings(c, to);
    const View x = numbers_of(c.in(0));
    if (is_narrow(to)) {
        const bool saturate = c.node.integer("saturate", 1) != 0;
        return {encoded(x, {to, saturate, c.choice("round_mode", "up", {"up", "down", "nearest"})})};
    }
    const bool saturating = is_floating(x.type) && !is_floating(to) && to != boolean;
    if (!saturating || to.bits() >= 32) return {converted(x, to)};
    // NumPy's low bits of the value as i32.
    return {mapped(x, to, [=](const Element &e) { return Element(cast(to, cast(i32, e))); })};
}

Results cast_operator(Call &c) {
    const int64_t to = c.node.integer("to", 0);
    const auto type = type_of_onnx(static_cast<int>(to));
    if (!type) c.unsupported(fmt::format("a cast to element type {}; supported are bool, integers and floats", to));
    return cast_to(c, *type);
}

// The same bits as another type of the same width.
Results bit_cast(Call &c) {
    const Type from = c.type(0);
    const auto to = type_of_onnx(static_cast<int>(c.node.integer("to", 0)));
    if (!to || *to != stored_type(*to))
        c.unsupported("a type other than bool, integers of 8 to 64 bits and floats of 16 to 64 bits");
    if (from.bytes() != to->bytes())
        c.fail(fmt::format("the bits of {} as {}, which has another width", type_name(from), type_name(*to)));
    return {mapped(c.in(0), *to, [=, type = *to](const Element &e) -> Element {
        if (from == type) return e;
        // A bool has one bit in formulas.
        const Element bits = from == boolean ? Element(cast(u8, e)) : e;
        if (type == boolean) return Element(reinterpret(u8, bits)) != number(u8, 0);
        return bits.type() == type ? bits : Element(reinterpret(type, bits));
    })};
}

Results shift(Call &c) {
    const bool left = c.choice("direction", "", {"LEFT", "RIGHT"}) == "LEFT";
    return {zipped(c, c.in(0), c.in(1), c.type(0), [=](const Element &a, const Element &b) -> Element {
        // A count outside of the type's bits shifts all of them out.
        const Type t = a.type();
        const Element far = b < number(b.type(), 0) || b >= number(b.type(), t.bits());
        const Element gone = !left && t.is_int() ? select(a < number(t, 0), number(t, -1), number(t, 0)) : number(t, 0);
        const Element count = select(far, number(b.type(), 0), b);
        return select(far, gone, left ? Element(a << count) : Element(a >> count));
    })};
}

Results where_operator(Call &c) {
    const Extents extents = broadcast(c, {c.extents(0), c.extents(1), c.extents(2)});
    const View condition = broadcast(c.in(0), extents), a = broadcast(c.in(1), extents),
               b = broadcast(c.in(2), extents);
    return {
        View{a.type, extents, [=](const Indices &i) -> Element { return select(condition.at(i), a.at(i), b.at(i)); }}};
}

Results gelu_operator(Call &c) {
    const bool by_tanh = c.node.text("approximate", "none") == "tanh";
    const View x = c.in(0);
    return {mapped(x, x.type, [=](const Element &e) {
        return in_f32(e, [=](const Element &v) -> Element { return by_tanh ? gelu_tanh(v) : gelu(v); });
    })};
}

Results is_infinite(Call &c) {
    const bool negative = c.node.integer("detect_negative", 1) != 0,
               positive = c.node.integer("detect_positive", 1) != 0;
    return {mapped(c.in(0), boolean, [=](const Element &e) -> Element {
        const Element zero = number(e.type(), 0);
        Element any = cast(boolean, Expr(0));
        if (negative) any = any || (is_inf(e) && e < zero);
        if (positive) any = any || (is_inf(e) && e > zero);
        return any;
    })};
}

Results shrink(Call &c) {
    const float bias = c.node.number("bias", 0), lambda = c.node.number("lambd", 0.5f);
    const View x = c.in(0);
    const Type t = x.type;
    return {mapped(x, t, [=](const Element &e) -> Element {
        const Element v = is_floating(t) ? e : Element(cast(f32, e));
        const Element moved = select(v<number_like(v, -lambda), v + number_like(v, bias), v> number_like(v, lambda),
                                     v - number_like(v, bias), number_like(v, 0));
        return is_floating(t) ? moved : Element(cast(t, moved));
    })};
}

Results prelu(Call &c) {
    const Type t = c.type(0);
    return {zipped(c, c.in(0), broadcast(c.in(1), broadcast(c, {c.extents(1), c.extents(0)})), t,
                   [=](const Element &x, const Element &slope) -> Element {
                       return select(x < number(t, 0), multiply(x, slope), x);
                   })};
}

Results dropout(Call &c) {
    const bool training = c.has(2) && c.node.opset >= 12 && c.integers(2).at(0) != 0;
    const double ratio = c.has(1) ? c.numbers(1).at(0) : c.node.number("ratio", 0.5f);
    if (training && ratio != 0) c.unsupported("training with random numbers; supported is inference");
    Results made = {c.in(0)};
    if (c.wants(1))
        made.push_back(constant_view(
            c.node.opset >= 10 ? boolean : c.type(0), c.extents(0),
            [t = c.node.opset >= 10 ? boolean : c.type(0)](const Indices &) { return Expr(cast(t, Expr(1))); }));
    return made;
}

Element softplus_of(const Element &v) { return softplus(v); }

} // namespace

// A table of operators, with the formulas of the short ones.
std::vector<Operator> elementwise_operators() {
    using E = const Element &;
    const auto one = [](E like) { return number(like.type(), 1); };
    return {
        {"Identity", 1, [](Call &c) -> Results { return {c.in(0)}; }},
        {"Abs", 1, [](Call &c) -> Results { return {mapped(c.in(0), c.type(0), absolute)}; }},
        {"Neg", 1, [](Call &c) -> Results { return {mapped(c.in(0), c.type(0), negated)}; }},
        {"Sign", 9, [](Call &c) -> Results { return {mapped(c.in(0), c.type(0), sign)}; }},
        {"Not", 1, test([](E e) -> Element { return !e; })},
        {"BitwiseNot", 18,
         [](Call &c) -> Results { return {mapped(c.in(0), c.type(0), [](E e) -> Element { return ~e; })}; }},
        {"IsNaN", 9, test([](E e) -> Element { return e != e; })},
        {"IsInf", 10, is_infinite},
        {"Acos", 7, unary([](E e) -> Element { return acos(e); })},
        {"Acosh", 9, unary([](E e) -> Element { return acosh(e); })},
        {"Asin", 7, unary([](E e) -> Element { return asin(e); })},
        {"Asinh", 9, unary([](E e) -> Element { return asinh(e); })},
        {"Atan", 7, unary([](E e) -> Element { return atan(e); })},
        {"Atanh", 9, unary([](E e) -> Element { return atanh(e); })},
        {"Ceil", 1, unary([](E e) -> Element { return ceil(e); })},
        {"Cos", 7, unary([](E e) -> Element { return cos(e); })},
        {"Cosh", 9, unary([](E e) -> Element { return cosh(e); })},
        {"Erf", 9, unary([](E e) -> Element { return kumiko::erf(e); })},
        {"Exp", 1, unary([](E e) -> Element { return exp(e); })},
        {"Floor", 1, unary([](E e) -> Element { return floor(e); })},
        {"Log", 1, unary([](E e) -> Element { return log(e); })},
        {"Reciprocal", 1, unary([one](E e) -> Element { return one(e) / e; })},
        {"Round", 11, unary([](E e) -> Element { return round(e); })},
        {"Sin", 7, unary([](E e) -> Element { return sin(e); })},
        {"Sinh", 9, unary([](E e) -> Element { return sinh(e); })},
        {"Sqrt", 1, unary([](E e) -> Element { return sqrt(e); })},
        {"Tan", 7, unary([](E e) -> Element { return tan(e); })},
        {"Tanh", 1, unary([](E e) -> Element { return tanh(e); })},
        {"Relu", 1,
         [](Call &c) -> Results {
             return {mapped(c.in(0), c.type(0), [](E e) -> Element { return larger(e, number(e.type(), 0)); })};
         }},
        {"Sigmoid", 1, unary([](E e) -> Element { return sigmoid(e); })},
        {"Softplus", 1, unary(softplus_of)},
        {"Softsign", 1, unary([one](E e) -> Element { return e / (one(e) + abs(e)); })},
        {"Mish", 18, unary([](E e) -> Element { return e * tanh(Element(softplus(e))); })},
        {"HardSwish", 14, unary([](E e) -> Element { return hard_swish(e); })},
        {"Gelu", 20, gelu_operator},
        {"LeakyRelu", 1,
         activation(
             [](E e, float a, float) -> Element { return select(e < number_like(e, 0), e * number_like(e, a), e); },
             0.01f)},
        {"ThresholdedRelu", 10,
         activation([](E e, float a, float) -> Element { return select(e > number_like(e, a), e, number_like(e, 0)); },
                    1)},
        {"Elu", 1,
         activation([](E e, float a,
                       float) -> Element { return select(e < number_like(e, 0), number_like(e, a) * expm1(e), e); },
                    1)},
        {"Celu", 12,
         activation(
             [](E e, float a, float) -> Element {
                 return max(e, number_like(e, 0)) +
                        min(number_like(e, 0), number_like(e, a) * expm1(Element(e / number_like(e, a))));
             },
             1)},
        {"Selu", 1,
         [](Call &c) -> Results {
             const double alpha = c.node.number("alpha", 1.67326319217681884765625f),
                          gamma = c.node.number("gamma", 1.05070102214813232421875f);
             const View x = c.in(0);
             return {mapped(x, x.type, [=](E v) {
                 return in_f32(v, [=](E e) -> Element {
                     return number_like(e, gamma) * select(e > number_like(e, 0), e, number_like(e, alpha) * expm1(e));
                 });
             })};
         }},
        {"HardSigmoid", 1,
         activation(
             [](E e, float a, float b) -> Element {
                 return max(number_like(e, 0), min(number_like(e, 1), number_like(e, a) * e + number_like(e, b)));
             },
             0.2f, 0.5f)},
        {"Swish", 24,
         activation([](E e, float a, float) -> Element { return e * sigmoid(Element(number_like(e, a) * e)); }, 1)},
        {"Shrink", 9, shrink},
        {"Clip", 1, clip},
        {"PRelu", 7, prelu},
        {"Dropout", 7, dropout},
        {"Cast", 6, cast_operator},
        {"BitCast", 26, bit_cast},
        {"CastLike", 15, [](Call &c) -> Results { return cast_to(c, c.type(1)); }},
        {"Where", 9, where_operator},
        {"Add", 7, binary(add)},
        {"Sub", 7, binary(subtract)},
        {"Mul", 7, binary(multiply)},
        {"Div", 7, binary(divided)},
        {"Pow", 7, power},
        {"Mod", 10, modulo},
        {"And", 7, comparison([](E a, E b) -> Element { return a && b; })},
        {"Or", 7, comparison([](E a, E b) -> Element { return a || b; })},
        {"Xor", 7, comparison([](E a, E b) -> Element { return a != b; })},
        {"BitwiseAnd", 18, binary([](E a, E b) -> Element { return a & b; })},
        {"BitwiseOr", 18, binary([](E a, E b) -> Element { return a | b; })},
        {"BitwiseXor", 18, binary([](E a, E b) -> Element { return a ^ b; })},
        {"BitShift", 11, shift},
        {"Equal", 7, comparison([](E a, E b) -> Element { return a == b; })},
        {"Less", 7, comparison([](E a, E b) -> Element { return a < b; })},
        {"LessOrEqual", 12, comparison([](E a, E b) -> Element { return a <= b; })},
        {"Greater", 7, comparison([](E a, E b) -> Element { return a > b; })},
        {"GreaterOrEqual", 12, comparison([](E a, E b) -> Element { return a >= b; })},
        {"Max", 8, variadic(larger)},
        {"Min", 8, variadic(smaller)},
        {"Sum", 8, variadic(add)},
        {"Mean", 8, variadic(add, true)},
    };
}

} // namespace kumiko::graph
