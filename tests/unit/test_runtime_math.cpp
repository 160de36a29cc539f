// The runtime's mathematical functions for machines without a C library, against the C library's in
// long double.
#include "runtime/kumiko_math.h"

#include <doctest/doctest.h>

#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace {

const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();

// The distance in units in the last place of the exact value; huge where classes or signs differ.
double distance(double actual, long double exact) {
    const double wrong = 1e30, rounded = static_cast<double>(exact);
    if (std::isnan(exact)) return std::isnan(actual) ? 0 : wrong;
    if (std::isinf(rounded)) return actual == rounded || std::fabs(actual) == DBL_MAX ? 0 : wrong;
    if (exact == 0) return actual == 0 && std::signbit(actual) == std::signbit(exact) ? 0 : wrong;
    int exponent;
    std::frexp(exact, &exponent);
    return static_cast<double>(std::fabs(actual - exact) / std::ldexp(1.0L, std::max(exponent - 53, -1074)));
}

std::mt19937_64 engine(7);

double between(double low, double high) { return std::uniform_real_distribution<double>(low, high)(engine); }

double any_bits() { return std::bit_cast<double>(engine()); }

const std::vector<double> special = {0.0,      -0.0,   inf,   -inf,   nan,     1,      -1,   0.5,     -0.5,
                                     2,        -2,     3,     5e-324, -5e-324, 1e-310, 1e-9, DBL_MIN, DBL_MAX,
                                     -DBL_MAX, 709.78, 710.4, -745.1, -708.5,  0x1p53, 6,    -6,      0x1p53 - 1};

void check(const std::string &name, double (*f)(double), long double (*exact)(long double), double low, double high) {
    double worst = 0, at = 0;
    const auto look = [&](double x) {
        const double d = distance(f(x), exact(x));
        if (d > worst) worst = d, at = x;
    };
    for (int i = 0; i < 20000; i++) look(between(low, high)), look(any_bits());
    for (const double x : special) look(x);
    CHECK_MESSAGE(worst <= 3, name << " is " << worst << " units off at " << at);
}

} // namespace

TEST_CASE("functions of one number are within 3 units in the last place") {
    if (LDBL_MANT_DIG <= DBL_MANT_DIG) return; // nothing to compare with
#define LOOK(name, low, high) check(#name, kumiko_math_##name, std::name, low, high)
    LOOK(exp, -745, 710);
    LOOK(exp, -1, 1);
    LOOK(log, 0, 3);
    LOOK(erf, -6, 6);
    LOOK(erfc, -6, 28);
    LOOK(erfc, -1, 1);
    LOOK(expm1, -40, 710);
    LOOK(expm1, -1, 1);
    LOOK(log1p, -1, 3);
    LOOK(sinh, -3, 3);
    LOOK(cosh, -711, 711);
    LOOK(tanh, -3, 3);
    LOOK(asinh, -3, 3);
    LOOK(acosh, 1, 3);
    LOOK(atanh, -1, 1);
    LOOK(sin, -10, 10);
    LOOK(cos, -1e5, 1e5);
    LOOK(tan, -1e300, 1e300);
    LOOK(asin, -1, 1);
    LOOK(acos, -1, 1);
    LOOK(atan, -3, 3);
    LOOK(sqrt, 0, 5);
}

TEST_CASE("functions of two numbers, and their special values") {
    if (LDBL_MANT_DIG <= DBL_MANT_DIG) return;
    const auto look = [](double x, double y) {
        INFO(x << ", " << y);
        CHECK(distance(kumiko_math_pow(x, y), std::pow(static_cast<long double>(x), static_cast<long double>(y))) <= 3);
        CHECK(distance(kumiko_math_atan2(x, y), std::atan2(static_cast<long double>(x), static_cast<long double>(y))) <=
              3);
        const double r = std::fmod(x, y), ours = kumiko_math_fmod(x, y);
        CHECK((std::isnan(r) ? std::isnan(ours) : std::bit_cast<uint64_t>(r) == std::bit_cast<uint64_t>(ours)));
    };
    for (const double x : special) {
        for (const double y : special) look(x, y);
    }
    for (int i = 0; i < 20000; i++) {
        look(between(0, 3), between(-600, 600));
        look(std::exp(between(-700, 700)), between(-1, 1));
        look(-between(0, 30), std::rint(between(-100, 100)));
        look(any_bits(), any_bits());
    }
}
