// exp, log and functions derived from them on f32 lanes: tanh, sigmoid, erf, pow. Branch-free,
// within 4 units in the last place over the whole range, including subnormal numbers, infinities
// and NaN (tests/unit/test_cpu_math.cpp measures it).
//
// Range reduction and coefficients of log: S. Moshier, Cephes mathematical library, single
// precision (logf.c, 1989-1992). Reduction of exp by ln 2 in two parts: Cody and Waite, "Software
// Manual for the Elementary Functions" (1980). The polynomials of exp, exp below zero, 2^t, e^v -
// 1, erf and 1 + erf are our own fits for the least relative error (3e-9, 9e-8, 1e-7, 1e-8 and
// 2e-9; the last, absolute, 4e-8), by weighted least squares as in Lawson's algorithm (1961). pow
// uses log2 by the series of the inverse hyperbolic tangent and 2^x by its Taylor series, both in
// f64, whose precision suffices. With AVX-512, math_tables.cpp replaces exp and erf.
#include "targets/cpu/math_functions.h"
#include "targets/cpu/math_lanes.h"

#include <cmath>
#include <limits>
#include <vector>

namespace kumiko::cpu {

namespace {

const double infinity = std::numeric_limits<double>::infinity();

// The square of e^(x/2) = 2^n e^(r/2), where n is x / (2 ln 2) rounded to the nearest integer, read
// from the last bits of x / (2 ln 2) + 1.5 * 2^23. So one factor 2^n covers results of all sizes,
// and subnormal ones round once. The bounds keep n in range; beyond them the result is 0 or
// infinite anyway. A NaN passes through both selections.
Lanes exp_f32(const Mad &mad, Lanes x) {
    x = pick(x > x.f(89.0), x.f(89.0), x);
    x = pick(x < x.f(-104.0), x.f(-104.0), x);
    Lanes magic = x.f(12582912.0);
    Lanes shifted = mad(x, x.f(0.5 * M_LOG2E), magic);
    Lanes n = shifted - magic;
    Lanes r = mad(n, n.f(-2 * 0.693359375), x);
    r = mad(n, n.f(2 * 2.12194440e-4), r); // |r| <= ln 2
    Lanes p = mad.polynomial(
        r, {2.15851972243e-5, 2.61523341652e-4, 2.60427444431e-3, 2.08331504763e-2, 1.24999983576e-1, 0.5, 1});
    Lanes bits = shifted.bits();
    // The bits above n are shifted out.
    Lanes root = p * (bits.shl(23) + bits.i(0x3f800000)).floats();
    return root * root;
}

// e^x for x <= 60: 2^(n + 32) is never subnormal, so one factor is enough, and the polynomial
// contains the 2^-32.
Lanes exp_nonpositive_f32(const Mad &mad, Lanes x) {
    x = pick(x < x.f(-104.0), x.f(-104.0), x);
    Lanes magic = x.f(12582912.0);
    Lanes shifted = mad(x, x.f(M_LOG2E), magic);
    Lanes n = shifted - magic;
    Lanes r = mad(n, n.f(-0.693359375), x);
    r = mad(n, n.f(2.12194440e-4), r); // |r| <= ln 2 / 2
    const double small = std::ldexp(1.0, -32);
    Lanes p = mad.polynomial(r, {8.2902720657e-3 * small, 4.1898159641e-2 * small, 1.6667638128e-1 * small,
                                 4.9999147841e-1 * small, 9.9999970631e-1 * small, small});
    return p * (shifted.bits().shl(23) + shifted.bits().i(uint64_t(127 + 32) << 23)).floats();
}

Lanes log_f32(const Mad &mad, Lanes x0) {
    Lanes subnormal = x0 < x0.f(1.17549435e-38);
    Lanes x = pick(subnormal, x0 * x0.f(8388608.0), x0);
    // x = 2^e * m with m in [sqrt(1/2), sqrt(2)).
    Lanes bits = x.bits();
    Lanes offset = bits - bits.i(0x3f3504f3);
    Lanes e = offset.sar(23);
    Lanes m = (bits - e.shl(23)).floats();
    Lanes exponent = x.with(x.ir->CreateSIToFP(e.v, x.type()));
    exponent = exponent - pick(subnormal, x.f(23), x.f(0));
    Lanes t = m - m.f(1);
    Lanes z = t * t;
    Lanes p = mad.polynomial(t, {7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
                                 -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1});
    p = p * t * z;
    p = mad(exponent, exponent.f(-2.12194440e-4), p);
    p = mad(z, z.f(-0.5), p);
    Lanes result = mad(exponent, exponent.f(0.693359375), t + p);
    result = pick(equal(x0, x0.f(0)), x0.f(-infinity), result);
    result = pick(x0 < x0.f(0), x0.f(std::numeric_limits<double>::quiet_NaN()), result);
    return pick(x0 < x0.f(infinity), result, pick(equal(x0, x0.f(infinity)), x0, x0 + x0));
}

// 2^t within 1.1e-7 of it, for |t| up to 126.
Lanes exp2_f32(const Mad &mad, Lanes t) {
    Lanes magic = t.f(12582912.0);
    Lanes shifted = t + magic; // the integer nearest to t in its last bits
    Lanes f = t - (shifted - magic);
    Lanes p = mad.polynomial(
        f, {1.32647270654e-03, 9.67151264893e-03, 5.55073374369e-02, 2.40222420852e-01, 6.93146977599e-01, 1});
    return p * (shifted.bits().shl(23) + shifted.bits().i(0x3f800000)).floats();
}

// With a = |x| and v = 2a - n ln 2 up to ln 2 / 2: e^(2a) - 1 = 2^n e^v - 1 = 2^n (e^v - 1) + (2^n
// - 1), and tanh is a quotient of it. n ln 2 is one part; its error decreases with 2^-n. A NaN
// passes through the bound, beyond which tanh rounds to 1.
Lanes tanh_f32(const Mad &mad, Lanes x) {
    Lanes a = x.abs();
    a = pick(a > a.f(10.0), a.f(10.0), a);
    Lanes magic = x.f(12582912.0);
    Lanes shifted = mad(a, x.f(2 * M_LOG2E), magic);
    Lanes h = mad(shifted - magic, x.f(-0.5 * M_LN2), a); // v / 2
    Lanes p = mad.polynomial(h, {8.88479675355e-2, 2.67732701917e-1, 6.66675263298e-1, 1.33332341464, 1.99999992531});
    Lanes q = mad(h * h, p, h + h);
    Lanes scale = (shifted.bits().shl(23) + shifted.bits().i(0x3f800000)).floats();
    Lanes e = mad(scale, q, scale - x.f(1));
    return (e / (e + x.f(2))).copysign(x);
}

// With e = exp(-|x|): 1 / (1 + e) above zero and e / (1 + e) below; neither overflows or cancels.
Lanes sigmoid_f32(Lanes x, Lanes e) { return pick(x >= x.f(0), x.f(1), e) / (x.f(1) + e); }

Lanes erf_f32(const Mad &mad, Lanes x) {
    Lanes a = x.abs(), z = x * x;
    // Up to 1: x times a polynomial in x^2 with the leading coefficient 1 + (2/sqrt(pi) - 1), so
    // that the coefficient's rounding has no effect.
    Lanes p = mad.polynomial(z, {7.89871910508e-5, -8.02482582458e-4, 5.19016329041e-3, -2.68549164741e-2,
                                 1.12836173762e-1, -3.76126298208e-1, 2 / std::sqrt(M_PI) - 1});
    Lanes small = mad(p, x, x);
    // Above 1: 1 - 2^(p(a) / ln 2), with p fitted to log(erfc(a)) on [1, 4] within 2^-29; beyond,
    // erf rounds to 1.
    Lanes bounded = pick(a > a.f(4.0), a.f(4.0), a);
    Lanes q = mad.polynomial(bounded, {M_LOG2E * 1.8638016219e-4, M_LOG2E * -2.9476675334e-3, M_LOG2E * 2.1838099809e-2,
                                       M_LOG2E * -1.0310682709e-1, M_LOG2E * -6.3814475181e-1, M_LOG2E * -1.1270892375,
                                       M_LOG2E * -3.4151170961e-4});
    Lanes large = (x.f(1) - exp2_f32(mad, q)).copysign(x);
    return pick(a >= a.f(1.0), large, small); // NaN: small is NaN
}

// 1 + erf(x) = erfc(-x) = 2^q(a) for a = -x in [0, 4], with q fitted to log2(erfc) so that the
// largest error of 2^q is 4e-8; 2 - 2^q above zero. Below -4 the sum rounds to 0.
Lanes one_plus_erf_f32(const Mad &mad, Lanes x) {
    Lanes a = x.abs();
    a = pick(a > a.f(4.0), a.f(4.0), a);
    Lanes q = mad.polynomial(a, {3.929480782e-6, -6.792597879e-5, 4.661456248e-4, -1.379877759e-3, -1.086753517e-3,
                                 2.858128174e-2, -1.48638937e-1, -9.183840157e-1, -1.627910668});
    Lanes v = exp2_f32(mad, q * a);
    Lanes sum = pick(x >= x.f(0), x.f(2) - v, v);
    return pick(-x >= x.f(4.0), x.f(0), sum);
}

// x^y = 2^(y log2 |x|) in f64, then C's rules for signs and special values.
Lanes pow_f32(const Mad &mad, Lanes x, Lanes y) {
    Lanes ax = x.abs(), ay = y.abs();
    Lanes d = ax.to_double();
    // d = 2^e * m, m in [sqrt(1/2), sqrt(2)); f64 has no subnormal numbers here.
    Lanes bits = d.bits();
    Lanes offset = bits - bits.i(0x3fe6a09e667f3bcdull);
    Lanes e = offset.sar(52);
    Lanes m = (bits - e.shl(52)).floats();
    // log2(m) = 2/ln 2 * atanh(s), s = (m-1)/(m+1), |s| < 0.172.
    Lanes s = (m - m.f(1)) / (m + m.f(1));
    Lanes s2 = s * s;
    Lanes series = mad.polynomial(s2, {1. / 17, 1. / 15, 1. / 13, 1. / 11, 1. / 9, 1. / 7, 1. / 5, 1. / 3, 1});
    // The exponent as a float, through its last bits: 1.5 * 2^52 + e.
    Lanes magic = d.f(6755399441055744.0);
    Lanes exponent = (e + magic.bits()).floats() - magic;
    Lanes log2 = mad(s * s.f(2 * M_LOG2E), series, exponent);
    Lanes t = y.to_double() * log2;
    t = pick(t > t.f(200), t.f(200), t);
    t = pick(t < t.f(-200), t.f(-200), t);
    Lanes shifted = t + magic;
    Lanes r = (t - (shifted - magic)) * t.f(M_LN2); // |r| <= 0.347
    Lanes p = mad.polynomial(
        r, {1. / 3628800, 1. / 362880, 1. / 40320, 1. / 5040, 1. / 720, 1. / 120, 1. / 24, 1. / 6, 0.5, 1, 1});
    Lanes n = shifted.bits() - magic.bits();
    Lanes result = (p * (n + n.i(1023)).shl(52).floats()).to_float();

    Lanes zero = x.f(0), one = x.f(1), inf = x.f(infinity);
    // |y| >= 2^24 is an even integer; below, halves tell odd from even.
    Lanes is_integer = equal(ay.floor(), ay);
    Lanes half = ay * ay.f(0.5);
    Lanes is_odd = is_integer & unequal(half.floor(), half);
    // Zero and infinite magnitudes, which the logarithm cannot express.
    Lanes grows = (ax > one); // as y goes up
    Lanes y_negative = y < zero;
    Lanes extreme = equal(ax, zero) | equal(ax, inf) | equal(ay, inf);
    Lanes limit = pick(grows ^ y_negative, inf, zero);
    limit = pick(equal(ax, one), one, limit);
    result = pick(extreme, limit, result);
    // Negative bases.
    Lanes sign_set = x.with(x.ir->CreateICmpSLT(x.bits().v, x.bits().i(0).v));
    result = pick(sign_set & is_odd, -result, result);
    Lanes finite_negative = (x < zero) & (ax < inf);
    Lanes nan = x.f(std::numeric_limits<double>::quiet_NaN());
    result = pick(finite_negative & x.with(x.ir->CreateNot(is_integer.v)), nan, result);
    Lanes either_nan = x.with(x.ir->CreateFCmpUNO(x.v, y.v));
    result = pick(either_nan, nan, result);
    return pick(equal(y, zero) | equal(x, one), one, result);
}

} // namespace

Lanes MathFunctions::lanes_for_math(Value *v) {
    return {&ir_, v, options_.target.vector_registers() < 32 ? options_.target.vector_bits : 0};
}

Value *MathFunctions::math_f32(const std::string &function, const std::vector<Value *> &args) {
    Mad mad{has_fma()};
    const Lanes x = lanes_for_math(args[0]);
    const bool tables = has_lane_tables();
    const auto exp_nonpositive = [&](Lanes x) {
        return tables ? x.with(exp_by_table(x.v, true)) : exp_nonpositive_f32(mad, x);
    };
    if (const auto v = tail_function(function, args[0])) return *v;
    if (function == "exp") {
        return tables ? exp_by_table(args[0], false) : exp_f32(mad, x).v;
    } else if (function == "exp_nonpositive") {
        return exp_nonpositive(x).v;
    } else if (function == "log") {
        return log_f32(mad, x).v;
    } else if (function == "tanh") {
        return tanh_f32(mad, x).v;
    } else if (function == "sigmoid") {
        return sigmoid_f32(x, exp_nonpositive(-x.abs())).v;
    } else if (function == "erf" && tables) {
        return erf_by_table(args[0]);
    } else if (function == "one_plus_erf" && tables) {
        return (x.f(1) + x.with(erf_by_table(args[0]))).v;
    } else if (function == "erf") {
        return erf_f32(mad, x).v;
    } else if (function == "one_plus_erf") {
        return one_plus_erf_f32(mad, x).v;
    } else if (function == "pow") {
        return pow_f32(mad, x, lanes_for_math(args[1])).v;
    } else if (function == "sin") {
        return trigonometric(Trigonometric::Sine, args[0]);
    } else if (function == "cos") {
        return trigonometric(Trigonometric::Cosine, args[0]);
    } else if (function == "tan") {
        return trigonometric(Trigonometric::Tangent, args[0]);
    }
    if (Value *v = arc_function(function, args)) return v;
    return libm(function, Float(32, lanes(args[0])), args);
}

} // namespace kumiko::cpu
