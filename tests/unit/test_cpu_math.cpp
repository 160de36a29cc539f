// The math functions against double precision, on three x86 levels (as far as this processor
// supports them), scalars and vectors: every exponent, dense samples where functions bend, special
// values. f64 against long double. One file, because the functions share samples and checks.
// Levels: no
// Sanitized: --test-case-exclude=*lanes
#include "targets/cpu/jit.h"
#include "tests/unit/test_cpu_builders.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

using namespace kumiko;
using namespace kumiko::test;
using namespace Halide::Internal;

namespace {

const float infinity = std::numeric_limits<float>::infinity();

// Error in units in the last place; 0 if both are NaN or the same infinity.
double ulps(float got, double exact) {
    if (std::isnan(exact) || std::isnan(got)) {
        return std::isnan(exact) && std::isnan(got) ? 0 : 1e30;
    }
    float rounded = float(exact);
    if (got == rounded) {
        return 0;
    }
    if (std::isinf(got) || std::isinf(rounded)) {
        // One step past the largest float counts as one unit.
        double limit = std::ldexp(1.0, 128), g = std::isinf(got) ? std::copysign(limit, got) : got;
        double e = std::isinf(exact) || std::fabs(exact) > limit ? std::copysign(limit, exact) : exact;
        return std::fabs(g - e) / std::ldexp(1.0, 104);
    }
    int exponent = exact == 0 ? -149 : std::max(std::ilogb(exact) - 23, -149);
    return std::fabs(double(got) - exact) / std::ldexp(1.0, exponent);
}

// Error in units of the exact result, or a large number if NaN, infinity or the sign of zero is
// wrong.
template<typename T>
double units_of(long double exact, T got) {
    using Limits = std::numeric_limits<T>;
    if (std::isnan(exact) || std::isnan(got)) return std::isnan(exact) && std::isnan(got) ? 0 : 1e30;
    if (std::signbit(exact) != std::signbit(got)) return 1e30;
    const long double limit = std::ldexp(1.0L, Limits::max_exponent);
    const long double bounded = std::min(std::fabs(exact), limit), result = std::isinf(got) ? limit : std::fabs(got);
    // Exponents of normal numbers.
    const int least = Limits::min_exponent - 1, most = Limits::max_exponent - 1;
    const int exponent = bounded == 0 ? least : std::clamp(std::ilogb(bounded), least, most);
    return static_cast<double>(std::fabs(result - bounded) / std::ldexp(1.0L, exponent - Limits::digits + 1));
}

std::vector<float> samples() {
    std::vector<float> x = {0.f,
                            -0.f,
                            infinity,
                            -infinity,
                            std::numeric_limits<float>::quiet_NaN(),
                            1.f,
                            -1.f,
                            std::numeric_limits<float>::denorm_min(),
                            -std::numeric_limits<float>::denorm_min(),
                            std::numeric_limits<float>::max(),
                            std::numeric_limits<float>::lowest(),
                            0.625f,
                            88.72284f,
                            -87.33655f,
                            -103.97208f,
                            -104.5f,
                            8388608.f,
                            16777217.f};
    std::mt19937 random(7);
    for (uint32_t exponent = 0; exponent < 255; exponent++) {
        for (int k = 0; k < 400; k++) {
            x.push_back(std::bit_cast<float>((uint32_t(random()) & 0x807fffffu) | exponent << 23));
        }
    }
    for (int k = 0; k < 400000; k++) {
        x.push_back((k - 200000) * (110.f / 200000)); // where exp, tanh, erf and sigmoid happen
        x.push_back((k - 200000) * 0.5f);             // angles up to 1e5
    }
    for (int k = 1; k < 60000; k++) { // next to multiples of pi/2, where sin and cos cancel
        x.push_back(float(k * M_PI_2));
        x.push_back(std::nextafter(float(k * M_PI_2), 0.f));
    }
    // where asin, atan, tan and sinh bend
    for (const float near : {0.5f, 1.f, 1.5707964f, 88.72284f, 89.41599f}) {
        float up = near, down = near;
        for (int k = 0; k < 1000; k++) {
            x.insert(x.end(), {up, -up, down, -down});
            up = std::nextafter(up, infinity), down = std::nextafter(down, 0.f);
        }
    }
    while (x.size() % 16) {
        x.push_back(1);
    }
    return x;
}

std::vector<CpuTarget> targets() {
    CpuTarget host = CpuTarget::host();
    std::vector<CpuTarget> result{host};
    for (const char *name : {"x86-64-sse4.2", "x86-64-avx2", "x86-64-avx512"}) {
        if (host.architecture() == "x86_64" && host.vector_bits >= CpuTarget::level(name).vector_bits) {
            result.push_back(CpuTarget::level(name));
        }
    }
    return result;
}

JitModule unary(const std::string &function, const CpuTarget &target, int lanes, Type one = Float(32)) {
    Nest n;
    n.name = function;
    n.tensors = {tensor("x", one, false, var("n") * lanes), tensor("y", one, true, var("n") * lanes)};
    n.sizes = {"n"};
    const Expr at = lanes == 1 ? var("i") : ramp(var("i") * lanes, lanes);
    const Type t = one.with_lanes(lanes);
    const std::string name = function + "_f" + std::to_string(one.bits());
    n.body = loop("i", 0, var("n"), store("y", Call::make(t, name, {load(t, "x", at)}, Call::PureExtern), at));
    JitOptions options;
    options.codegen.target = target;
    return JitModule({n}, options);
}

// Of samples up to `most`.
void check_unary(const std::string &function, double (*exact)(double), double bound, float most = infinity) {
    static const std::vector<float> x = samples();
    std::vector<float> y(x.size());
    for (const CpuTarget &target : targets()) {
        for (int lanes : {1, 16}) {
            JitModule m = unary(function, target, lanes);
            CHECK(run(m, function, {const_cast<float *>(x.data()), y.data()}, {int64_t(x.size()) / lanes}) == 0);
            double worst = 0;
            float where = 0, got = 0;
            for (size_t i = 0; i < x.size(); i++) {
                if (x[i] > most) continue;
                double u = ulps(y[i], exact(x[i]));
                if (u > worst) {
                    worst = u;
                    where = x[i];
                    got = y[i];
                }
            }
            INFO(function, " on ", target.name, ", ", lanes, " lanes: ", worst, " ulp at ", where, ": ", got, " for ",
                 exact(where));
            MESSAGE(function, " ", target.name, " ", lanes, ": ", worst);
            CHECK(worst <= bound);
        }
    }
}

} // namespace

