// Functions of values beyond those that Halide names. Those re-exported from Halide are in dsl/halide.h.
//
// NaN: max(a, b) is a > b ? a : b and min(a, b) is a < b ? a : b, so that with a NaN on either side the result is b.
// relu(x) is max(x, 0): relu of NaN is 0.
#pragma once

#include "dsl/halide.h"

namespace kumiko {

// Of f16, bf16, f32 or f64. Each is one call in the expression, which targets evaluate within 4 ulp in float32.
Expr sigmoid(const Expr &x); // 1 / (1 + exp(−x))
Expr rsqrt(const Expr &x);   // 1 / sqrt(x)

// The error function. The first two overloads win over Halide's polynomial of the same name, which argument-dependent
// lookup also finds; for a const lvalue the compiler asks to write kumiko::erf.
Expr erf(const Expr &x);
Expr erf(Expr &x);
Expr erf(Expr &&x);

Expr square(const Expr &x);

Expr relu(const Expr &x);
Expr relu6(const Expr &x);
Expr leaky_relu(const Expr &x, const Expr &slope);
Expr silu(const Expr &x);         // x · sigmoid(x)
Expr gelu(const Expr &x);         // x/2 · (1 + erf(x/√2))
Expr gelu_tanh(const Expr &x);    // x/2 · (1 + tanh(√(2/π)(x + 0.044715x³)))
Expr softplus(const Expr &x);     // log(1 + exp(x)), without overflow
Expr hard_sigmoid(const Expr &x); // clamp(x/6 + 1/2, 0, 1)
Expr hard_swish(const Expr &x);   // x · hard_sigmoid(x)

} // namespace kumiko
