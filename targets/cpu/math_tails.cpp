// Functions whose result is tiny where their usual formula subtracts numbers that are nearly equal:
// expm1, log1p, erfc, sinh, silu, gelu and gelu_tanh, on f32 lanes; erfc and the last three on f64
// lanes too (expm1 and log1p of f64 are in math_f64.cpp); and cosh on f32 lanes, which shares
// sinh's exponential.
// Their relative error is bounded everywhere, subnormal results included
// (tests/unit/test_cpu_accuracy.cpp measures it).
//
// Three means. (1) The tails are a product of exp and of a factor without cancellation: Φ(-a) =
// e^(-a²/2) m(a), m a polynomial in 1 / (1 + c a), as in C. Hastings, "Approximations for Digital
// Computers" (1955), about the middle of its range. (2) An argument of exp that is a rounded
// product would lose |x²| units in the last place. The part that the product rounds off is added to
// the reduced argument (T. J. Dekker, "A floating-point technique for extending the available
// precision", 1971). (3) exp is scaled by 2^32, so that a subnormal result is rounded once, after
// all products.
//
// log1p: reduction as in log, applied to x and not to 1 + x, which has lost the last bits of x.
// expm1: the reduction of Cody and Waite. The polynomials are fitted by us, by weighted least
// squares as in Lawson's algorithm (1961).
#include "targets/cpu/math_f64.h"
#include "targets/cpu/math_functions.h"
#include "targets/cpu/math_lanes.h"

#include <cmath>
#include <limits>
#include <vector>