TEST_CASE("exp") { check_unary("exp", std::exp, 4); }
TEST_CASE("exp of nonpositive arguments, and slightly above zero") {
    check_unary("exp_nonpositive", std::exp, 4, 60);
    for (const CpuTarget &target : targets()) {
        JitModule m = unary("exp_nonpositive", target, 16);
        float x[16] = {0, -0.f}, y[16];
        CHECK(run(m, "exp_nonpositive", {x, y}, {1}) == 0);
        CHECK(y[0] == 1);
        CHECK(y[1] == 1);
    }
}
TEST_CASE("1 + erf, within what its sum rounds") {
    const std::vector<float> x = samples();
    std::vector<float> y(x.size());
    for (const CpuTarget &target : targets()) {
        JitModule m = unary("one_plus_erf", target, 16);
        CHECK(run(m, "one_plus_erf", {const_cast<float *>(x.data()), y.data()}, {int64_t(x.size()) / 16}) == 0);
        double worst = 0;
        for (size_t i = 0; i < x.size(); i++) {
            if (std::isnan(x[i])) {
                CHECK(std::isnan(y[i]));
                continue;
            }
            worst = std::max(worst, std::fabs(y[i] - std::erfc(-double(x[i]))));
            if (x[i] <= -4) CHECK(y[i] == 0);
            if (x[i] >= 4) CHECK(y[i] == 2);
        }
        MESSAGE(target.name, ": ", worst);
        CHECK(worst <= 2.5e-7);
    }
}
TEST_CASE("functions are the same in any number of lanes") {
    std::vector<float> x = samples();
    x.resize(x.size() / 480 * 480);
    std::vector<float> expected(x.size()), y(x.size());
    for (const char *function :
         {"erf", "one_plus_erf", "exp", "exp_nonpositive", "sigmoid", "silu", "gelu", "gelu_tanh", "erfc", "expm1",
          "log1p", "atan", "asin", "acos", "tan", "sinh", "cosh"}) {
        for (const CpuTarget &target : targets()) {
            for (int lanes : {16, 1, 5, 8, 24, 32}) {
                std::vector<float> &result = lanes == 16 ? expected : y;
                JitModule m = unary(function, target, lanes);
                CHECK(run(m, function, {x.data(), result.data()}, {int64_t(x.size()) / lanes}) == 0);
                INFO(std::string(function), " on ", target.name, ", ", lanes, " lanes");
                if (lanes == 16) continue;
                size_t unlike = 0; // the sign of NaN depends on the order of operands
                for (size_t i = 0; i < x.size(); i++) {
                    const bool both_nan = std::isnan(y[i]) && std::isnan(expected[i]);
                    unlike += !both_nan && std::memcmp(&y[i], &expected[i], sizeof(float)) != 0;
                }
                CHECK(unlike == 0);
            }
        }
    }
}
TEST_CASE("log") { check_unary("log", std::log, 4); }
TEST_CASE("tanh") { check_unary("tanh", std::tanh, 4); }
TEST_CASE("erf") { check_unary("erf", std::erf, 4); }
TEST_CASE("expm1, log1p and erfc") {
    check_unary("expm1", std::expm1, 2);
    check_unary("log1p", std::log1p, 2);
    check_unary("erfc", std::erfc, 4);
}
TEST_CASE("sigmoid") {
    check_unary(
        "sigmoid", [](double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }, 4);
}
TEST_CASE("sin") { check_unary("sin", std::sin, 4); }
TEST_CASE("cos") { check_unary("cos", std::cos, 4); }
TEST_CASE("sqrt") { check_unary("sqrt", std::sqrt, 0.5); }
TEST_CASE("rsqrt") {
    check_unary(
        "rsqrt", [](double x) { return 1 / std::sqrt(x); }, 2);
}
TEST_CASE("round") { check_unary("round", std::nearbyint, 0); }
TEST_CASE("atan") { check_unary("atan", std::atan, 4); }
TEST_CASE("asin and acos") {
    check_unary("asin", std::asin, 4);
    check_unary("acos", std::acos, 4);
}
TEST_CASE("tan") { check_unary("tan", std::tan, 4); }
TEST_CASE("sinh and cosh") {
    check_unary("sinh", std::sinh, 4);
    check_unary("cosh", std::cosh, 4);
}
TEST_CASE("asinh, through the C library") { check_unary("asinh", std::asinh, 0.5001); }

