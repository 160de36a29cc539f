#include "ops/elementwise.h"

#include "dsl/types.h"
#include "support/error.h"
#include "support/names.h"

namespace kumiko::ops {

namespace {

Expr one(const Expr &like) { return Halide::Internal::make_one(like.type()); }
Expr zero(const Expr &like) { return Halide::Internal::make_zero(like.type()); }

template<typename Table>
const auto &find(const Table &table, const std::string &name, const char *what) {
    std::vector<std::string> names;
    for (const auto &f : table) {
        if (f.name == name) return f;
        names.push_back(f.name);
    }
    throw UserError("unknown " + std::string(what) + " \"" + name + "\"" + suggest(name, names));
}

template<typename F>
Expr in_type(const F &f, const Expr &x, const std::function<Expr(const std::function<Expr(const Expr &)> &)> &apply) {
    const Type t = x.type();
    if (!t.is_float() && !f.integers) {
        throw UserError("\"" + f.name + "\" takes floats, not " + type_name(t) + "; cast first");
    }
    const bool half = t.is_float() && t.bits() == 16;
    const Expr result = apply([&](const Expr &e) { return half ? cast(Float(32), e) : e; });
    return result.type() == t ? result : cast(t, result);
}

} // namespace

const std::vector<UnaryFunction> &unary_functions() {
    static const std::vector<UnaryFunction> table = {
        {"copy", "x", true, 0, [](const Element &x) { return x; }},
        {"neg", "-x", true, 0, // 0 - x loses the sign of zero
         [](const Element &x) { return x.type().is_float() ? x * -1 : -x; }},
        {"abs", "|x|", true, 0, [](const Element &x) { return abs(x); }},
        {"square", "x * x", true, 0.5, [](const Element &x) { return square(x); }},
        {"relu", "max(x, 0)", true, 0, [](const Element &x) { return relu(x); }},
        {"relu6", "min(max(x, 0), 6)", true, 0, [](const Element &x) { return relu6(x); }},
        {"leaky_relu", "x where positive, else 0.01 * x", false, 1,
         [](const Element &x) { return leaky_relu(x, 0.01f); }},
        {"sigmoid", "1 / (1 + exp(-x))", false, 4, [](const Element &x) { return sigmoid(x); }},
        {"hard_sigmoid", "clamp(x / 6 + 1/2, 0, 1)", false, 2, [](const Element &x) { return hard_sigmoid(x); }},
        {"silu", "x * sigmoid(x)", false, 4, [](const Element &x) { return silu(x); }},
        {"hard_swish", "x * hard_sigmoid(x)", false, 3, [](const Element &x) { return hard_swish(x); }},
        {"gelu", "x / 2 * erfc(-x / sqrt(2))", false, 4, [](const Element &x) { return gelu(x); }},
        {"gelu_tanh", "gelu with tanh in place of erf", false, 4, [](const Element &x) { return gelu_tanh(x); }},
        {"softplus", "log(1 + exp(x))", false, 4, [](const Element &x) { return softplus(x); }},
        {"tanh", "tanh(x)", false, 4, [](const Element &x) { return tanh(x); }},
        {"erf", "the error function", false, 4, [](const Element &x) { return erf(x); }},
        {"erfc", "1 - erf(x)", false, 4, [](const Element &x) { return erfc(x); }},
        {"exp", "exp(x)", false, 4, [](const Element &x) { return exp(x); }},
        {"expm1", "exp(x) - 1", false, 2, [](const Element &x) { return expm1(x); }},
        {"log", "the natural logarithm", false, 2, [](const Element &x) { return log(x); }},
        {"log1p", "log(1 + x)", false, 2, [](const Element &x) { return log1p(x); }},
        {"sqrt", "sqrt(x)", false, 0.5, [](const Element &x) { return sqrt(x); }},
        {"rsqrt", "1 / sqrt(x)", false, 2, [](const Element &x) { return rsqrt(x); }},
        {"reciprocal", "1 / x", false, 0.5, [](const Element &x) { return one(x) / x; }},
        {"sin", "sin(x)", false, 2, [](const Element &x) { return sin(x); }},
        {"cos", "cos(x)", false, 2, [](const Element &x) { return cos(x); }},
        {"floor", "rounded down", false, 0, [](const Element &x) { return floor(x); }},
        {"ceil", "rounded up", false, 0, [](const Element &x) { return ceil(x); }},
        {"round", "rounded to nearest, halves to even", false, 0, [](const Element &x) { return round(x); }},
        {"trunc", "rounded towards zero", false, 0, [](const Element &x) { return trunc(x); }},
        {"sign", "-1, 0 or 1", true, 0,
         [](const Element &x) { return select(x > zero(x), one(x), select(x < zero(x), zero(x) - one(x), zero(x))); }},
    };
    return table;
}

const std::vector<BinaryFunction> &binary_functions() {
    static const std::vector<BinaryFunction> table = {
        {"add", "a + b", true, [](const Element &a, const Element &b) { return a + b; }},
        {"sub", "a - b", true, [](const Element &a, const Element &b) { return a - b; }},
        {"mul", "a * b", true, [](const Element &a, const Element &b) { return a * b; }},
        {"div", "a / b; integers round down and x / 0 = 0", true,
         [](const Element &a, const Element &b) { return a / b; }},
        {"mod", "a % b, with the sign of the rounding of div", true,
         [](const Element &a, const Element &b) { return a % b; }},
        {"max", "a > b ? a : b", true, [](const Element &a, const Element &b) { return max(a, b); }},
        {"min", "a < b ? a : b", true, [](const Element &a, const Element &b) { return min(a, b); }},
        {"pow", "a to the power b", false, [](const Element &a, const Element &b) { return pow(a, b); }},
        {"squared_difference", "(a - b) * (a - b)", true,
         [](const Element &a, const Element &b) { return square(a - b); }},
        {"silu_mul", "silu(a) * b, the gate of SwiGLU", false,
         [](const Element &a, const Element &b) { return silu(a) * b; }},
    };
    return table;
}

Expr apply_unary(const std::string &name, const Expr &x) {
    const UnaryFunction &f = find(unary_functions(), name, "function");
    return in_type(f, x, [&](const auto &compute) { return f.apply(Element(compute(x))); });
}

Expr apply_binary(const std::string &name, const Expr &a, const Expr &b) {
    const BinaryFunction &f = find(binary_functions(), name, "function of two values");
    require_same_type(a, b, name.c_str());
    return in_type(f, a, [&](const auto &compute) { return f.apply(Element(compute(a)), Element(compute(b))); });
}

Type type_after(Type sum, Type result) {
    if (sum.is_float() || !result.is_float()) return sum;
    return result.bits() < 32 ? f32 : result;
}

Expr activated(const std::string &activation, const Expr &x) {
    return activation.empty() ? x : apply_unary(activation, x);
}

Type accumulator_type(Type t) {
    if (t.is_float()) return t.bits() == 16 ? Float(32) : t;
    return t.bits() <= 16 ? Int(32) : t;
}

Op unary(const std::string &function, Type t, const Expr &N) {
    Axis i("i", N);
    Tensor X = input("X", t, {i});
    return Op(function, {X}, {compute("Y", {i}, apply_unary(function, X(i)))});
}

Op binary(const std::string &function, Type t, const Expr &N) {
    Axis i("i", N);
    Tensor A = input("A", t, {i}), B = input("B", t, {i});
    return Op(function, {A, B}, {compute("Y", {i}, apply_binary(function, A(i), B(i)))});
}

Op binary_rows(const std::string &function, Type t, const Expr &M, const Expr &N) {
    Axis i("i", M), j("j", N);
    Tensor A = input("A", t, {i, j}), B = input("B", t, {j});
    return Op(function + "_rows", {A, B}, {compute("Y", {i, j}, apply_binary(function, A(i, j), B(j)))});
}

} // namespace kumiko::ops
