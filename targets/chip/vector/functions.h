// fp32 functions made of the chip's operations. Each is a formula that VectorBuilder records. None
// branches; special values are as in IEEE 754.
//
// exp: e^x is the square of e^(x/2) = 2^n e^(r/2), |r| <= ln 2, with ln 2 in two parts (W. Cody, W.
// Waite, "Software Manual for the Elementary Functions", 1980); the fraction's last bits of x / (2
// ln 2) + 1.5 · 2^23 are n. tanh and erf go through e^x − 1, which keeps its relative precision
// near 0: tanh |x| = E / (E + 2) with E = e^2|x| − 1, erf |x| = −(e^−p(|x|) − 1) with p fitted to
// −ln erfc. log: x = 2^e m with m in [√½, √2), and ln m = f − f²/2 + f³ p(f), f = m − 1. Square
// roots, their inverses and quotients begin with the machine's seed of 1/sqrt, good to 2^-7, go on
// by Newton's steps, and end with a correction by the remainder, which fused products make exact
// (P. Markstein, "IA-64 and Elementary Functions", 2000). silu, gelu, gelu_tanh, erfc, expm1 and
// log1p follow targets/cpu/math_tails.cpp, in an order that needs few registers. The rounding error
// of an argument of exp is added to the factor of exp. exp is scaled by 2^32, so that a subnormal
// result is rounded once.
//
// Polynomials are our own fits for the least maximum relative error of the function, by least
// squares at Chebyshev points with weights after Lawson (1961). Errors: exp, tanh, erf, erfc,
// sigmoid, silu, gelu, gelu_tanh, log and rsqrt within 4 units in the last place of fp32, expm1 and
// log1p within 2; sqrt is correctly rounded; so are quotients if dividend and quotient are not
// close to the limits of fp32's range.
#pragma once

#include "targets/chip/vector/program.h"

namespace kumiko::chip {

Id exp(VectorBuilder &b, Id x);
Id log(VectorBuilder &b, Id x);
Id tanh(VectorBuilder &b, Id x);
Id erf(VectorBuilder &b, Id x);
Id erfc(VectorBuilder &b, Id x);
Id expm1(VectorBuilder &b, Id x);
Id log1p(VectorBuilder &b, Id x);
Id sigmoid(VectorBuilder &b, Id x); // 1 / (1 + e^−x)
Id silu(VectorBuilder &b, Id x);
Id gelu(VectorBuilder &b, Id x);
Id gelu_tanh(VectorBuilder &b, Id x);
Id rsqrt(VectorBuilder &b, Id x);
Id sqrt(VectorBuilder &b, Id x);
Id divide(VectorBuilder &b, Id a, Id d);
// Rounded to an integer; numbers without bits below one half are returned unchanged.
enum class Rounding { Nearest, Down, Up, Zero };
Id rounded(VectorBuilder &b, Id x, Rounding how);

} // namespace kumiko::chip