TEST_CASE("signs of zero") {
    for (const char *function : {"tanh", "erf", "sin", "sqrt", "atan", "asin", "tan", "sinh"}) {
        for (const CpuTarget &target : targets()) {
            JitModule m = unary(function, target, 16);
            float x[16], y[16];
            std::fill(x, x + 16, -0.f);
            CHECK(run(m, function, {x, y}, {1}) == 0);
            CHECK(std::signbit(y[3]));
        }
    }
}

namespace {

const std::vector<float> special = {
    0.f,        -0.f,       1.f,      -1.f,        0.5f,
    -0.5f,      2.f,        -2.f,     3.f,         -3.f,
    2.5f,       -2.5f,      infinity, -infinity,   std::numeric_limits<float>::quiet_NaN(),
    1e-45f,     -1e-45f,    3e38f,    -3e38f,      16777215.f,
    16777216.f, 8388607.5f, -33.f,    0.99999994f, 1.0000001f};

// All pairs of special values.
void add_special_pairs(std::vector<float> &xs, std::vector<float> &ys) {
    for (float a : special) {
        for (float b : special) {
            xs.push_back(a);
            ys.push_back(b);
        }
    }
}

// In 16 lanes on all targets; zeros must have the sign of the exact value.
void check_binary(const std::string &function, double (*exact)(double, double), double bound, std::vector<float> xs,
                  std::vector<float> ys) {
    while (xs.size() % 16) {
        xs.push_back(1);
        ys.push_back(1);
    }
    for (const CpuTarget &target : targets()) {
        Nest n;
        n.name = "binary";
        n.tensors = {tensor("x", Float(32), false, var("n") * 16), tensor("p", Float(32), false, var("n") * 16),
                     tensor("y", Float(32), true, var("n") * 16)};
        n.sizes = {"n"};
        Expr at = ramp(var("i") * 16, 16);
        const std::vector<Expr> args = {load(Float(32, 16), "x", at), load(Float(32, 16), "p", at)};
        n.body = loop("i", 0, var("n"),
                      store("y", Call::make(Float(32, 16), function + "_f32", args, Call::PureExtern), at));
        JitOptions options;
        options.codegen.target = target;
        JitModule m({n}, options);
        std::vector<float> y(xs.size());
        CHECK(run(m, "binary", {xs.data(), ys.data(), y.data()}, {int64_t(xs.size()) / 16}) == 0);
        double worst = 0;
        for (size_t i = 0; i < xs.size(); i++) {
            const double r = exact(double(xs[i]), double(ys[i])), u = ulps(y[i], r);
            if (u > bound || (r == 0 && std::signbit(r) != std::signbit(y[i]))) {
                INFO(function, " of ", xs[i], " and ", ys[i], " = ", r, ", got ", y[i]);
                CHECK(u <= bound);
                CHECK(std::signbit(r) == std::signbit(y[i]));
            }
            worst = std::max(worst, u);
        }
        MESSAGE(function, " ", target.name, ": ", worst);
    }
}

} // namespace

