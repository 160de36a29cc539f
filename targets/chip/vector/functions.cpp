#include "targets/chip/vector/functions.h"

#include <cmath>
#include <limits>

namespace kumiko::chip {

using namespace sim;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
// 1.5 · 2^23: after adding it, the low bits of the significand hold an integer.
constexpr double round_by = 12582912;
constexpr double ln2_high = 0.693359375, ln2_low = -2.12194440e-4;

Id copysign(VectorBuilder &b, Id magnitude, Id sign) {
    return b.alu(AluOp::Or, magnitude, b.alu(AluOp::And, sim::Type::F32, sign, b.bits(0x80000000, sim::Type::F32)));
}

// share · 2^n as a float, where `shifted` holds n in its low bits; the bits above n are shifted
// out. share is a power of two.
Id power_of_two(VectorBuilder &b, Id shifted, double share = 1) {
    const Id n = b.alu(AluOp::Shl, sim::Type::I32, shifted, b.bits(23, sim::Type::I32));
    const auto bits = __builtin_bit_cast(uint32_t, static_cast<float>(share));
    return b.as(b.alu(AluOp::Add, sim::Type::I32, n, b.bits(bits, sim::Type::I32)), sim::Type::F32);
}

// share · (e^x − 1), for x in [−87, 87], and for a share of 0.5 up to 89.
Id exp_minus_1(VectorBuilder &b, Id x, double share = 1) {
    const Id shifted = b.fma(x, b.number(M_LOG2E), b.number(round_by));
    const Id n = b.sub(shifted, b.number(round_by));
    Id r = b.fma(n, b.number(-ln2_high), x);
    r = b.fma(n, b.number(-ln2_low), r); // |r| <= ln 2 / 2
    Id q = b.polynomial(r, {0.49999998143967633, 0.16666543176579193, 0.04166720181651122, 0.008366580475382709,
                            0.0013882507577061519});
    q = b.fma(q, b.mul(r, r), r);
    const Id scale = power_of_two(b, shifted, share);
    return b.fma(scale, q, b.sub(scale, b.number(share)));
}

// 2^32 e^(c x) for c x in [−110, 0].
Id scaled_exp(VectorBuilder &b, Id x, double c = 1) {
    const Id shifted = b.fma(x, b.number(c * M_LOG2E), b.number(round_by));
    const Id n = b.sub(shifted, b.number(round_by));
    const double period = M_LN2 / c, unit = std::ldexp(1, std::ilogb(period) - 11),
                 high = std::round(period / unit) * unit;
    Id r = b.fma(n, b.number(-high), x);      // n · high is exact
    r = b.fma(n, b.number(high - period), r); // |c r| <= ln 2 / 2
    std::vector<double> p = {1, 1, 0.49999991594, 0.16666410234, 0.041668288748, 0.0083756458629, 0.0013835803484};
    for (size_t k = 0; k < p.size(); k++) p[k] *= std::pow(c, k);
    return b.mul(b.polynomial(r, p), power_of_two(b, shifted, 0x1p32));
}

// max(x, 0), -0 where x is negative; NaN stays.
Id positive_part(VectorBuilder &b, Id x) { return b.select(b.less(x, b.number(0)), b.number(-0.0), x); }

// value · e^(factor · a²). The rounding error of the square, below 2^-16, is applied to the value
// as a factor of 1 + rest.
Id times_exp_of_square(VectorBuilder &b, Id value, Id a, double factor) {
    const Id s = b.mul(a, a);
    const Id rest = b.mul(b.fma(a, a, b.negated(s)), b.number(factor));
    return b.mul(b.fma(value, rest, value), scaled_exp(b, b.mul(s, b.number(factor))));
}

// exponent · ln 2 + log(1 + f) for 1 + f in [√½, √2].
Id log_of_sum(VectorBuilder &b, Id f, Id exponent) {
    const Id f2 = b.mul(f, f);
    Id p = b.polynomial(f, {0.33333331709673536, -0.2500082105619196, 0.20001226668505181, -0.16623356480711288,
                            0.14201762450758557, -0.13160195027760507, 0.12761550442035627, -0.07634430058603156});
    p = b.mul(p, b.mul(f, f2));
    p = b.fma(exponent, b.number(ln2_low), p);
    p = b.fma(f2, b.number(-0.5), p);
    return b.fma(exponent, b.number(ln2_high), b.add(f, p));
}

// a / d for d in [2^-60, 2^60].
Id divide_moderate(VectorBuilder &b, Id a, Id d) {
    const Id seed = b.alu(AluOp::Rsqrt, d);
    Id r = b.mul(seed, seed); // 1 / d within 2^-6
    for (int i = 0; i < 2; i++) r = b.fma(b.fnma(d, r, b.number(1)), r, r);
    const Id q = b.mul(a, r);
    return b.fma(b.fnma(d, q, a), r, q);
}

} // namespace

