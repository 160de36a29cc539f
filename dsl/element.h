// Values of a formula. An Element is an expression that came from a tensor, or was made from one: its operators and functions
// demand equal types on both sides, so that the type of the arithmetic is stated and nothing converts silently. Numbers adapt:
//
//   A(i) * 2          // of whatever type A has
//   A(i) + B(i)       // UserError when the types differ; cast(f32, A(i)) + B(i) states one
//
// A number that the type cannot hold (1000 for u8, 0.5 for i32) is a UserError. So is what the operation does not take: ! of a
// float, exp of an integer.
#pragma once

#include "dsl/halide.h"

#include <concepts>
#include <type_traits>
#include <utility>

namespace kumiko {

class Element : public Expr {
public:
    explicit Element(const Expr &e) : Expr(e) {}
};

template<typename T>
concept ElementOperand = std::is_arithmetic_v<T> || std::is_convertible_v<const T &, Expr>;
template<typename A, typename B>
concept ElementOperands = (std::is_same_v<A, Element> ||
                           std::is_same_v<B, Element>)&&ElementOperand<A> &&ElementOperand<B>;

// Throws UserError that names both types where they differ; numbers adapt.
void require_same_type(const Expr &a, const Expr &b, const char *operation);

namespace typed {

// As an expression; numbers as constants of 64 bits, which adapt.
template<ElementOperand T>
Expr operand(const T &value) {
    if constexpr (std::is_floating_point_v<T>)
        return Halide::Internal::make_const(Halide::Float(64), static_cast<double>(value));
    else if constexpr (std::is_same_v<T, bool>)
        return Halide::Internal::make_const(Halide::Bool(), value);
    else if constexpr (std::is_unsigned_v<T>)
        return Halide::Internal::make_const(Halide::UInt(64), static_cast<uint64_t>(value));
    else if constexpr (std::is_integral_v<T>)
        return Halide::Internal::make_const(Halide::Int(64), static_cast<int64_t>(value));
    else
        return value;
}

using Unary = Expr (*)(const Expr &);
using Binary = Expr (*)(const Expr &, const Expr &);
Element binary(const char *operation, const Expr &a, const Expr &b, Binary f); // of one type
Element logical(const char *operation, const Expr &a, const Expr &b, Binary f);
Element unary(const char *operation, const Expr &x, Unary f);
Element of_float(const char *operation, const Expr &x, Unary f); // bf16 through f32, rounded once
Element choose(const Expr &condition, const Expr &a, const Expr &b);

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

#define KUMIKO_BINARY(name)                                                                                            \
    template<typename A, typename B>                                                                                   \
    requires(ElementOperands<A, B>) Element name(const A &a, const B &b) {                                             \
        return typed::binary(#name, typed::operand(a), typed::operand(b),                                              \
                             [](const Expr &x, const Expr &y) -> Expr { return Halide::name(x, y); });                 \
    }
KUMIKO_BINARY(max)
KUMIKO_BINARY(min)
KUMIKO_BINARY(pow)
#undef KUMIKO_BINARY

#define KUMIKO_UNARY(checked, name)                                                                                    \
    inline Element name(const Element &x) {                                                                            \
        return typed::checked(#name, x, [](const Expr &e) -> Expr { return Halide::name(e); });                        \
    }
KUMIKO_UNARY(unary, abs)
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

// max and min of three and more; select of conditions in turn.
template<typename A, typename B, typename C, typename... Rest>
requires(ElementOperands<A, B>) Element max(const A &a, const B &b, const C &c, const Rest &...rest) {
    return max(max(a, b), c, rest...);
}
template<typename A, typename B, typename C, typename... Rest>
requires(ElementOperands<A, B>) Element min(const A &a, const B &b, const C &c, const Rest &...rest) {
    return min(min(a, b), c, rest...);
}
template<typename Low, typename High>
requires(ElementOperand<Low> &&ElementOperand<High>) Element clamp(const Element &x, const Low &low, const High &high) {
    return max(min(x, high), low);
}
template<typename A, typename B>
requires(ElementOperands<A, B>) Element select(const Expr &condition, const A &a, const B &b) {
    return typed::choose(condition, typed::operand(a), typed::operand(b));
}
template<typename A, typename B>
requires(std::is_convertible_v<const A &, Expr> &&std::is_convertible_v<const B &, Expr> &&
         !ElementOperands<A, B>) Element select(const Element &condition, const A &a, const B &b) {
    return typed::choose(condition, a, b);
}
template<typename C, typename A, typename D, typename B, typename... Rest>
requires((std::is_same_v<C, Element> || ElementOperands<A, B> || std::is_same_v<D, Element>)&&sizeof...(Rest) % 2 ==
         1) Element select(const C &condition, const A &a, const D &otherwise, const B &b, Rest &&...rest) {
    return Element(select(condition, a, select(otherwise, b, std::forward<Rest>(rest)...)));
}

inline Element cast(const Type &type, const Element &x) { return Element(Halide::cast(type, x)); }
template<typename T>
Element cast(const Element &x) {
    return Element(Halide::cast<T>(x));
}
inline Element reinterpret(const Type &type, const Element &x) { return Element(Halide::reinterpret(type, x)); }
template<typename T>
Element reinterpret(const Element &x) {
    return Element(Halide::reinterpret<T>(x));
}

} // namespace kumiko