TEST_CASE("pow") {
    std::vector<float> xs, ys;
    add_special_pairs(xs, ys);
    std::mt19937 random(3);
    for (int k = 0; k < 400000; k++) {
        float x = std::bit_cast<float>(uint32_t(random()));
        double log2 = std::log2(std::fabs(double(x)));
        // Exponents that keep the result in or near the range of floats.
        double y = (std::uniform_real_distribution<double>(-155, 133)(random)) / log2;
        xs.push_back(k % 8 ? std::fabs(x) : x);
        ys.push_back(k % 3 ? float(y) : float(std::round(y)));
    }
    check_binary("pow", std::pow, 4, xs, ys);
}

TEST_CASE("atan2") {
    std::vector<float> ys, xs;
    add_special_pairs(ys, xs);
    std::mt19937 random(4);
    for (int k = 0; k < 800000; k++) { // any two numbers, and quotients from 2^-24 to 2^24
        const float x = std::bit_cast<float>(uint32_t(random()));
        const double slope = std::exp2(std::uniform_real_distribution<double>(-24, 24)(random));
        const float y =
            k % 4 ? static_cast<float>(k % 2 ? x * slope : -x * slope) : std::bit_cast<float>(uint32_t(random()));
        ys.push_back(y);
        xs.push_back(x);
    }
    check_binary("atan2", std::atan2, 4, ys, xs);
}

