// Values of a formula. An Element is an expression that was read from a tensor or computed from
// one. Its operators and functions require equal types on both sides, so the type of the arithmetic
// is explicit and nothing is converted silently. Numeric literals adapt:
//
//   A(i) * 2          // takes the type of A
//   A(i) + B(i)       // UserError if the types differ; cast(f32, A(i)) + B(i) states one
//   Element e = i;    // an Expr converts to an Element where one is declared or assigned
//
// A literal that the type cannot hold (1000 for u8, 0.5 for i32) is a UserError. So is an operand
// of a type that the operation does not accept: ! of a float, exp of an integer. Arithmetic on two
// plain Exprs is Halide's and converts implicitly: declare variables as `auto` or Element.
#pragma once

#include "dsl/halide.h"

#include <concepts>
#include <source_location>
#include <type_traits>
#include <utility>
#include <vector>

namespace kumiko {

// A value that was read from a tensor or computed from one. It converts to Expr.
class Element : public Expr {
public:
    Element(const Expr &e, const std::source_location &where = {}) : Expr(e), where_(where) {}
    // The location in the user's source of the read or reduction that this value comes from, for
    // error messages; the last one in the file if there are several. line() is 0 if unknown.
    const std::source_location &where() const { return where_; }

private:
    std::source_location where_;
};

// A number or an expression.
template<typename T>
concept ElementOperand = std::is_arithmetic_v<T> || std::is_convertible_v<const T &, Expr>;
// Two operands, at least one of which is an Element.
template<typename A, typename B>
concept ElementOperands = (std::is_base_of_v<Element, A> ||
                           std::is_base_of_v<Element, B>)&&ElementOperand<A> &&ElementOperand<B>;

// Throws UserError, naming both types, if they differ. Literals adapt.
void require_same_type(const Expr &a, const Expr &b, const char *operation);

namespace typed {

// An argument of an operator or function.
class Operand : public Expr {
public:
    Operand(const Expr &e) : Expr(e) {}
    Operand(const Element &e) : Expr(e), where_(e.where()) {}
    const std::source_location &where() const { return where_; }

private:
    std::source_location where_;
};

// A number becomes a constant of its own type, which adapts to the other operand.
template<ElementOperand T>
Operand operand(const T &value) {
    using namespace Halide;
    constexpr int bits = 8 * static_cast<int>(sizeof(T));
    if constexpr (std::is_same_v<T, bool>)
        return Internal::make_const(Bool(), value);
    else if constexpr (std::is_floating_point_v<T>)
        return Internal::make_const(bits == 32 ? Float(32) : Float(64), static_cast<double>(value));
    else if constexpr (std::is_unsigned_v<T>)
        return Internal::make_const(UInt(bits), static_cast<uint64_t>(value));
    else if constexpr (std::is_integral_v<T>)
        return Internal::make_const(Int(bits), static_cast<int64_t>(value));
    else
        return value;
}
// The constant converted to `type`. Throws UserError if the type cannot hold it.
Expr adapted(const Expr &constant, Type type, const char *operation, const std::source_location &where = {});

using Unary = Expr (*)(const Expr &);
using Binary = Expr (*)(const Expr &, const Expr &);
// Each checks the operands of an operator or function and returns f of them. Errors name it
// `operation`. binary() requires operands of one type, logical() operands of bool. unary() accepts
// every type.
Element binary(const char *operation, const Operand &a, const Operand &b, Binary f);
Element logical(const char *operation, const Operand &a, const Operand &b, Binary f);
Element unary(const char *operation, const Operand &x, Unary f);
// The same for float operands (bf16 is computed in f32 and rounded once), and for an integer.
Element of_float(const char *operation, const Operand &x, Unary f);
Element of_floats(const char *operation, const Operand &a, const Operand &b, Binary f);
Element of_integer(const char *operation, const Operand &x, Unary f);
Element choose(const std::vector<Operand> &parts); // condition, value, …, value
Element lerp(const Operand &zero, const Operand &one, const Operand &weight);

} // namespace typed

#define KUMIKO_BINARY(checked, op)                                                                                     \
    template<typename A, typename B>                                                                                   \
    requires(ElementOperands<A, B>) Element operator op(const A &a, const B &b) {                                      \
        return typed::checked(#op, typed::operand(a), typed::operand(b),                                               \
                              [](const Expr &x, const Expr &y) -> Expr { return x op y; });                            \
    }
KUMIKO_BINARY(binary, +)
KUMIKO_BINARY(binary, -)
KUMIKO_BINARY(binary, *)
KUMIKO_BINARY(binary, /)
KUMIKO_BINARY(binary, %)
KUMIKO_BINARY(binary, <)
KUMIKO_BINARY(binary, <=)
KUMIKO_BINARY(binary, >)
KUMIKO_BINARY(binary, >=)
KUMIKO_BINARY(binary, ==)
KUMIKO_BINARY(binary, !=)
KUMIKO_BINARY(binary, &)
KUMIKO_BINARY(binary, |)
KUMIKO_BINARY(binary, ^)
KUMIKO_BINARY(binary, <<)
KUMIKO_BINARY(binary, >>)
KUMIKO_BINARY(logical, &&)
KUMIKO_BINARY(logical, ||)
#undef KUMIKO_BINARY

#define KUMIKO_BINARY(checked, name)                                                                                   \
    template<typename A, typename B>                                                                                   \
    requires(ElementOperands<A, B>) Element name(const A &a, const B &b) {                                             \
        return typed::checked(#name, typed::operand(a), typed::operand(b),                                             \
                              [](const Expr &x, const Expr &y) -> Expr { return Halide::name(x, y); });                \
    }
KUMIKO_BINARY(binary, max)
KUMIKO_BINARY(binary, min)
KUMIKO_BINARY(binary, absd)
KUMIKO_BINARY(of_floats, pow)
KUMIKO_BINARY(of_floats, atan2)
KUMIKO_BINARY(of_floats, hypot)
#undef KUMIKO_BINARY

#define KUMIKO_UNARY(checked, name)                                                                                    \
    inline Element name(const Element &x) {                                                                            \
        return typed::checked(#name, x, [](const Expr &e) -> Expr { return Halide::name(e); });                        \
    }
KUMIKO_UNARY(of_integer, popcount)
KUMIKO_UNARY(of_integer, count_leading_zeros)
KUMIKO_UNARY(of_integer, count_trailing_zeros)
KUMIKO_UNARY(of_float, acos)
KUMIKO_UNARY(of_float, acosh)
KUMIKO_UNARY(of_float, asin)
KUMIKO_UNARY(of_float, asinh)
KUMIKO_UNARY(of_float, atan)
KUMIKO_UNARY(of_float, atanh)
KUMIKO_UNARY(of_float, cosh)
KUMIKO_UNARY(of_float, sinh)
KUMIKO_UNARY(of_float, tan)
KUMIKO_UNARY(of_float, ceil)
KUMIKO_UNARY(of_float, cos)
KUMIKO_UNARY(of_float, exp)
KUMIKO_UNARY(of_float, floor)
KUMIKO_UNARY(of_float, log)
KUMIKO_UNARY(of_float, round)
KUMIKO_UNARY(of_float, sin)
KUMIKO_UNARY(of_float, sqrt)
KUMIKO_UNARY(of_float, tanh)
KUMIKO_UNARY(of_float, trunc)
#undef KUMIKO_UNARY

inline Element operator-(const Element &x) {
    return typed::unary("-", x, [](const Expr &e) -> Expr { return -e; });
}
inline Element operator~(const Element &x) {
    return typed::unary("~", x, [](const Expr &e) -> Expr { return ~e; });
}
Element operator!(const Element &x);

Element abs(const Element &x); // the result of a signed integer is unsigned
// Tests for NaN, for ±inf, and for neither.
Element is_nan(const Element &x);
Element is_inf(const Element &x);
Element is_finite(const Element &x);

// Compound assignment. The result has one type, as for a + b. A literal as the initial value takes
// the type of what is added: Expr sum = 0; sum += A(0);
#define KUMIKO_ASSIGN(op)                                                                                              \
    template<ElementOperand B>                                                                                         \
    Element &operator op##=(Element &a, const B &b) {                                                                  \
        return a = a op b;                                                                                             \
    }                                                                                                                  \
    inline Expr &operator op##=(Expr &a, const Element &b) { return a = a op b; }
KUMIKO_ASSIGN(+)
KUMIKO_ASSIGN(-)
KUMIKO_ASSIGN(*)
KUMIKO_ASSIGN(/)
#undef KUMIKO_ASSIGN

// Max and min of three or more, of which the first or second is an Element. There is an overload
// per reference kind, so that these are better matches than Halide's.
#define KUMIKO_SEVERAL(name, reference)                                                                                \
    template<typename B, typename C, typename... Rest>                                                                 \
    requires(ElementOperand<std::remove_cvref_t<B>>) Element name(reference a, B &&b, C &&c, Rest &&...rest) {         \
        return name(name(static_cast<const Element &>(a), b), std::forward<C>(c), std::forward<Rest>(rest)...);        \
    }
KUMIKO_SEVERAL(max, Element &)
KUMIKO_SEVERAL(max, const Element &)
KUMIKO_SEVERAL(max, Element &&)
KUMIKO_SEVERAL(min, Element &)
KUMIKO_SEVERAL(min, const Element &)
KUMIKO_SEVERAL(min, Element &&)
#undef KUMIKO_SEVERAL

// Not for a plain Expr, which converts to Element: Halide's overload would be an equally good
// match.
template<std::derived_from<Element> X, typename Low, typename High>
requires(ElementOperand<Low> &&ElementOperand<High>) Element clamp(const X &x, const Low &low, const High &high) {
    return max(min(x, high), low);
}

// Returns the first value whose condition holds, otherwise the last. Literals take the type of the
// other values. Any argument may be the Element.
template<typename C, typename A, typename B>
requires(ElementOperand<C> &&ElementOperand<A> &&ElementOperand<B> &&
         (std::is_same_v<C, Element> || ElementOperands<A, B>)) Element
    select(const C &condition, const A &a, const B &b) {
    return typed::choose({typed::operand(condition), typed::operand(a), typed::operand(b)});
}
template<typename C, typename A, typename D, typename B, typename... Rest>
requires((std::is_same_v<C, Element> || ElementOperands<A, B> || std::is_same_v<D, Element>)&&sizeof...(Rest) % 2 ==
         1) Element select(const C &condition, const A &a, const D &otherwise, const B &b, Rest &&...rest) {
    return typed::choose({typed::operand(condition), typed::operand(a), typed::operand(otherwise), typed::operand(b),
                          typed::operand<std::remove_cvref_t<Rest>>(rest)...});
}

// Interpolates between `zero` and `one`. The weight has their type, or is an unsigned integer whose
// maximum stands for 1.
template<typename A, typename B, typename W>
requires((ElementOperands<A, B> ||
          std::is_same_v<W, Element>)&&ElementOperand<A> &&ElementOperand<B> &&ElementOperand<W>) Element
    lerp(const A &zero, const B &one, const W &weight) {
    return typed::lerp(typed::operand(zero), typed::operand(one), typed::operand(weight));
}

// Constants are folded with run-time semantics (dsl/interpret.h): float to integer saturates. A
// cast of a plain Expr is Halide's, which wraps constants.
Element cast(const Type &type, const Element &x);
template<typename T>
Element cast(const Element &x) {
    return cast(Halide::type_of<T>(), x);
}
template<typename T>
requires(std::is_arithmetic_v<T>) Expr cast(const Type &type, T number) {
    return cast(type, Element(typed::operand(number)));
}
template<typename To, typename T>
requires(std::is_arithmetic_v<T>) Expr cast(T number) { return cast(Halide::type_of<To>(), number); }
Element reinterpret(const Type &type, const Element &x); // to a type of the same width
template<typename T>
Element reinterpret(const Element &x) {
    return reinterpret(Halide::type_of<T>(), x);
}

} // namespace kumiko