namespace kumiko::cpu {

namespace {

constexpr double unscale = 0x1p-32;
constexpr double ln2_high = 0.693359375, ln2_low = -2.12194440e-4;

// Coefficients of the tails, highest power first. Each was rounded to f32 before those of higher
// powers were fitted; those of f64 at the end, which are fitted as in math_f64.cpp.
// Φ(-a) = e^(-a²/2) w p(w - 19/32) with w = 1 / (1 + a/4), within 1.2e-8 for a from 0 to 14.7.
constexpr double normal_center = 19.0 / 32;
constexpr std::initializer_list<double> normal_tail = {0.0174395423, 0.0259280708, -0.0364875272, -0.085244596,
                                                       0.0200366732, 0.261062354,  0.467886209,   0.505221009,
                                                       0.387189597,  0.221045449};
// erfc(a) = e^(-a²) w p(w - 39/64) with w = 1 / (1 + a/2), within 2.3e-8 for a from 0 to 10.2.
constexpr double erfc_center = 39.0 / 64;
constexpr std::initializer_list<double> erfc_tail = {0.0112773972, -0.0562889688, -0.0074063139, 0.111711033,
                                                     -0.032150466, -0.209396243,  0.0608903989,  0.593292236,
                                                     0.813695848,  0.592800796};

// The same for f64, within 2.1e-17 for a from 0 to 39.5.
constexpr double normal_center_f64 = 17.0 / 32;
constexpr std::initializer_list<double> normal_tail_f64 = {
    -0.001269554776664361, -0.0006786331667860956, 0.003681055598468047,  0.00026041671011463937, -0.005607770285959255,
    0.002069060140271058,  0.006254924677804065,   -0.005658210664180255, -0.0058868239527998835, 0.010229768798117897,
    0.005322158814752855,  -0.01683468190112421,   -0.006524004350745361, 0.02847403728358153,    0.016742180140884015,
    -0.049020170668208525, -0.06678197085073048,   0.04883033762288788,   0.2501409225248944,     0.40379537390730286,
    0.42354337365257255,   0.32926707790081666,    0.19870934803241416};
// erfc(a) = e^(-a²) w p(w - 9/16) with w = 1 / (1 + a/4), within 3.3e-18 for a from 0 to 27.5.
constexpr double erfc_center_f64 = 9.0 / 16;
constexpr std::initializer_list<double> erfc_tail_f64 = {
    0.001073246608999569, 0.001667342880514451,  -0.002815689117593404, -0.00482029162889164,  0.004908550289403771,
    0.010386708998483693, -0.006662834761858731, -0.022646523743445945, 0.0025688341010581513, 0.048924147476611016,
    0.032839762085012734, -0.08013983976636488,  -0.17674025630693477,  -0.05604096336182628,  0.3872988810725815,
    1.040617372354659,    1.6343937744524863,    1.9249846801161847,    1.8376724945457683,    1.4733766496526712,
    1.0107421500723877,   0.5990076675876481,    0.3078220955665328};

bool is_f64(Lanes x) { return x.type()->getScalarType()->isDoubleTy(); }

// The leading half of the bits, so that the product of two such numbers is exact.
Lanes leading(Lanes x) { return (x.bits() & x.bits().i(is_f64(x) ? ~uint64_t(0x7ffffff) : 0xfffff000)).floats(); }

// a b - p, where p is a b rounded.
Lanes product_rest(const Mad &mad, Lanes a, Lanes b, Lanes p) {
    if (mad.fused) return mad(a, b, -p);
    const Lanes ah = leading(a), al = a - ah, bh = leading(b), bl = b - bh;
    return ((ah * bh - p) + ah * bl + al * bh) + al * bl;
}

// a² as a sum: about its rounded value, and the rest.
Lanes square(const Mad &mad, Lanes a, Lanes *rest) {
    if (mad.fused || is_f64(a)) {
        const Lanes s = a * a;
        *rest = product_rest(mad, a, a, s);
        return s;
    }
    const Lanes high = leading(a);
    *rest = (a - high) * (a + high);
    return high * high;
}

// 2^32 e^(x + low) of x from -110 to 0 by a polynomial, within 1.1 units in the last place.
Lanes scaled_exp_f32(const Mad &mad, Lanes x, const Lanes *low) {
    const Lanes magic = x.f(12582912.0);
    const Lanes shifted = mad(low && !mad.fused ? x + *low : x, x.f(M_LOG2E), magic), n = shifted - magic;
    Lanes r = mad(n, x.f(-ln2_high), x);
    r = mad(n, x.f(-ln2_low), r);
    if (low) r = r + *low; // |r| <= ln 2 / 2
    const Lanes p =
        mad.polynomial(r, {0.0013835803484, 0.0083756458629, 0.041668288748, 0.16666410234, 0.49999991594, 1, 1});
    return p * (shifted.bits().shl(23) + shifted.bits().i(uint64_t(127 + 32) << 23)).floats();
}

// 2^k e^(x + low) with k = 32 for f32 and 128 for f64: a normal number where the results are not 0.
Lanes scaled_exp(const Mad &mad, Lanes x, const Lanes *low) {
    return is_f64(x) ? scaled_exp_f64(mad, x, low) : scaled_exp_f32(mad, x, low);
}
double unscale_of(Lanes x) { return is_f64(x) ? 0x1p-128 : unscale; }

Lanes erfc(const Mad &mad, Lanes x) {
    const bool wide = is_f64(x);
    const Lanes a = smaller(x.abs(), wide ? 27.5 : 10.2), negative = x < x.f(0), one = x.f(1);
    Lanes square_rest;
    const Lanes s = square(mad, a, &square_rest), low = -square_rest;
    // w = 1 / d, with its rounding error, because erfc changes more than twice as fast as w near 0.
    const Lanes part = a * a.f(wide ? 0.25 : 0.5), d = part + one, d_rest = part - (d - one);
    const Lanes w = one / d, dw = d * w;
    const Lanes w_rest = w * (((one - dw) - product_rest(mad, d, w, dw)) - d_rest * w);
    const Lanes t = (w - w.f(wide ? erfc_center_f64 : erfc_center)) + w_rest;
    const Lanes p = mad.polynomial(t, wide ? erfc_tail_f64 : erfc_tail);
    const Lanes tail = mad(p, w_rest, p * w) * scaled_exp(mad, -s, &low);
    return mad(pick(negative, -tail, tail), tail.f(unscale_of(x)), pick(negative, x.f(2), x.f(0)));
}

Lanes expm1_f32(const Mad &mad, Lanes x) {
    const Lanes bounded = above(smaller(x, 89), -20), magic = x.f(12582912.0);
    const Lanes shifted = mad(bounded, x.f(M_LOG2E), magic), n = shifted - magic;
    Lanes r = mad(n, x.f(-ln2_high), bounded);
    r = mad(n, x.f(-ln2_low), r); // |r| <= ln 2 / 2
    const Lanes p = mad.polynomial(r, {0.0013882397125, 0.0083671816847, 0.041667221277, 0.16666538676, 0.49999998042});
    const Lanes q = mad(r * r, p, r);
    // 2^n - 1 + 2^n q, halved, so that 2^(n-1) is finite wherever the result is.
    const Lanes scale = (shifted.bits().shl(23) + shifted.bits().i(uint64_t(126) << 23)).floats();
    const Lanes half = mad(scale, q, scale - x.f(0.5));
    return pick(x.abs() < x.f(0x1p-30), x, half + half); // halves of subnormal numbers lose a bit
}

Lanes log1p_f32(const Mad &mad, Lanes x) {
    // 1 + x = 2^e (1 + m) with 1 + m in [sqrt(1/2), sqrt(2)): m = 2^-e x + (2^-e - 1). 4 * 2^-e is
    // a normal number for all e.
    const Lanes bits = (x + x.f(1)).bits(), e = (bits - bits.i(0x3f3504f3)).sar(23), exponent_bits = e.shl(23);
    const Lanes four = (bits.i(0x40800000) - exponent_bits).floats();
    const Lanes m = (x.bits() - exponent_bits).floats() + mad(four, x.f(0.25), x.f(-1));
    const Lanes exponent = x.with(x.ir->CreateSIToFP(e.v, x.type())), z = m * m;
    Lanes p = mad.polynomial(m, {7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
                                 -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1});
    p = p * m * z;
    p = mad(exponent, exponent.f(ln2_low), p);
    p = mad(z, z.f(-0.5), p);
    Lanes result = mad(exponent, exponent.f(ln2_high), m + p).copysign(x);
    result = pick(x > x.f(-1), result,
                  pick(equal(x, x.f(-1)), x.f(-INFINITY), x.f(std::numeric_limits<double>::quiet_NaN())));
    return pick(x < x.f(INFINITY), result, x); // infinity and NaN
}

// (e^a ± e^-a) / 2 with a = |x|, by e^-a: where the result is finite, e^-a is a normal number after
// scaling, whereas e^a may overflow.
Lanes cosh_f32(const Mad &mad, Lanes x) {
    const Lanes e = scaled_exp_f32(mad, -smaller(x.abs(), 91), nullptr);
    return mad(e, e.f(0.5 * unscale), e.f(0.5 / unscale) / e);
}
// Up to 1: x + x z p(z) with z = x^2, relative error 2.4e-8.
Lanes sinh_f32(const Mad &mad, Lanes x) {
    const Lanes a = smaller(x.abs(), 91), e = scaled_exp_f32(mad, -a, nullptr), z = x * x;
    const Lanes large = mad(e, e.f(-0.5 * unscale), e.f(0.5 / unscale) / e).copysign(x);
    const Lanes p = mad.polynomial(z, {0.000203730364, 0.00833027251, 0.166667163});
    return pick(a > a.f(1), large, mad(p * z, x, x));
}

// A constant as the sum of one of few bits, or of the lanes' type, and the rest.
struct Parts {
    double high, low;
};
Parts parts(long double c, bool single) {
    const double high = single ? double(float(c)) : double(c);
    return {high, double(c - static_cast<long double>(high))};
}

} // namespace

// x sigmoid(|z|) for x >= 0, x sigmoid(-|z|) below, where a = |x| up to a bound from which the
// results do not change, and z + low <= 0: max(x, 0) - a e / (1 + e) with e = e^(z + low).
Lanes MathFunctions::times_sigmoid(Lanes x, Lanes a, Lanes z, const Lanes *low) {
    const Mad mad{has_fma()};
    const bool table = has_lane_tables() && !is_f64(x) && is_vector(x.v) && lanes(x.v) == 16;
    const Lanes e = table ? scaled_exp_by_table(z, low) : scaled_exp(mad, z, low);
    const double down = unscale_of(x);
    return mad(a * e / mad(e, e.f(down), e.f(1)), e.f(-down), positive_part(x));
}

Lanes MathFunctions::gelu_tanh(Lanes x) {
    const Mad mad{has_fma()};
    const bool wide = is_f64(x);
    const Lanes a = smaller(x.abs(), wide ? 21.8 : 10.9);
    // a (C0 + C1 a²), twice the argument of tanh. high0 is short, so that high0 - w is exact.
    const long double c0 = 1.5957691216057307117597842397375L, c1 = 0.071354816272600248776338752279864L;
    const int bits = wide ? 39 : 11;
    const double high0 = std::ldexp(std::floor(std::ldexp(static_cast<double>(c0), bits)), -bits);
    const double low0 = static_cast<double>(c0 - static_cast<long double>(high0));
    const Parts k1 = parts(c1, !wide);
    Lanes s_rest;
    const Lanes s = square(mad, a, &s_rest), high1 = s.f(k1.high), w = mad(s, high1, s.f(high0));
    Lanes rest = mad(s, s.f(k1.low), s.f(low0));
    if (mad.fused) {
        rest = rest + mad(s, high1, s.f(high0) - w);
    } else {
        const Lanes t = s * high1;
        rest = rest + (product_rest(mad, s, high1, t) + (t - (w - w.f(high0))));
    }
    rest = mad(s_rest, high1, rest);
    const Lanes z = a * w, low = -mad(a, rest, product_rest(mad, a, w, z));
    return times_sigmoid(x, a, -z, &low);
}

// max(x, 0) - |x| Φ(-|x|)
Lanes MathFunctions::gelu(Lanes x) {
    const Mad mad{has_fma()};
    const bool wide = is_f64(x);
    const Lanes a = smaller(x.abs(), wide ? 39 : 14.7);
    Lanes rest;
    const Lanes s = square(mad, a, &rest), low = rest * rest.f(-0.5);
    const Lanes e = scaled_exp(mad, s * s.f(-0.5), &low);
    // v = a w, which has fewer roundings than w and a product; w = 1 - v/4.
    const Lanes v = a / mad(a, a.f(0.25), a.f(1));
    const Lanes t = mad(v, v.f(-0.25), v.f(1 - (wide ? normal_center_f64 : normal_center)));
    const Lanes p = mad.polynomial(t, wide ? normal_tail_f64 : normal_tail);
    return mad(v * p * e, e.f(-unscale_of(x)), positive_part(x));
}

std::optional<Value *> MathFunctions::tail_function(const std::string &function, Value *arg) {
    const Mad mad{has_fma()};
    if (is_f64(lanes_for_math(arg))) {
        const Lanes x = lanes_for_math(arg), a = smaller(x.abs(), 760);
        if (function == "gelu") return gelu(x).v;
        if (function == "gelu_tanh") return gelu_tanh(x).v;
        if (function == "erfc") return erfc(mad, x).v;
        if (function == "silu") return times_sigmoid(x, a, -a, nullptr).v;
        return {};
    }
    if (function == "expm1") return expm1_f32(mad, lanes_for_math(arg)).v;
    if (function == "log1p") return log1p_f32(mad, lanes_for_math(arg)).v;
    if (function == "sinh") return sinh_f32(mad, lanes_for_math(arg)).v;
    if (function == "cosh") return cosh_f32(mad, lanes_for_math(arg)).v;
    if (function == "gelu" && has_lane_tables()) return gelu_by_table(arg);
    const std::function<Lanes(Lanes)> f = [&](Lanes x) {
        if (function == "gelu") return gelu(x);
        if (function == "gelu_tanh") return gelu_tanh(x);
        if (function == "erfc") return erfc(mad, x);
        const Lanes a = smaller(x.abs(), 109);
        return times_sigmoid(x, a, -a, nullptr);
    };
    if (function != "gelu" && function != "gelu_tanh" && function != "erfc" && function != "silu") return {};
    return has_lane_tables() ? by_registers(arg, f) : f(lanes_for_math(arg)).v;
}

} // namespace kumiko::cpu