namespace {

JitModule power(double exponent, Type one, const CpuTarget &target, int lanes) {
    Nest n;
    n.name = "power";
    n.tensors = {tensor("x", one, false, var("n") * lanes), tensor("y", one, true, var("n") * lanes)};
    n.sizes = {"n"};
    const Expr at = lanes == 1 ? var("i") : ramp(var("i") * lanes, lanes);
    const Type t = one.with_lanes(lanes);
    const std::string suffix = one.is_bfloat() ? "bf16" : "f" + std::to_string(one.bits());
    const Expr x = load(t, "x", at), y = make_const(t, exponent);
    n.body = loop("i", 0, var("n"), store("y", Call::make(t, "pow_" + suffix, {x, y}, Call::PureExtern), at));
    JitOptions options;
    options.codegen.target = target;
    return JitModule({n}, options);
}

// Those that are products and roots, and their neighbours.
std::vector<double> exponents() {
    std::vector<double> all = {0.125, -2.625, 4.25, -4.75, 8.5, 11. / 32};
    for (int whole = -9; whole <= 9; whole++) all.push_back(whole);
    for (int quarters = -16; quarters <= 16; quarters++) {
        if (quarters % 4) all.push_back(quarters / 4.0);
    }
    return all;
}

template<typename T>
void check_constant_powers(double bound) {
    using Limits = std::numeric_limits<T>;
    std::vector<T> all = {
        0, 1, 2, 3, Limits::infinity(), Limits::quiet_NaN(), Limits::denorm_min(), Limits::min(), Limits::max()};
    std::mt19937 random(5);
    std::uniform_real_distribution<double> unit(0, 1);
    for (int k = 0; k < 6000; k++) {
        all.push_back(static_cast<T>(1 + 15 * unit(random)));
        const double log = Limits::min_exponent - Limits::digits + unit(random) * 2 * Limits::max_exponent;
        all.push_back(static_cast<T>(std::exp2(static_cast<long double>(log))));
    }
    const size_t count = all.size();
    for (size_t i = 0; i < count; i++) all.push_back(-all[i]);
    while (all.size() % 80) all.push_back(1);
    std::vector<T> y(all.size());
    std::vector<long double> exact(all.size());
    double worst = 0, of = 0;
    for (const double exponent : exponents()) {
        for (size_t i = 0; i < all.size(); i++)
            exact[i] = std::pow(static_cast<long double>(all[i]), static_cast<long double>(exponent));
        for (const CpuTarget &target : targets()) {
            for (const int lanes : {16, 5, 1}) {
                if (lanes != 16 && std::fmod(exponent, 0.75)) continue;
                const JitModule m = power(exponent, Float(sizeof(T) * 8), target, lanes);
                CHECK(run(m, "power", {all.data(), y.data()}, {int64_t(all.size()) / lanes}) == 0);
                double most = 0;
                T where = 0, got = 0;
                for (size_t i = 0; i < all.size(); i++) {
                    const double u = units_of(exact[i], y[i]);
                    if (u > most) most = u, where = all[i], got = y[i];
                }
                INFO(where, " ^ ", exponent, " on ", target.name, ", ", lanes, " lanes: ", got, ", ", most, " units");
                CHECK(most <= bound);
                if (most > worst) worst = most, of = exponent;
            }
        }
    }
    MESSAGE("constant powers of ", 8 * sizeof(T), " bits: ", worst, ", exponent ", of);
}

} // namespace

TEST_CASE("pow of f32 with constant exponents") { check_constant_powers<float>(4); }
TEST_CASE("pow of f64 with constant exponents") { check_constant_powers<double>(6); }
TEST_CASE("pow of 16 bits with constant exponents") {
    std::vector<uint16_t> x(65536), y(65536);
    for (size_t i = 0; i < x.size(); i++) x[i] = static_cast<uint16_t>(i);
    const auto number = [](Type t, uint16_t bits) {
        if (t.is_bfloat()) return std::bit_cast<float>(uint32_t(bits) << 16);
        return static_cast<float>(Halide::float16_t::make_from_bits(bits));
    };
    for (const CpuTarget &target : targets()) {
        for (const Type t : {Float(16), BFloat(16)}) {
            const int digits = t.is_bfloat() ? 8 : 11, least = t.is_bfloat() ? -133 : -24,
                      most = t.is_bfloat() ? 128 : 16;
            double worst = 0;
            for (const double exponent : {-8.0, -2.5, -1.0, -0.75, -0.5, 0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 7.0}) {
                const JitModule m = power(exponent, t, target, 16);
                CHECK(run(m, "power", {x.data(), y.data()}, {int64_t(x.size()) / 16}) == 0);
                for (size_t i = 0; i < x.size(); i++) {
                    const double exact = std::pow(static_cast<double>(number(t, x[i])), exponent);
                    const double got = number(t, y[i]);
                    if (std::isnan(exact)) {
                        CHECK(std::isnan(got));
                        continue;
                    }
                    const double limit = std::ldexp(1.0, most);
                    const double bounded = std::min(std::fabs(exact), limit), r = std::min(std::fabs(got), limit);
                    const int exponent_of = bounded == 0 ? -1000 : std::min(std::ilogb(bounded), most - 1);
                    const double u =
                        std::fabs(r - bounded) / std::ldexp(1.0, std::max(exponent_of - digits + 1, least));
                    worst = std::max(worst, std::signbit(exact) == std::signbit(got) ? u : 1e30);
                }
            }
            MESSAGE("constant powers, ", std::string(t.is_bfloat() ? "bf16" : "f16"), " ", target.name, ": ", worst);
            CHECK(worst <= 0.51);
        }
    }
}

