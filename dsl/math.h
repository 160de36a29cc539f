// Math functions beyond those re-exported from Halide (dsl/halide.h).
//
// NaN: max(a, b) is a > b ? a : b and min(a, b) is a < b ? a : b; if either operand is NaN, the
// result is b. relu(x) is max(x, 0), so relu of NaN is 0.
#pragma once

#include "dsl/element.h"

namespace kumiko {

// For f16, bf16, f32 and f64. Each is one call node in the expression. The relative error is
// bounded over the whole domain, including tiny and subnormal results. Error bounds for f32, in ulp
// of the exact result, for kernels and for the chip:
//
//   sigmoid, erf, erfc, silu, gelu, gelu_tanh, softplus | 4
//   hard_swish                                          | 3
//   rsqrt, expm1, log1p, hard_sigmoid                   | 2
//
// f16 and bf16 are computed in f32 and rounded once: at most 0.51 of their ulp. f64 is within 6
// ulp, using exp, erfc, expm1 and log1p of the C library. docs/functions.md lists all functions;
// tests/unit/test_cpu_accuracy.cpp compares with 200-bit values.
//
// expm1 and log1p preserve the sign of zero; expm1(−∞) is −1, log1p(−1) is −∞, and log1p below −1
// is NaN. silu, gelu and gelu_tanh of −∞ are −0.
Element sigmoid(const typed::Operand &x); // 1 / (1 + exp(−x))
Element rsqrt(const typed::Operand &x);   // 1 / sqrt(x)
Element erfc(const typed::Operand &x);    // 1 − erf(x)
Element expm1(const typed::Operand &x);   // exp(x) − 1
Element log1p(const typed::Operand &x);   // log(1 + x)

// The error function. The first two overloads are better matches than Halide's polynomial of the
// same name, which argument-dependent lookup also finds. For a const lvalue the call is ambiguous;
// write kumiko::erf.
Element erf(const Expr &x);
Element erf(Expr &x);
Element erf(Expr &&x);
Element erf(const Element &x);

Element square(const typed::Operand &x); // x · x

Element relu(const typed::Operand &x);  // max(x, 0)
Element relu6(const typed::Operand &x); // min(max(x, 0), 6)
template<ElementOperand T>
Element leaky_relu(const typed::Operand &x, const T &slope) { // slope · x for x <= 0
    const Element e(x, x.where());
    return select(e > 0, e, e * typed::operand(slope));
}
Element silu(const typed::Operand &x);      // x · sigmoid(x)
Element gelu(const typed::Operand &x);      // x/2 · (1 + erf(x/√2)), as x/2 · erfc(−x/√2)
Element gelu_tanh(const typed::Operand &x); // x/2 · (1 + tanh(√(2/π)(x + 0.044715x³))), by sigmoid

// Composed of several operations.
Element softplus(const typed::Operand &x);     // log(1 + exp(x)), as log1p(exp(−|x|)) + max(x, 0)
Element hard_sigmoid(const typed::Operand &x); // clamp(x/6 + 1/2, 0, 1), as clamp(x + 3, 0, 6) / 6
Element hard_swish(const typed::Operand &x);   // x · hard_sigmoid(x)

} // namespace kumiko
