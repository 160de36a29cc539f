// Functions of values beyond those that Halide names. Those re-exported from Halide are in dsl/halide.h.
//
// NaN: max(a, b) is a > b ? a : b and min(a, b) is a < b ? a : b, so that with a NaN on either side the result is b.
// relu(x) is max(x, 0): relu of NaN is 0.
#pragma once

#include "dsl/element.h"

namespace kumiko {

// Of f16, bf16, f32 or f64. Each is one call in the expression, which targets evaluate within 4 ulp in float32.
Element sigmoid(const Expr &x); // 1 / (1 + exp(−x))
Element rsqrt(const Expr &x);   // 1 / sqrt(x)

// The error function. The first two overloads win over Halide's polynomial of the same name, which argument-dependent
// lookup also finds; for a const lvalue the compiler asks to write kumiko::erf.
Element erf(const Expr &x);
Element erf(Expr &x);
Element erf(Expr &&x);
Element erf(const Element &x);

Element square(const Expr &x);

Element relu(const Expr &x);
Element relu6(const Expr &x);
template<ElementOperand T>
Element leaky_relu(const Expr &x, const T &slope) { // slope · x where x is not positive
    const Element e(x);
    return select(e > 0, e, e * typed::operand(slope));
}
Element silu(const Expr &x);         // x · sigmoid(x)
Element gelu(const Expr &x);         // x/2 · (1 + erf(x/√2))
Element gelu_tanh(const Expr &x);    // x/2 · (1 + tanh(√(2/π)(x + 0.044715x³)))
Element softplus(const Expr &x);     // log(1 + exp(x)), without overflow
Element hard_sigmoid(const Expr &x); // clamp(x/6 + 1/2, 0, 1)
Element hard_swish(const Expr &x);   // x · hard_sigmoid(x)

} // namespace kumiko
