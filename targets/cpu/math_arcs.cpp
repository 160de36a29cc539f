// atan, atan2, asin and acos on f32 lanes, without branches. Each is x + x z p(z) with z = x^2 on
// an interval about 0, to which an identity of angles reduces all other arguments. The polynomials
// are fitted by us for the least relative error of the function, by weighted least squares as in
// Lawson's algorithm (1961). Each coefficient is rounded to f32 before coefficients of higher
// powers are fitted. tests/unit/test_cpu_math.cpp measures the errors.
#include "targets/cpu/math_functions.h"
#include "targets/cpu/math_lanes.h"

#include <cmath>

namespace kumiko::cpu {

namespace {

// Of 0 <= t <= 1, relative error 1.7e-8.
Lanes atan_to_one(const Mad &mad, Lanes t) {
    const Lanes z = t * t;
    const Lanes p = mad.polynomial(z, {0.00291972281, -0.016364133, 0.0432058573, -0.0755172372, 0.106657855,
                                       -0.142110035, 0.199937671, -0.333331525});
    return mad(p * z, t, t);
}

// Of |x| <= 1/2 with z = x^2, relative error 4.9e-9.
Lanes asin_to_half(const Mad &mad, Lanes x, Lanes z) {
    const Lanes p = mad.polynomial(z, {0.0421583056, 0.0241847783, 0.0454691499, 0.0749530941, 0.166667521});
    return mad(p * z, x, x);
}

// pi/2 as a sum of two f32 numbers.
const double half_pi = static_cast<float>(M_PI_2), half_pi_rest = M_PI_2 - half_pi;

// pi/2 + x
Lanes from_half_pi(Lanes x) { return x.f(half_pi) + (x + x.f(half_pi_rest)); }

// atan(x) = pi/2 - atan(1/x) above 1.
Lanes atan_f32(const Mad &mad, Lanes x) {
    const Lanes a = x.abs(), one = x.f(1), steep = a > one;
    const Lanes angle = atan_to_one(mad, pick(steep, one, a) / pick(steep, a, one));
    return pick(steep, from_half_pi(-angle), angle).copysign(x);
}

// The angle of the smaller coordinate's magnitude to the greater one's, from 0 to pi/4, is
// subtracted from or added to a multiple of pi/2 that depends on the octant of (x, y).
Lanes atan2_f32(const Mad &mad, Lanes y, Lanes x) {
    const Lanes ax = x.abs(), ay = y.abs(), zero = x.f(0);
    const Lanes steep = ay > ax, left = x.with(x.ir->CreateICmpSLT(x.bits().v, x.bits().i(0).v));
    Lanes slope = pick(steep, ax, ay) / pick(steep, ay, ax);
    slope = pick(equal(ax, ay), x.f(1), slope); // infinity / infinity
    slope = pick(equal(ay, zero), zero, slope); // 0 / 0
    slope = pick(x.with(x.ir->CreateFCmpUNO(x.v, y.v)), x + y, slope);
    const Lanes angle = atan_to_one(mad, slope);
    const Lanes steep_angle = from_half_pi(pick(left, angle, -angle));
    const Lanes flat_angle = pick(left, x.f(2 * half_pi) - (angle - x.f(2 * half_pi_rest)), angle);
    return pick(steep, steep_angle, flat_angle).copysign(y);
}

// asin(a) = pi/2 - 2 asin(sqrt((1 - a) / 2)) above 1/2, where 1 - a is exact. Above 1 the root is
// NaN.
struct ArcSine {
    Lanes outer;      // whether |x| > 1/2
    Lanes inner_part; // asin(x), where |x| <= 1/2
    Lanes outer_part; // acos(|x|), elsewhere
};
ArcSine arc_sine(const Mad &mad, Lanes x) {
    const Lanes a = x.abs(), outer = a > x.f(0.5);
    const Lanes rest = mad(a, a.f(-0.5), a.f(0.5));
    const Lanes root = x.with(x.ir->CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, rest.v));
    const Lanes s = asin_to_half(mad, pick(outer, root, x), pick(outer, rest, x * x));
    return {outer, s, s + s};
}
Lanes asin_f32(const Mad &mad, Lanes x) {
    const ArcSine arc = arc_sine(mad, x);
    return pick(arc.outer, from_half_pi(-arc.outer_part).copysign(x), arc.inner_part);
}
Lanes acos_f32(const Mad &mad, Lanes x) {
    const ArcSine arc = arc_sine(mad, x);
    const Lanes left = x.f(2 * half_pi) - (arc.outer_part - x.f(2 * half_pi_rest));
    return pick(arc.outer, pick(x < x.f(0), left, arc.outer_part), from_half_pi(-arc.inner_part));
}

} // namespace

Value *MathFunctions::arc_function(const std::string &function, const std::vector<Value *> &args) {
    const Mad mad{has_fma()};
    const Lanes x = lanes_for_math(args[0]);
    if (function == "atan") return atan_f32(mad, x).v;
    if (function == "asin") return asin_f32(mad, x).v;
    if (function == "acos") return acos_f32(mad, x).v;
    if (function == "atan2") return atan2_f32(mad, x, lanes_for_math(args[1])).v;
    return nullptr;
}

} // namespace kumiko::cpu