Id exp(VectorBuilder &b, Id x) {
    // Outside these bounds the result is 0 or infinite anyway. NaN passes.
    x = b.alu(AluOp::Max, b.alu(AluOp::Min, x, b.number(89)), b.number(-104));
    const Id shifted = b.fma(x, b.number(0.5 * M_LOG2E), b.number(round_by));
    const Id n = b.sub(shifted, b.number(round_by));
    Id r = b.fma(n, b.number(-2 * ln2_high), x);
    r = b.fma(n, b.number(-2 * ln2_low), r); // |r| <= ln 2
    Id p = b.polynomial(r, {1.24999983576e-1, 2.08331504763e-2, 2.60427444431e-3, 2.61523341652e-4, 2.15851972243e-5});
    p = b.add(b.fma(p, b.mul(r, r), b.mul(r, b.number(0.5))), b.number(1));
    const Id root = b.mul(p, power_of_two(b, shifted));
    return b.mul(root, root);
}

Id log(VectorBuilder &b, Id x) {
    const Id zero = b.number(0);
    const Id small = b.less(x, b.number(1.17549435e-38)); // subnormal, or no logarithm
    const Id y = b.select(small, b.mul(x, b.number(0x1p23)), x);
    const Id offset = b.alu(AluOp::Sub, sim::Type::I32, y, b.bits(0x3f3504f3, sim::Type::I32));
    const Id e = b.shifted_right(offset, 23);
    const Id m = b.as(b.alu(AluOp::Sub, sim::Type::I32, y, b.shifted_left(e, 23)), sim::Type::F32);
    Id exponent = b.alu(AluOp::ToFloat, sim::Type::I32, e);
    exponent = b.select(small, b.sub(exponent, b.number(23)), exponent);
    Id result = log_of_sum(b, b.sub(m, b.number(1)), exponent);
    result = b.select(b.less(x, b.number(infinity)), result, x); // infinite, or NaN
    result = b.select(b.less(x, zero), b.number(std::nan("")), result);
    return b.select(b.equal(x, zero), b.number(-infinity), result);
}

Id tanh(VectorBuilder &b, Id x) {
    const Id a = b.alu(AluOp::Min, b.absolute(x), b.number(10)); // from 9.02 on the result is 1
    const Id e = exp_minus_1(b, b.add(a, a));
    return copysign(b, divide_moderate(b, e, b.add(e, b.number(2))), x);
}

Id erf(VectorBuilder &b, Id x) {
    const Id a = b.alu(AluOp::Min, b.absolute(x), b.number(4)); // from 3.92 on the result is 1
    const Id p = b.polynomial(a, {1.128379171607982, 0.6366193821839536, 0.1027778281909956, -0.019153054682684204,
                                  -0.00016041366496429704, 0.0016670452453887365, -0.0006328465539779979,
                                  0.00011764395353567627, -9.25655858068772e-06});
    const Id e = exp_minus_1(b, b.negated(b.mul(p, a)));
    return copysign(b, b.absolute(e), x);
}

Id sigmoid(VectorBuilder &b, Id x) {
    // With e = e^−|x|: 1 / (1 + e) above zero and e / (1 + e) below; neither overflows or cancels.
    const Id e = exp(b, b.alu(AluOp::Or, x, b.bits(0x80000000, sim::Type::F32)));
    const Id dividend = b.select(b.less(x, b.number(0)), e, b.number(1));
    return divide_moderate(b, dividend, b.add(e, b.number(1)));
}

