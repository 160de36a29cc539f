// Private to targets/cpu: helpers shared by math_f64.cpp and math_tails.cpp.
#pragma once

#include "targets/cpu/math_lanes.h"

namespace kumiko::cpu {

// Adding it rounds a number below 2^51 to an integer, which is then in the low bits.
constexpr double rounding_to_integer = 0x1.8p52;
// ln 2 = high + low. The product of high and a number of 21 bits is exact.
constexpr double ln2_high_f64 = 0x1.62e42feep-1, ln2_low_f64 = 0x1.a39ef35793c76p-33;

// The minimum and the maximum of x and a bound. NaN stays NaN.
inline Lanes smaller(Lanes x, double bound) { return pick(x > x.f(bound), x.f(bound), x); }
inline Lanes above(Lanes x, double bound) { return pick(x < x.f(bound), x.f(bound), x); }

// 2^128 e^(x + low) for x from -790 to 0, where the result is a normal number. A null `low` is 0.
Lanes scaled_exp_f64(const Mad &mad, Lanes x, const Lanes *low);

} // namespace kumiko::cpu
