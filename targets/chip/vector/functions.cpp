#include "targets/chip/vector/functions.h"

#include <cmath>
#include <limits>

namespace kumiko::chip {

using namespace sim;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double round_by = 12582912; // 1.5 · 2^23: added, it leaves an integer in the fraction's last bits
constexpr double ln2_high = 0.693359375, ln2_low = -2.12194440e-4;

Id copysign(VectorBuilder &b, Id magnitude, Id sign) {
    return b.alu(AluOp::Or, magnitude, b.alu(AluOp::And, sim::Type::F32, sign, b.bits(0x80000000, sim::Type::F32)));
}

// 2^n as a float, of the float that holds n in its fraction's last bits: what stands above n falls out at the left.
Id power_of_two(VectorBuilder &b, Id shifted) {
    const Id n = b.alu(AluOp::Shl, sim::Type::I32, shifted, b.bits(23, sim::Type::I32));
    return b.as(b.alu(AluOp::Add, sim::Type::I32, n, b.bits(0x3f800000, sim::Type::I32)), sim::Type::F32);
}

// e^x − 1, for x in [−87, 87].
Id exp_minus_1(VectorBuilder &b, Id x) {
    const Id shifted = b.fma(x, b.number(M_LOG2E), b.number(round_by));
    const Id n = b.sub(shifted, b.number(round_by));
    Id r = b.fma(n, b.number(-ln2_high), x);
    r = b.fma(n, b.number(-ln2_low), r); // |r| <= ln 2 / 2
    Id q = b.polynomial(r, {0.49999998143967633, 0.16666543176579193, 0.04166720181651122, 0.008366580475382709,
                            0.0013882507577061519});
    q = b.fma(q, b.mul(r, r), r);
    const Id scale = power_of_two(b, shifted);
    return b.fma(scale, q, b.sub(scale, b.number(1)));
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
    // Beyond, the result is 0 or infinite all the same. NaN passes.
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
    const Id f = b.sub(m, b.number(1)), f2 = b.mul(f, f);
    Id p = b.polynomial(f, {0.33333331709673536, -0.2500082105619196, 0.20001226668505181, -0.16623356480711288,
                            0.14201762450758557, -0.13160195027760507, 0.12761550442035627, -0.07634430058603156});
    p = b.mul(p, b.mul(f, f2));
    p = b.fma(exponent, b.number(ln2_low), p);
    p = b.fma(f2, b.number(-0.5), p);
    Id result = b.fma(exponent, b.number(ln2_high), b.add(f, p));
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
    // With e = e^−|x|: 1 / (1 + e) above zero and e / (1 + e) below, which neither overflows nor cancels.
    const Id e = exp(b, b.alu(AluOp::Or, x, b.bits(0x80000000, sim::Type::F32)));
    const Id dividend = b.select(b.less(x, b.number(0)), e, b.number(1));
    return divide_moderate(b, dividend, b.add(e, b.number(1)));
}

Id rsqrt(VectorBuilder &b, Id x) {
    const Id seed = b.alu(AluOp::Rsqrt, x);
    Id y = seed;
    for (int i = 0; i < 2; i++) {
        const Id e = b.fnma(b.mul(x, y), y, b.number(1));
        y = b.fma(b.mul(y, b.number(0.5)), e, y);
    }
    return b.select(b.equal(y, y), y, seed); // 0, infinity, NaN and what is negative: as the seed has it
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
    // s ≈ 1/sqrt(|d|); everything is scaled by s twice, so that nothing leaves fp32's range before the quotient does.
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
    // Of what rounds to 0 the sign stays; NaN and what is whole already stay.
    y = copysign(b, b.absolute(y), x);
    return b.select(b.less(a, whole), y, x);
}

} // namespace kumiko::chip