namespace {

// max(x, 0) - a e / (1 + e) with e = e^(c z): x sigmoid(c z) for a = |x| and c z <= 0 below zero, x
// sigmoid(-c z) above.
Id times_sigmoid(VectorBuilder &b, Id x, Id a, Id z, double c) {
    const Id e = scaled_exp(b, z, c);
    const Id share = divide_moderate(b, b.mul(a, e), b.add(b.mul(e, b.number(0x1p-32)), b.number(1)));
    return b.fma(share, b.number(-0x1p-32), positive_part(b, x));
}

} // namespace

Id expm1(VectorBuilder &b, Id x) {
    const Id bounded = b.alu(AluOp::Max, b.alu(AluOp::Min, x, b.number(89)), b.number(-20));
    const Id half = exp_minus_1(b, bounded, 0.5);
    return b.select(b.less(b.absolute(x), b.number(0x1p-30)), x,
                    b.add(half, half)); // halves of subnormal numbers lose a bit
}

Id log1p(VectorBuilder &b, Id x) {
    // 1 + x = 2^e (1 + m) with 1 + m in [√½, √2): m = 2^-e x + (2^-e - 1), so that x keeps its last
    // bits.
    const Id offset = b.alu(AluOp::Sub, sim::Type::I32, b.add(x, b.number(1)), b.bits(0x3f3504f3, sim::Type::I32));
    const Id e = b.shifted_right(offset, 23), e_bits = b.shifted_left(e, 23);
    // 2^-e. For e = 128 the bits are no positive number, and Max below makes them 0. x is then
    // above 2^127, and 2^-e is negligible.
    const Id power =
        b.as(b.alu(AluOp::Sub, sim::Type::I32, b.bits(0x3f800000, sim::Type::I32), e_bits), sim::Type::F32);
    const Id moved = b.as(b.alu(AluOp::Sub, sim::Type::I32, x, e_bits), sim::Type::F32);
    const Id m = b.add(moved, b.sub(b.alu(AluOp::Max, power, b.number(0)), b.number(1)));
    Id result = copysign(b, log_of_sum(b, m, b.alu(AluOp::ToFloat, sim::Type::I32, e)), x);
    result = b.select(b.less(x, b.number(infinity)), result, x); // infinite, or NaN
    result = b.select(b.less(x, b.number(-1)), b.number(std::nan("")), result);
    return b.select(b.equal(x, b.number(-1)), b.number(-infinity), result);
}

// The polynomial is that of targets/cpu/math_tails.cpp. Each operation takes at most one constant:
// a second one would need registers.
Id erfc(VectorBuilder &b, Id x) {
    // erfc(2h) = e^(−4h²) w p(w − 39/64) with w = 1 / (1 + h). d and w round, and erfc changes more
    // than twice as fast as w near 0.
    const Id h = b.alu(AluOp::Min, b.mul(b.absolute(x), b.number(0.5)), b.number(5.1)), one = b.number(1);
    const Id d = b.add(h, one), w = divide_moderate(b, one, d);
    const Id d_rest = b.sub(h, b.sub(d, one)), w_rest = b.mul(w, b.fnma(d_rest, w, b.fnma(d, w, one)));
    const Id p = b.polynomial(b.add(w_rest, b.sub(w, b.number(39.0 / 64))),
                              {0.592800796, 0.813695848, 0.593292236, 0.0608903989, -0.209396243, -0.032150466,
                               0.111711033, -0.0074063139, -0.0562889688, 0.0112773972});
    const Id tail = times_exp_of_square(b, b.fma(p, w_rest, b.mul(p, w)), h, -4);
    const Id negative = b.less(x, b.number(0));
    return b.fma(b.select(negative, b.negated(tail), tail), b.number(0x1p-32),
                 b.select(negative, b.number(2), b.number(0)));
}

Id silu(VectorBuilder &b, Id x) {
    const Id a = b.alu(AluOp::Min, b.absolute(x), b.number(109));
    return times_sigmoid(b, x, a, a, -1);
}

Id gelu(VectorBuilder &b, Id x) {
    // Φ(−4q) = e^(−8q²) w p(w − 19/32) with w = 1 / (1 + q) = 1 − v, v = q w.
    const Id q = b.alu(AluOp::Min, b.mul(b.absolute(x), b.number(0.25)), b.number(3.675));
    const Id v = divide_moderate(b, q, b.add(q, b.number(1)));
    const Id p = b.polynomial(b.sub(b.number(13.0 / 32), v),
                              {0.221045449, 0.387189597, 0.505221009, 0.467886209, 0.261062354, 0.0200366732,
                               -0.085244596, -0.0364875272, 0.0259280708, 0.0174395423});
    const Id tail = times_exp_of_square(b, b.mul(v, p), q, -8);
    return b.fma(tail, b.number(-0x1p-30), positive_part(b, x));
}

