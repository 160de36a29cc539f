// exp, log, erf, expm1, log1p, tanh and sigmoid on f64 lanes, without branches. Special values,
// signs of zero and subnormal results are as in C. tests/unit/test_cpu_math.cpp measures the
// errors.
//
// exp, expm1, tanh and sigmoid: x = n ln 2 + r with ln 2 in two parts (Cody and Waite, "Software
// Manual for the Elementary Functions", 1980), e^r - 1 by a polynomial. log and log1p: the series
// of the inverse hyperbolic tangent, arranged so that its roundings are small beside the leading
// term (P. Tang, "Table-driven implementation of the logarithm function", 1990).
//
// All polynomials are fitted by us for the least greatest error (E. Remez, 1934) in arithmetic of
// 200 bits, then rounded to f64. Each comment states the error before that rounding.
#include "targets/cpu/math_f64.h"
#include "targets/cpu/math_functions.h"

#include <cmath>

namespace kumiko::cpu {

namespace {

// 2^n for n in the last bits of a number that was rounded by rounding_to_integer, times 2^bias. The
// bits of n above the 12th are shifted out.
Lanes power_of_two(Lanes shifted, int bias = 0) {
    return (shifted.bits().shl(52) + shifted.bits().i(uint64_t(1023 + bias) << 52)).floats();
}

// x = n ln 2 + r, |r| <= ln 2 / 2; n is in the last bits of `shifted`.
struct Reduced {
    Lanes r, n, shifted;
};
Reduced reduce(const Mad &mad, Lanes x) {
    const Lanes magic = x.f(rounding_to_integer), shifted = mad(x, x.f(M_LOG2E), magic), n = shifted - magic;
    return {mad(n, x.f(-ln2_low_f64), mad(n, x.f(-ln2_high_f64), x)), n, shifted};
}

// e^r - 1 for |r| <= ln 2 / 2: r + r^2 p(r), relative error 1.8e-17.
Lanes exp_minus_1(const Mad &mad, Lanes r) {
    const Lanes p =
        mad.polynomial(r, {2.5114441283530085e-08, 2.7626327589298256e-07, 2.755722805749551e-06, 2.480150444306079e-05,
                           0.00019841269902912037, 0.0013888888932381493, 0.008333333333314645, 0.041666666666573614,
                           0.16666666666666685, 0.5000000000000006});
    return mad(r * r, p, r);
}

// log(2^exponent (1 + m)), 1 + m in [sqrt(1/2), sqrt(2)). With s = m / (2 + m):
// log(1 + m) = 2 atanh(s) = m - (m^2/2 - s (m^2/2 + s^2 q(s^2))), relative error 1.3e-18.
Lanes log_of_parts(const Mad &mad, Lanes m, Lanes exponent) {
    const Lanes s = m / (m + m.f(2)), z = s * s, half = m * m * m.f(0.5);
    const Lanes q = mad.polynomial(z, {0.14795905155553093, 0.15314055654004363, 0.181835640976788, 0.22222198578217361,
                                       0.28571428742331456, 0.3999999999941497, 0.6666666666666734});
    const Lanes rest = mad(s, mad(z, q, half), exponent * m.f(ln2_low_f64));
    return mad(exponent, m.f(ln2_high_f64), m - (half - rest));
}

// The exponent e of a positive normal number that is 2^e times a number in [sqrt(1/2), sqrt(2)),
// in two forms: e << 52, and e as a number.
struct Exponent {
    Lanes bits, number;
};
constexpr uint64_t root_half_bits = 0x3fe6a09e667f3bcd, one_bits = uint64_t(1023) << 52;
Exponent exponent_of(Lanes bits) {
    // The bias keeps the number positive: not all processors shift 64 bits arithmetically.
    const Lanes biased = bits + bits.i(one_bits - root_half_bits);
    // 2^52 + exponent + 1023
    const Lanes number = (biased.shr(52) | biased.i(0x4330000000000000)).floats();
    return {(biased & biased.i(uint64_t(0xfff) << 52)) - biased.i(one_bits), number - number.f(0x1p52 + 1023)};
}

Lanes exp_f64(const Mad &mad, Lanes x) {
    x = above(smaller(x, 710), -746); // beyond, the result is infinite or 0
    const Reduced reduced = reduce(mad, x);
    // 2^n as a product of two normal numbers, so that the result is rounded once.
    const Lanes half = mad(reduced.n, x.f(0.5), x.f(rounding_to_integer));
    const Lanes rest = ((reduced.shifted.bits() - half.bits()).shl(52) + half.bits().i(one_bits)).floats();
    return (exp_minus_1(mad, reduced.r) + x.f(1)) * power_of_two(half) * rest;
}

Lanes log_f64(const Mad &mad, Lanes x0) {
    const Lanes subnormal = x0 < x0.f(0x1p-1022), x = pick(subnormal, x0 * x0.f(0x1p54), x0);
    const Exponent e = exponent_of(x.bits());
    const Lanes m = (x.bits() - e.bits).floats() - x.f(1);
    const Lanes result = log_of_parts(mad, m, e.number - pick(subnormal, x.f(54), x.f(0)));
    const Lanes usual = pick(x0 > x0.f(0), result, pick(equal(x0, x0.f(0)), x0.f(-INFINITY), x0.f(NAN)));
    return pick(x0 < x0.f(INFINITY), usual, x0 + x0); // infinity and NaN
}

Lanes log1p_f64(const Mad &mad, Lanes x) {
    // 1 + x = 2^e (1 + m): m = 2^-e x + (2^-e - 1). 4 * 2^-e is a normal number for all e.
    const Exponent e = exponent_of((x + x.f(1)).bits());
    const Lanes four = (e.bits.i(uint64_t(1025) << 52) - e.bits).floats();
    const Lanes m = (x.bits() - e.bits).floats() + mad(four, x.f(0.25), x.f(-1));
    const Lanes result = log_of_parts(mad, m, e.number).copysign(x);
    const Lanes usual = pick(x > x.f(-1), result, pick(equal(x, x.f(-1)), x.f(-INFINITY), x.f(NAN)));
    return pick(x < x.f(INFINITY), usual, x + x); // infinity and NaN
}

Lanes expm1_f64(const Mad &mad, Lanes x) {
    const Reduced reduced = reduce(mad, above(smaller(x, 710), -40));
    // 2^n - 1 + 2^n q, halved, so that 2^(n-1) is finite wherever the result is.
    const Lanes scale = power_of_two(reduced.shifted, -1);
    const Lanes half = mad(scale, exp_minus_1(mad, reduced.r), scale - x.f(0.5));
    return pick(x.abs() < x.f(0x1p-60), x, half + half); // halves of subnormal numbers lose a bit
}

// e / (e + 2) of e = e^(2|x|) - 1 = 2^n (e^r - 1) + (2^n - 1). Beyond 22 tanh rounds to 1.
Lanes tanh_f64(const Mad &mad, Lanes x) {
    const Lanes a = smaller(x.abs(), 22);
    const Reduced reduced = reduce(mad, a + a);
    const Lanes scale = power_of_two(reduced.shifted);
    const Lanes e = mad(scale, exp_minus_1(mad, reduced.r), scale - x.f(1));
    return (e / (e + x.f(2))).copysign(x);
}

Lanes erf_f64(const Mad &mad, Lanes x) {
    const Lanes a = x.abs(), z = x * x;
    // Up to 1: x times a polynomial in x^2, relative error 7.1e-18. Its leading coefficient is
    // 1 + (2/sqrt(pi) - 1), so that its rounding does not count.
    const Lanes p = mad.polynomial(z, {-7.801188874097751e-10, 1.3722976265924504e-08, -1.6209175911748696e-07,
                                       1.6447517677871873e-06, -1.4924744663335489e-05, 0.00012055295320494294,
                                       -0.0008548325989696758, 0.005223977607423468, -0.02686617064327622,
                                       0.11283791670945253, -0.3761263890318355, 0.12837916709551256});
    const Lanes small = mad(p, x, x);
    // 1 - 2^q(a - 1), q fitted to log2(erfc(a)) on [1, 6] for the least error of the difference,
    // 3.3e-18. Beyond, erf rounds to 1.
    const Lanes q =
        mad.polynomial(smaller(a, 6) - x.f(1),
                       {9.684268205262105e-13, -2.927314185912233e-11, 4.029818363560487e-10, -3.3342460019447456e-09,
                        1.8211497028945567e-08, -6.546026542690285e-08, 1.2041013562407896e-07, 2.3780725194523918e-07,
                        -3.0082980257905854e-06, 1.3894200593932569e-05, -3.920220222712613e-05, 3.792005343645916e-05,
                        0.0003423810301090929, -0.0028535095804807144, 0.014475750017418992, -0.05995999003117326,
                        -1.2163466576864899, -3.8072253458535985, -2.6684166967815997});
    const Lanes magic = x.f(rounding_to_integer), shifted = q + magic;
    const Lanes e = exp_minus_1(mad, (q - (shifted - magic)) * x.f(M_LN2)), scale = power_of_two(shifted);
    const Lanes large = (x.f(1) - mad(e, scale, scale)).copysign(x);
    return pick(a > x.f(1), large, small); // NaN: small is NaN
}

} // namespace

Lanes scaled_exp_f64(const Mad &mad, Lanes x, const Lanes *low) {
    Reduced reduced = reduce(mad, x);
    if (low) reduced.r = reduced.r + *low;
    return (exp_minus_1(mad, reduced.r) + x.f(1)) * power_of_two(reduced.shifted, 128);
}

// 1 / (1 + e) above zero and e / (1 + e) below, e = e^-|x|.
static Lanes sigmoid_f64(const Mad &mad, Lanes x) {
    const Lanes e = scaled_exp_f64(mad, -smaller(x.abs(), 760), nullptr);
    return pick(x >= x.f(0), x.f(0x1p128), e) / mad(e, x.f(0x1p-128), x.f(1)) * x.f(0x1p-128);
}

Value *MathFunctions::math_f64(const std::string &function, const std::vector<Value *> &args) {
    const Mad mad{has_fma()};
    const Lanes x = lanes_for_math(args[0]);
    if (function == "exp") return exp_f64(mad, x).v;
    if (function == "log") return log_f64(mad, x).v;
    if (function == "expm1") return expm1_f64(mad, x).v;
    if (function == "log1p") return log1p_f64(mad, x).v;
    if (function == "tanh") return tanh_f64(mad, x).v;
    if (function == "sigmoid") return sigmoid_f64(mad, x).v;
    // Both branches of erf, and the long polynomial of erfc, cost more than two calls where a
    // register has two lanes and no instruction multiplies and adds: 12 and 8 ns for 3.5.
    const bool calls = !mad.fused && options_.target.vector_bits <= 128 && (function == "erf" || function == "erfc");
    if (calls) return libm(function, Float(64, lanes(args[0])), args);
    if (function == "erf") return erf_f64(mad, x).v;
    if (const auto v = tail_function(function, args[0])) return *v;
    if (function == "sin" || function == "cos") return trigonometric_f64(function, args[0]);
    return libm(function, Float(64, lanes(args[0])), args);
}

} // namespace kumiko::cpu