namespace {

// Every exponent, and dense where functions bend, cancel, overflow or become subnormal.
std::vector<double> samples_f64() {
    using Limits = std::numeric_limits<double>;
    std::vector<double> x = {
        0,      1,     Limits::infinity(), Limits::quiet_NaN(), Limits::denorm_min(), Limits::min(), Limits::max(),
        0x1p20, 0x1p52};
    std::mt19937_64 random(9);
    std::uniform_real_distribution<double> unit(0, 1);
    for (uint64_t exponent = 0; exponent < 2047; exponent++) {
        const int count = exponent > 960 && exponent < 1040 ? 500 : 20;
        for (int k = 0; k < count; k++) x.push_back(std::bit_cast<double>(random() >> 12 | exponent << 52));
    }
    for (const double range : {0.5, 1.0, 2.0, 6.5, 30.0, 760.0}) {
        for (int k = 0; k < 12000; k++) x.push_back(range * unit(random));
    }
    for (int k = 1; k < 20000; k++) { // next to multiples of pi/2, where sin and cos cancel
        x.push_back(k * M_PI_2);
        x.push_back(std::nextafter((k * 33) * M_PI_2, 0.0));
    }
    for (const double near : {0.5, 1.0, 6.0, 22.0, 27.226, 40.0, 708.396, 709.78271289338397, 745.13321910194122}) {
        double up = near, down = near;
        for (int k = 0; k < 200; k++) {
            x.insert(x.end(), {up, down, near * (1 + (unit(random) - 0.5) * 1e-3)});
            up = std::nextafter(up, Limits::infinity()), down = std::nextafter(down, 0.0);
        }
    }
    const size_t count = x.size();
    for (size_t i = 0; i < count; i++) x.push_back(-x[i]);
    while (x.size() % 80) x.push_back(1);
    return x;
}

// Checks the error bound on all targets, with the signs of zero; results must not depend on the
// number of lanes.
void check_f64(const std::string &function, long double (*exact)(long double), double bound) {
    static const std::vector<double> x = samples_f64();
    std::vector<long double> meant(x.size());
    for (size_t i = 0; i < x.size(); i++) meant[i] = exact(x[i]);
    std::vector<double> first(x.size()), y(x.size());
    for (const CpuTarget &target : targets()) {
        for (const int lanes : {8, 1, 5, 16}) {
            std::vector<double> &result = lanes == 8 ? first : y;
            const JitModule m = unary(function, target, lanes, Float(64));
            CHECK(run(m, function, {const_cast<double *>(x.data()), result.data()}, {int64_t(x.size()) / lanes}) == 0);
            INFO(function, " of f64 on ", target.name, ", ", lanes, " lanes");
            if (lanes != 8) {
                size_t unlike = 0;
                for (size_t i = 0; i < x.size(); i++)
                    unlike += !(y[i] == first[i] || (y[i] != y[i] && first[i] != first[i]));
                CHECK(unlike == 0);
                continue;
            }
            double worst = 0;
            size_t where = 0;
            for (size_t i = 0; i < x.size(); i++) {
                const double u = units_of(meant[i], result[i]);
                if (u > worst) worst = u, where = i;
            }
            INFO(worst, " units at ", x[where], ": ", result[where], " for ", meant[where]);
            MESSAGE(function, " of f64, ", target.name, ": ", worst);
            CHECK(worst <= bound);
        }
    }
}

} // namespace

TEST_CASE("exp and log of f64") {
    check_f64("exp", std::exp, 1.1);
    check_f64("log", std::log, 1.1);
}
TEST_CASE("f64 functions made of exp and log") {
    check_f64("expm1", std::expm1, 2.5);
    check_f64("log1p", std::log1p, 2);
    check_f64("tanh", std::tanh, 3);
    check_f64(
        "sigmoid", [](long double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }, 4);
}
TEST_CASE("erf, erfc, sin and cos of f64") {
    check_f64("erf", std::erf, 2);
    check_f64("erfc", std::erfc, 5);
    check_f64("sin", std::sin, 2.5);
    check_f64("cos", std::cos, 2.5);
}
