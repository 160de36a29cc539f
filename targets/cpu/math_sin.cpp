// sin, cos and tan on f32 lanes. The angle is reduced in f64. For |x| up to 2^20 two parts of pi/2
// are enough (Cody and Waite). Beyond, after Payne and Hanek, "Radian reduction for trigonometric
// functions" (1983): x * 2/pi from 24-bit pieces of 2/pi, each product exact in f64, each reduced
// modulo 4 exactly before they are added, so that nothing large is ever rounded. That part is a
// branch which is taken when some lane needs it. Polynomials of sin and cos: S. Moshier, Cephes
// (sinf.c, cosf.c, 1992). That of tan is fitted by us as in math_arcs.cpp. sin and cos on f64 lanes
// are at the end; their polynomials are fitted as in math_f64.cpp.
#include "targets/cpu/math_functions.h"
#include "targets/cpu/math_lanes.h"

#include <llvm/IR/MDBuilder.h>

#include <cmath>
#include <limits>

namespace kumiko::cpu {

namespace {

// The fraction 2/pi, 24 bits at a time.
const uint32_t two_over_pi[] = {0xA2F983, 0x6E4E44, 0x1529FC, 0x2757D1, 0xF534DD,
                                0xC0DB62, 0x95993C, 0x439041, 0xFE5163, 0xABDEBB};

} // namespace

Value *MathFunctions::trigonometric(Trigonometric function, Value *arg) {
    Mad mad{has_fma()};
    Lanes x = lanes_for_math(arg);
    Lanes d = x.to_double();
    // 1.5 * 2^52: adding it rounds to an integer in the last bits.
    Lanes magic = d.f(6755399441055744.0);

    // Quadrant and remainder for moderate angles. pi/2 = 1.57079632673412561417 (33 bits) +
    // 6.07710050650619224932e-11.
    Lanes shifted = mad(d, d.f(M_2_PI), magic);
    Lanes n = shifted - magic;
    Lanes near = mad(n, n.f(-6.07710050650619224932e-11), mad(n, n.f(-1.57079632673412561417), d));
    Lanes near_quadrant = (shifted.bits()).to_i32();

    Lanes far = x.abs() > x.f(1048576.0);
    Value *any = is_vector(far.v) ? ir_.CreateOrReduce(far.v) : far.v;
    llvm::BasicBlock *before = ir_.GetInsertBlock(), *reduce = block("large_angle"), *after = block("reduced");
    ir_.CreateCondBr(any, reduce, after, llvm::MDBuilder(context_).createBranchWeights(1, 1 << 20));
    ir_.SetInsertPoint(reduce);
    Lanes sum = d.f(0), rest = d.f(0);
    for (size_t k = 0; k < std::size(two_over_pi); k++) {
        // 24 bits times 24 bits: exact. Modulo 4 (quadrants count modulo 4), also exact.
        Lanes product = d * d.f(std::ldexp(double(two_over_pi[k]), -24 * int(k + 1)));
        product = product - (product * product.f(0.25)).floor() * product.f(4);
        // Two-sum (Knuth): what the addition rounds off is kept.
        Lanes total = sum + product;
        Lanes part = total - sum;
        rest = rest + ((sum - (total - part)) + (product - part));
        sum = total;
        // Back into [0, 4), so that the sum keeps its low bits.
        sum = pick(sum >= sum.f(4), sum - sum.f(4), sum);
    }
    Lanes turned = sum + magic;
    Lanes fraction = (sum - (turned - magic)) + rest;
    Lanes far_remainder = fraction * fraction.f(M_PI_2);
    Lanes far_quadrant = turned.bits().to_i32();
    Lanes wide_far = far;
    Lanes remainder_there = pick(wide_far, far_remainder, near);
    Lanes quadrant_there = pick(wide_far, far_quadrant, near_quadrant);
    reduce = ir_.GetInsertBlock();
    ir_.CreateBr(after);
    ir_.SetInsertPoint(after);
    llvm::PHINode *remainder = ir_.CreatePHI(near.type(), 2), *quadrant = ir_.CreatePHI(near_quadrant.type(), 2);
    remainder->addIncoming(near.v, before);
    remainder->addIncoming(remainder_there.v, reduce);
    quadrant->addIncoming(near_quadrant.v, before);
    quadrant->addIncoming(quadrant_there.v, reduce);

    Lanes r = lanes_for_math(remainder).to_float();
    Lanes q{&ir_, quadrant};
    Lanes z = r * r;
    const double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
    if (function == Trigonometric::Tangent) {
        // r + r z p(z), relative error 1.8e-8 for |r| <= pi/4; -1 / tan r in the odd quadrants.
        const Lanes p =
            mad.polynomial(z, {0.00939024054, 0.00311072986, 0.024436675, 0.0534091555, 0.133388296, 0.333331555});
        const Lanes t = mad(p * z, r, r), odd = unequal(q & q.i(1), q.i(0));
        const Lanes result = pick(odd, t.f(-1), t) / pick(odd, t, t.f(1));
        // A zero has the sign of x. The remainder of an infinite x is NaN.
        return pick(x.abs() < x.f(infinity), pick(equal(x, x.f(0)), x, result), x.f(nan)).v;
    }
    const bool cosine = function == Trigonometric::Cosine;
    if (cosine) {
        q = q + q.i(1); // cos x = sin(x + pi/2)
    }
    Lanes s = mad.polynomial(z, {-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1});
    s = mad(s * z, r, r);
    Lanes c = mad.polynomial(z, {2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2});
    c = mad(c * z, z, mad(z, z.f(-0.5), z.f(1)));
    Lanes result = pick(unequal(q & q.i(1), q.i(0)), c, s);
    result = (result.bits() ^ (q & q.i(2)).shl(30)).floats();
    if (!cosine) { // keeps the sign of zero
        result = pick(equal(x, x.f(0)), x, result);
    }
    return pick(x.abs() < x.f(infinity), result, x.f(nan)).v;
}

// The angle is reduced by pi/2 in four parts, of 33 bits but the last: products of the first three
// with n are exact for |x| up to 2^20. Beyond, a rarely taken branch calls the C library.
Value *MathFunctions::trigonometric_f64(const std::string &function, Value *arg) {
    const Mad mad{has_fma()};
    const Lanes x = lanes_for_math(arg), magic = x.f(6755399441055744.0), shifted = mad(x, x.f(M_2_PI), magic);
    const Lanes n = shifted - magic;
    Lanes r = x;
    for (const double part : {0x1.921fb544p+0, 0x1.0b4611a6p-34, 0x1.3198a2ep-69, 0x1.b839a252049c1p-104})
        r = mad(n, n.f(-part), r);
    const Lanes z = r * r;
    // Relative error of sin 3.5e-18, absolute error of cos 5.3e-20, for |r| <= pi/4.
    const Lanes s = mad.polynomial(z, {1.589680644331335e-10, -2.5050758344317863e-08, 2.7557313693692067e-06,
                                       -0.00019841269829813876, 0.008333333333322422, -0.16666666666666632});
    const Lanes c = mad.polynomial(z, {-1.1361291951364826e-11, 2.0875757970666127e-09, -2.75573146350945e-07,
                                       2.4801587290586448e-05, -0.001388888888887617, 0.041666666666666616});
    const Lanes sine = mad(s * z, r, r), cosine = mad(c * z, z, mad(z, z.f(-0.5), z.f(1)));
    Lanes quadrant = shifted.bits();
    if (function == "cos") quadrant = quadrant + quadrant.i(1); // cos x = sin(x + pi/2)
    Lanes near = pick(unequal(quadrant & quadrant.i(1), quadrant.i(0)), cosine, sine);
    near = (near.bits() ^ (quadrant & quadrant.i(2)).shl(62)).floats();
    if (function == "sin") near = pick(equal(x, x.f(0)), x, near); // the sign of zero

    const Lanes far = x.abs() > x.f(0x1p20);
    llvm::BasicBlock *before = ir_.GetInsertBlock(), *large = block("large_angle"), *after = block("angle");
    ir_.CreateCondBr(is_vector(far.v) ? ir_.CreateOrReduce(far.v) : far.v, large, after,
                     llvm::MDBuilder(context_).createBranchWeights(1, 1 << 20));
    ir_.SetInsertPoint(large);
    const Lanes both = pick(far, x.with(libm(function, Float(64, lanes(arg)), {arg})), near);
    ir_.CreateBr(after);
    ir_.SetInsertPoint(after);
    llvm::PHINode *result = ir_.CreatePHI(x.type(), 2);
    result->addIncoming(near.v, before);
    result->addIncoming(both.v, large);
    return result;
}

} // namespace kumiko::cpu