Id gelu_tanh(VectorBuilder &b, Id x) {
    // c z, z = a (a² + k), is twice the argument of tanh. w is a² + k. `rest` is the sum of the
    // rounding errors of both products.
    const double c = 0.071354816272600249, k = 1.5957691216057307 / c, k_high = double(float(k));
    const Id a = b.alu(AluOp::Min, b.absolute(x), b.number(10.9));
    const Id w = b.fma(a, a, b.number(k_high)), square = b.sub(w, b.number(k_high));
    Id rest = b.fma(a, a, b.negated(square));
    rest = b.add(rest, b.sub(b.number(k_high), b.sub(w, square)));
    rest = b.add(rest, b.number(k - k_high));
    const Id z = b.mul(a, w);
    rest = b.fma(a, rest, b.fma(a, w, b.negated(z)));
    // a is multiplied with e^(−c rest), as 1 − c rest: where e^(−c z) is significant relative to 1,
    // c rest is below half a unit.
    return times_sigmoid(b, x, b.fnma(b.mul(a, b.number(c)), rest, a), z, -c);
}

Id rsqrt(VectorBuilder &b, Id x) {
    const Id seed = b.alu(AluOp::Rsqrt, x);
    Id y = seed;
    for (int i = 0; i < 2; i++) {
        const Id e = b.fnma(b.mul(x, y), y, b.number(1));
        y = b.fma(b.mul(y, b.number(0.5)), e, y);
    }
    // 0, infinity, NaN and negative numbers: the result of the seed.
    return b.select(b.equal(y, y), y, seed);
}

Id sqrt(VectorBuilder &b, Id x) {
    const Id seed = b.alu(AluOp::Rsqrt, x);
    Id s = b.mul(x, seed), h = b.mul(seed, b.number(0.5)); // sqrt(x) and half its inverse
    for (int i = 0; i < 2; i++) {
        const Id e = b.fnma(s, h, b.number(0.5));
        s = b.fma(s, e, s);
        h = b.fma(h, e, h);
    }
    s = b.fma(b.fnma(s, s, x), h, s);
    s = b.select(b.equal(x, b.number(0)), x, s);
    return b.select(b.equal(x, b.number(infinity)), x, s);
}

Id divide(VectorBuilder &b, Id a, Id d) {
    // s ≈ 1/sqrt(|d|). All values are scaled by s twice, so that none exceeds fp32's range unless
    // the quotient does.
    const Id s = b.alu(AluOp::Rsqrt, b.absolute(d));
    const Id t = b.fnma(b.mul(b.absolute(d), s), s, b.number(1)); // 1 − |d| s²: below 2^-6
    Id r = b.fma(t, b.add(t, b.number(1)), b.number(1));          // 1 + t + t²,
    r = b.fma(b.mul(t, t), t, r);                                 // + t³
    r = b.select(b.equal(t, t), r, b.number(1));                  // d is 0 or infinite
    const Id inverse = copysign(b, b.mul(s, r), d);               // times s: 1 / d
    const Id q = b.mul(b.mul(a, s), inverse);
    const Id better = b.fma(b.mul(b.fnma(q, d, a), s), inverse, q);
    return b.select(b.equal(better, better), better, q);
}

Id rounded(VectorBuilder &b, Id x, Rounding how) {
    const Id whole = b.number(0x1p23), a = b.absolute(x);
    const Id i = b.alu(how == Rounding::Zero ? AluOp::ToInt : AluOp::Round, sim::Type::F32, x);
    Id y = b.alu(AluOp::ToFloat, sim::Type::I32, i);
    if (how == Rounding::Down) y = b.select(b.less(x, y), b.sub(y, b.number(1)), y);
    if (how == Rounding::Up) y = b.select(b.less(y, x), b.add(y, b.number(1)), y);
    // The sign is kept if the result is 0; NaN and integers are unchanged.
    y = copysign(b, b.absolute(y), x);
    return b.select(b.less(a, whole), y, x);
}

} // namespace kumiko::chip
