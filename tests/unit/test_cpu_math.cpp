// The math functions against double precision: every exponent, dense where they bend, the special values, on three x86
// levels (as far as this processor goes), scalars and vectors.
#include "targets/cpu/jit.h"
#include "tests/unit/test_cpu_builders.h"

#include <doctest/doctest.h>

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

// Units in the last place between a float and the exact value; 0 when both are NaN or the same infinity.
double ulps(float got, double exact) {
    if (std::isnan(exact) || std::isnan(got)) {
        return std::isnan(exact) && std::isnan(got) ? 0 : 1e30;
    }
    float rounded = float(exact);
    if (got == rounded) {
        return 0;
    }
    if (std::isinf(got) || std::isinf(rounded)) {
        // One step past the greatest float is still one unit.
        double limit = std::ldexp(1.0, 128), g = std::isinf(got) ? std::copysign(limit, got) : got;
        double e = std::isinf(exact) || std::fabs(exact) > limit ? std::copysign(limit, exact) : exact;
        return std::fabs(g - e) / std::ldexp(1.0, 104);
    }
    int exponent = exact == 0 ? -149 : std::max(std::ilogb(exact) - 23, -149);
    return std::fabs(double(got) - exact) / std::ldexp(1.0, exponent);
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

JitModule unary(const std::string &function, const CpuTarget &target, int lanes) {
    Nest n;
    n.name = function;
    n.tensors = {tensor("x", Float(32), false, var("n") * lanes), tensor("y", Float(32), true, var("n") * lanes)};
    n.sizes = {"n"};
    Expr at = lanes == 1 ? var("i") : ramp(var("i") * lanes, lanes);
    Type t = Float(32, lanes);
    n.body =
        loop("i", 0, var("n"), store("y", Call::make(t, function + "_f32", {load(t, "x", at)}, Call::PureExtern), at));
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
TEST_CASE("exp of what is not above zero, and somewhat above") {
    check_unary("exp_nonpositive", std::exp, 4, 60);
    JitModule m = unary("exp_nonpositive", CpuTarget::host(), 16);
    float x[16] = {0, -0.f}, y[16];
    CHECK(run(m, "exp_nonpositive", {x, y}, {1}) == 0);
    CHECK(y[0] == 1);
    CHECK(y[1] == 1);
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
    for (const char *function : {"erf", "one_plus_erf", "exp", "exp_nonpositive", "sigmoid", "silu", "gelu",
                                 "gelu_tanh", "erfc", "expm1", "log1p"}) {
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
TEST_CASE("atan, through the C library") { check_unary("atan", std::atan, 0.5001); }

TEST_CASE("signs of zero") {
    for (const char *function : {"tanh", "erf", "sin", "sqrt"}) {
        JitModule m = unary(function, CpuTarget::host(), 16);
        float x[16], y[16];
        std::fill(x, x + 16, -0.f);
        CHECK(run(m, function, {x, y}, {1}) == 0);
        CHECK(std::signbit(y[3]));
    }
}

TEST_CASE("pow") {
    std::vector<float> special = {
        0.f,        -0.f,       1.f,      -1.f,        0.5f,
        -0.5f,      2.f,        -2.f,     3.f,         -3.f,
        2.5f,       -2.5f,      infinity, -infinity,   std::numeric_limits<float>::quiet_NaN(),
        1e-45f,     -1e-45f,    3e38f,    -3e38f,      16777215.f,
        16777216.f, 8388607.5f, -33.f,    0.99999994f, 1.0000001f};
    std::vector<float> xs, ys;
    for (float a : special) {
        for (float b : special) {
            xs.push_back(a);
            ys.push_back(b);
        }
    }
    std::mt19937 random(3);
    for (int k = 0; k < 400000; k++) {
        float x = std::bit_cast<float>(uint32_t(random()));
        double log2 = std::log2(std::fabs(double(x)));
        // Exponents that keep the result in or near the range of floats.
        double y = (std::uniform_real_distribution<double>(-155, 133)(random)) / log2;
        xs.push_back(k % 8 ? std::fabs(x) : x);
        ys.push_back(k % 3 ? float(y) : float(std::round(y)));
    }
    while (xs.size() % 16) {
        xs.push_back(1);
        ys.push_back(1);
    }
    for (const CpuTarget &target : targets()) {
        Nest n;
        n.name = "power";
        n.tensors = {tensor("x", Float(32), false, var("n") * 16), tensor("p", Float(32), false, var("n") * 16),
                     tensor("y", Float(32), true, var("n") * 16)};
        n.sizes = {"n"};
        Expr at = ramp(var("i") * 16, 16);
        Type t = Float(32, 16);
        n.body = loop("i", 0, var("n"),
                      store("y", Call::make(t, "pow_f32", {load(t, "x", at), load(t, "p", at)}, Call::PureExtern), at));
        JitOptions options;
        options.codegen.target = target;
        JitModule m({n}, options);
        std::vector<float> y(xs.size());
        CHECK(run(m, "power", {xs.data(), ys.data(), y.data()}, {int64_t(xs.size()) / 16}) == 0);
        double worst = 0;
        for (size_t i = 0; i < xs.size(); i++) {
            double exact = std::pow(double(xs[i]), double(ys[i]));
            double u = ulps(y[i], exact);
            if (u > 4 || (exact == 0 && std::signbit(exact) != std::signbit(y[i]))) {
                INFO(xs[i], " ^ ", ys[i], " = ", exact, ", got ", y[i]);
                CHECK(u <= 4);
                CHECK(std::signbit(exact) == std::signbit(y[i]));
            }
            worst = std::max(worst, u);
        }
        MESSAGE("pow ", target.name, ": ", worst);
    }
}
