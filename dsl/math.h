// Functions of values beyond those that Halide names. Those re-exported from Halide are in dsl/halide.h.
//
// NaN: max(a, b) is a > b ? a : b and min(a, b) is a < b ? a : b, so that with a NaN on either side the result is b.
// relu(x) is max(x, 0): relu of NaN is 0.
#pragma once

#include "dsl/element.h"

namespace kumiko {

// Of f16, bf16, f32 or f64. Each is one call in the expression. The relative error is bounded over
// the whole domain, also where the result is tiny or subnormal. Bounds on f32 in units in the last
// place of the exact result, in kernels and on the chip:
//
//   sigmoid, erf, erfc, silu, gelu, gelu_tanh, softplus | 4
//   hard_swish                                          | 3
//   rsqrt, expm1, log1p, hard_sigmoid                   | 2
//
// f16 and bf16 are computed in f32 and rounded once: at most 0.51 units of theirs. f64 is within 6
// units by the C library's exp, erfc, expm1 and log1p. docs/functions.md has all functions;
// tests/unit/test_driver_accuracy.cpp compares with values of 200 bits.
//
// expm1 and log1p keep the sign of zero; expm1(−∞) is −1, log1p(−1) is −∞ and below −1 NaN. silu,
// gelu and gelu_tanh of −∞ are −0.
Element sigmoid(const typed::Operand &x); // 1 / (1 + exp(−x))
Element rsqrt(const typed::Operand &x);   // 1 / sqrt(x)
Element erfc(const typed::Operand &x);    // 1 − erf(x)
Element expm1(const typed::Operand &x);   // exp(x) − 1
Element log1p(const typed::Operand &x);   // log(1 + x)

// The error function. The first two overloads win over Halide's polynomial of the same name, which argument-dependent
// lookup also finds; for a const lvalue the compiler asks to write kumiko::erf.
Element erf(const Expr &x);
Element erf(Expr &x);
Element erf(Expr &&x);
Element erf(const Element &x);

Element square(const typed::Operand &x);

Element relu(const typed::Operand &x);
Element relu6(const typed::Operand &x);
template<ElementOperand T>
Element leaky_relu(const typed::Operand &x, const T &slope) { // slope · x where x is not positive
    const Element e(x, x.where());
    return select(e > 0, e, e * typed::operand(slope));
}
Element silu(const typed::Operand &x);      // x · sigmoid(x)
Element gelu(const typed::Operand &x);      // x/2 · (1 + erf(x/√2)), as x/2 · erfc(−x/√2)
Element gelu_tanh(const typed::Operand &x); // x/2 · (1 + tanh(√(2/π)(x + 0.044715x³))), by sigmoid

// Formulas of several operations.
Element softplus(const typed::Operand &x);     // log(1 + exp(x)), as log1p(exp(−|x|)) + max(x, 0)
Element hard_sigmoid(const typed::Operand &x); // clamp(x/6 + 1/2, 0, 1), as clamp(x + 3, 0, 6) / 6
Element hard_swish(const typed::Operand &x);   // x · hard_sigmoid(x)

} // namespace kumiko
