// pow with an exponent that is a constant multiple of 1/4: products, square roots and at most one
// division instead of a logarithm and an exponential.
//
// The function that generates the code also bounds its error: it is a template, and one of its
// number types counts roundings. Where f32 arithmetic would exceed the bound of docs/functions.md,
// the power of an f32 number is computed in f64. A power of an f64 number that would exceed its
// bound remains a call of pow.
#include "targets/cpu/math_functions.h"
#include "targets/cpu/math_lanes.h"

#include <llvm/IR/Constants.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace kumiko::cpu {

namespace {

constexpr int greatest_whole = 8, greatest_fraction = 4; // of the exponent's magnitude
// In units in the last place. Roundings rarely all reach their bounds: with all significands of
// f32, exponents whose bound is at most 4.3 are within 3.88 units.
constexpr double f32_bound = 4.3, f64_bound = 6;
constexpr double infinite = std::numeric_limits<double>::infinity();

Lanes square_root(Lanes x) { return x.with(x.ir->CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x.v)); }
Lanes reciprocal(Lanes x) { return x.f(1) / x; }

// A computed number: its value, and the bound of its relative error in units of 2^-p for p bits of
// precision. Rounding to nearest adds 1 / m for a significand m in [1, 2).
struct Rounded {
    double value, error = 0;

    double significand() const { return std::scalbn(value, -std::ilogb(value)); }
    // With the error of one rounding.
    static Rounded of(double value, double error) {
        Rounded r{value, error};
        r.error += 1 / r.significand();
        return r;
    }
    double units() const { return error * significand() / 2; }
};
Rounded operator*(Rounded a, Rounded b) { return Rounded::of(a.value * b.value, a.error + b.error); }
Rounded square_root(Rounded x) { return Rounded::of(std::sqrt(x.value), x.error / 2); }
Rounded reciprocal(Rounded x) { return Rounded::of(1 / x.value, x.error); }

// x^(quarters / 4), quarters != 0. All factors are on the same side of 1, so a partial product is
// never closer to overflow or underflow than the result. The division comes first for exponents up
// to -1, because x^2 may be infinite where x^-2 is not zero. It comes last for exponents between -1
// and 0, because 1 / x may be infinite where x^(-1/2) is finite.
template<typename Number>
Number power(Number x, int quarters) {
    if (quarters <= -4) return power(reciprocal(x), -quarters);
    if (quarters < 0) return reciprocal(power(x, -quarters));
    std::optional<Number> product;
    const auto multiply = [&](const Number &factor) { product = product ? *product * factor : factor; };
    if (quarters % 4) {
        const Number root = square_root(x);
        if (quarters & 2) multiply(root);
        if (quarters & 1) multiply(square_root(root));
    }
    for (int whole = quarters / 4; whole; whole /= 2) {
        if (whole & 1) multiply(x);
        if (whole > 1) x = x * x;
    }
    return *product;
}

// A bound of the error of x^(quarters / 4) in units in the last place. Significands repeat when x
// is multiplied by 16. The margin covers the change between two samples.
double units_of_power(int quarters) {
    double worst = 0;
    constexpr int samples = 2048;
    for (int i = 0; i < samples; i++)
        worst = std::max(worst, power(Rounded{std::exp2((i + 0.5) * 4 / samples)}, quarters).units());
    return worst * 1.01;
}

// The exponent in quarters, if it is a constant, the same in all lanes, that power() takes.
std::optional<int> constant_quarters(Value *exponent) {
    const auto *c = llvm::dyn_cast<llvm::Constant>(exponent);
    if (c && c->getType()->isVectorTy()) c = c->getSplatValue();
    const auto *number = llvm::dyn_cast_or_null<llvm::ConstantFP>(c);
    if (!number) return std::nullopt;
    const double quarters = 4 * number->getValue().convertToDouble();
    if (!(std::abs(quarters) <= 4 * greatest_whole) || quarters != std::trunc(quarters)) return std::nullopt;
    const int q = static_cast<int>(quarters);
    return q % 4 && std::abs(q) > 4 * greatest_fraction ? std::nullopt : std::optional(q);
}

} // namespace

Value *MathFunctions::constant_power(Value *base, Value *exponent, Type t) {
    const std::optional<int> quarters = constant_quarters(exponent);
    if (!quarters) return nullptr;
    Lanes x{&ir_, base};
    if (*quarters == 0) return llvm::ConstantFP::get(x.type(), 1);
    // The error of an f32 power is small in units of the types of 16 bits.
    const double units = t.bits() == 16 ? 0 : units_of_power(*quarters);
    if (t.bits() == 64 && units > f64_bound) return nullptr;
    if (*quarters % 4) { // pow(-0, c) = pow(0, c) and pow(-inf, c) = pow(inf, c)
        x = pick(equal(x, x.f(-infinite)), x.f(infinite), x) + x.f(0);
    }
    const bool in_f64 = t.bits() == 32 && units > f32_bound;
    return in_f64 ? power(x.to_double(), *quarters).to_float().v : power(x, *quarters).v;
}

} // namespace kumiko::cpu
