// Every function of one value against values of 200 bits: all f16, all bf16, and f32 dense in its
// logarithm, of both signs and down to the subnormal numbers; by compiled kernels and by
// `interpret`. The unit in the last place is that of the exact result, and the spacing of subnormal
// numbers where the result is one.
//
// All inputs are compared with long double, and that with values of 200 bits at one input of 199
// and at the worst of each function. KUMIKO_200_BITS=all in the environment takes values of 200
// bits for all inputs, which takes minutes.
// Links: driver
// Sanitized: --test-case=infinities*,log_softmax*,docs*
#include "driver/kernel.h"
#include "dsl/half.h"
#include "dsl/interpret.h"
#include "ops/functions_page.h"
#include "ops/ops.h"
#include "support/random.h"
#include "tests/unit/check_runs.h"

#include <bit>
#include <boost/multiprecision/cpp_bin_float.hpp>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <doctest/doctest.h>
#include <fstream>
#include <set>
#include <sstream>

using namespace kumiko;

namespace {

// 400 bits, since 1 + x and 1 - erf(x) lose up to 160: values have at least 200 bits.
namespace mp = boost::multiprecision;
using Exact = mp::number<mp::cpp_bin_float<400, mp::digit_base_2>, mp::et_off>;

Exact parsed(const char *digits) { return Exact(digits); }
const Exact &half_root() {
    static const Exact r = sqrt(Exact(0.5));
    return r;
}
const Exact &tanh_slope() { // 2 sqrt(2 / pi)
    static const Exact c =
        2 * sqrt(2 / parsed("3.14159265358979323846264338327950288419716939937510582097494459230781640628620"
                            "8998628034825342117067982148086513282306647093844609550582231725359408128481"));
    return c;
}

// The series of positive terms of erf, for |x| up to 27.
Exact erf_of(const Exact &x) {
    Exact term = 2 * x, sum = term;
    for (int n = 1; abs(term) > abs(sum) * 1e-120; n++) sum += term *= 2 * x * x / (2 * n + 1);
    return sum * exp(-x * x) * tanh_slope() / 2 * half_root();
}

struct Precise {
    static Exact erf(const Exact &x) { return abs(x) > 12 ? Exact(x < 0 ? -1 : 1) : erf_of(x); }
    static Exact erfc(const Exact &x) { return x > 12 ? Exact(0) : 1 - erf(x); }
    static Exact expm1(const Exact &x) { return mp::exp(x) - 1; }
    static Exact log1p(const Exact &x) { return mp::log(1 + x); }
    static Exact root() { return half_root(); }
    static Exact slope() { return tanh_slope(); }
};
struct Long {
    static long double erf(long double x) { return std::erf(x); }
    static long double erfc(long double x) { return std::erfc(x); }
    static long double expm1(long double x) { return std::expm1(x); }
    static long double log1p(long double x) { return std::log1p(x); }
    static long double root() { return 0.70710678118654752440084436210485L; }
    static long double slope() { return 1.59576912160573071175978423973753L; }
};

// The function's value at a finite x, from the definition in dsl/math.h.
template<typename By, typename T>
T value(const std::string &f, const T &x) {
    using std::abs, std::exp, std::log, std::sqrt, std::tanh;
    if (f == "relu") return x > 0 ? x : T(0);
    if (f == "relu6") return x > 6 ? T(6) : x > 0 ? x : T(0);
    if (f == "leaky_relu") return x > 0 ? x : x * T(0.01f);
    if (f == "hard_sigmoid") return x >= 3 ? T(1) : x <= -3 ? T(0) : (x + 3) / 6;
    if (f == "hard_swish") return x * value<By, T>("hard_sigmoid", x);
    if (f == "sigmoid") return x < 0 ? T(exp(x) / (1 + exp(x))) : T(1 / (1 + exp(-x)));
    if (f == "silu") return x * value<By, T>("sigmoid", x);
    if (f == "gelu") return x / 2 * By::erfc(-x * By::root());
    if (f == "gelu_tanh") return x * value<By, T>("sigmoid", By::slope() * (x + T(44715) / 1000000 * x * x * x));
    if (f == "softplus") return (x > 0 ? x : T(0)) + By::log1p(T(exp(-abs(x))));
    if (f == "tanh") {
        const T e = By::expm1(T(-2 * abs(x)));
        return x < 0 ? T(e / (e + 2)) : T(-e / (e + 2));
    }
    if (f == "erf") return By::erf(x);
    if (f == "erfc") return By::erfc(x);
    if (f == "exp") return exp(x);
    if (f == "expm1") return By::expm1(x);
    if (f == "log") return log(x);
    if (f == "log1p") return By::log1p(x);
    if (f == "sqrt") return sqrt(x);
    if (f == "rsqrt") return 1 / sqrt(x);
    if (f == "reciprocal") return 1 / x;
    FAIL("no definition of " << f);
    return x;
}

// Whether the definition above has a value at x. Otherwise the result is infinite or NaN and
// compared separately.
bool defined(const std::string &f, double x) {
    if (f == "log1p") return x > -1;
    if (f == "log" || f == "rsqrt") return x > 0;
    if (f == "sqrt") return x >= 0;
    if (f == "reciprocal") return x != 0;
    return true;
}

// What `interpret` rounds: the functions by f64, and formulas after each operation in f32.
double interpreted_bound(const ops::UnaryFunction &f) {
    return f.name == "softplus" || f.name.starts_with("hard_") || f.units < 0.5 ? f.units : 0.51;
}
constexpr double tie = 1e-6; // of the arithmetic that measures

struct Format {
    Type type;
    int digits, least; // of the significand; exponent of the least positive number
    double most;       // finite
};
const Format formats[] = {{f16, 11, -24, 65504}, {bf16, 8, -133, 0x1.fep127}, {f32, 24, -149, 0x1.fffffep127}};

double number(const Buffer<> &b, size_t i) {
    const void *data = b.data();
    if (b.type() == f32) return static_cast<const float *>(data)[i];
    if (b.type() == f64) return static_cast<const double *>(data)[i];
    if (b.type() == f16) return static_cast<double>(static_cast<float>(static_cast<const float16_t *>(data)[i]));
    return static_cast<double>(static_cast<float>(static_cast<const bfloat16_t *>(data)[i]));
}

// All numbers of 16 bits; of f32, about 400 in each binade between 2^-149 and 2^128 and more where
// functions bend.
Buffer<> inputs(Type t) {
    if (t.bits() == 16) {
        Buffer<> x(t, {65536});
        for (int i = 0; i < 65536; i++) static_cast<uint16_t *>(x.data())[i] = static_cast<uint16_t>(i);
        return x;
    }
    std::vector<float> all = {0.f, -0.f, INFINITY, -INFINITY, NAN, FLT_MAX, -FLT_MAX, FLT_MIN, -FLT_MIN, 1.f, -1.f};
    Random random(11);
    for (uint32_t exponent = 0; exponent < 255; exponent++) {
        const int count = exponent > 100 && exponent < 136 ? 3000 : 200;
        for (int k = 0; k < count; k++)
            all.push_back(std::bit_cast<float>((static_cast<uint32_t>(random()) & 0x807fffffu) | exponent << 23));
    }
    for (int k = -50000; k < 50000; k++) all.push_back(static_cast<float>(k) * (110.f / 50000));
    for (const float near :
         {-3.f, 3.f, -1.f, 1.f, 6.f, -88.72284f, 88.72284f, -103.97208f, -14.42f, -10.78f, -108.5f}) {
        float up = near, down = near;
        for (int k = 0; k < 300; k++) {
            all.push_back(up = std::nextafter(up, INFINITY));
            all.push_back(down = std::nextafter(down, -INFINITY));
        }
    }
    Buffer<> x(f32, {static_cast<int>(all.size())});
    std::memcpy(x.data(), all.data(), all.size() * sizeof(float));
    return x;
}

// Units in the last place between a result and the exact value.
template<typename T>
double units(const Format &f, double got, const T &exact) {
    using std::abs;
    const double near = static_cast<double>(exact);
    if (std::isnan(got)) return INFINITY;
    if (std::isinf(got)) { // the number beyond the greatest
        const double next = std::ldexp(1.0, f.type == f16 ? 16 : 128);
        const T beyond = abs(exact) > next ? T(next) : T(abs(exact));
        return (got > 0) == (near > 0)
                   ? static_cast<double>((next - beyond) / std::ldexp(1.0, std::ilogb(f.most) - f.digits + 1))
                   : INFINITY;
    }
    // Beyond the range of f64, the result is infinite or zero in f32.
    const int exponent = near == 0          ? f.least
                         : std::isinf(near) ? 128 - f.digits
                                            : std::max(std::ilogb(near) - f.digits + 1, f.least);
    const T limit = std::ldexp(1.0, f.type == f16 ? 16 : 128);
    const T bounded = abs(exact) > limit ? T(exact < 0 ? T(-limit) : limit) : T(exact);
    return static_cast<double>(abs(got - bounded) / T(std::ldexp(1.0, exponent)));
}

struct Worst {
    double units = 0, at = 0, got = 0;
};

bool all_200_bits() {
    const char *all = std::getenv("KUMIKO_200_BITS");
    return all && std::string(all) == "all";
}

Worst compare(const std::string &function, const Format &f, const Buffer<> &x, const Buffer<> &y) {
    Worst worst;
    std::vector<std::pair<double, size_t>> order;
    const size_t n = x.number_of_elements();
    size_t classes = 0;
    for (size_t i = 0; i < n; i++) {
        const double at = number(x, i), got = number(y, i);
        if (!std::isfinite(at)) continue;
        if (!defined(function, at)) {
            const bool pole = at == (function == "log1p" ? -1 : 0);
            classes += pole ? !std::isinf(got) : !std::isnan(got);
            continue;
        }
        const long double exact = value<Long, long double>(function, at);
        const double u = units(f, got, exact);
        order.emplace_back(u, i);
        if (u > worst.units) worst = {u, at, got};
    }
    CHECK_EQ(classes, 0);
    const size_t most = std::min<size_t>(order.size(), 20);
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(most), order.end(), std::greater<>());
    size_t wrong = 0;
    for (size_t k = 0; k < order.size(); k++) {
        if (k >= most && k % 199 && !all_200_bits()) continue;
        const double at = number(x, order[k].second);
        const Exact exact = value<Precise, Exact>(function, Exact(at));
        // Infinite in all types, and perhaps in one of the references.
        if (abs(exact) > 1e300) continue;
        const long double near = value<Long, long double>(function, at);
        const Exact off = abs(Exact(near) - exact);
        const bool inexact = off > abs(exact) * 0x1p-54 && off > Exact(std::ldexp(1.0, f.least - 30));
        const double u = units(f, number(y, order[k].second), exact);
        const bool apart = std::abs(u - order[k].first) > 1e-4;
        wrong += inexact || apart;
    }
    CHECK_EQ(wrong, 0);
    return worst;
}

} // namespace

// Compared elsewhere, or exact without arithmetic.
const std::set<std::string> left_out = {"copy", "neg",   "abs",  "sign",  "square", "sin",
                                        "cos",  "floor", "ceil", "round", "trunc"};

TEST_CASE("all functions, of all f16, all bf16 and dense f32") {
    for (const Format &f : formats) {
        const Buffer<> x = inputs(f.type);
        const int n = static_cast<int>(x.number_of_elements());
        for (const ops::UnaryFunction &b : ops::unary_functions()) {
            if (left_out.count(b.name)) continue;
            const Op op = ops::unary(b.name, f.type, n);
            const std::string type = type_name(f.type);
            // Computed in f32 and rounded once.
            const double rounding = f.type == f32 ? 0 : 0.5, share = f.type == f32 ? 1 : std::ldexp(1.0, f.digits - 24);
            Buffer<> y = make_output(op, "Y", {});
            fill_unwritten(y);
            compile(op)(std::vector<Buffer<>>{x, y});
            const Worst compiled = compare(b.name, f, x, y);
            INFO(b.name, " of ", type, ", compiled: ", compiled.got, " at ", compiled.at);
            MESSAGE(b.name, " ", type, " compiled: ", compiled.units, " at ", compiled.at);
            CHECK(compiled.units <= rounding + share * b.units + tie);
            const Buffer<> z = interpret(op, x).front();
            const Worst interpreted = compare(b.name, f, x, z);
            MESSAGE(b.name, " ", type, " interpreted: ", interpreted.units, " at ", interpreted.at);
            CHECK(interpreted.units <= rounding + share * interpreted_bound(b) + tie);
        }
    }
}

TEST_CASE("infinities, NaN and zeros") {
    struct Row {
        const char *function;
        double minus_infinity, infinity, zero, minus_zero;
    };
    const Row rows[] = {
        {"silu", -0.0, INFINITY, 0.0, -0.0},
        {"gelu", -0.0, INFINITY, 0.0, -0.0},
        {"gelu_tanh", -0.0, INFINITY, 0.0, -0.0},
        {"softplus", 0, INFINITY, NAN, NAN},
        {"expm1", -1, INFINITY, 0.0, -0.0},
        {"log1p", NAN, INFINITY, 0.0, -0.0},
        {"erfc", 2, 0, NAN, NAN},
        {"erf", -1, 1, 0.0, -0.0},
        {"tanh", -1, 1, 0.0, -0.0},
        {"sigmoid", 0, 1, 0.5, 0.5},
    };
    for (const Format &f : {formats[2], Format{f64, 53, -1074, DBL_MAX}}) {
        for (const Row &row : rows) {
            const Op op = ops::unary(row.function, f.type, 80);
            Buffer<> x = make_input(op.inputs()[0], {});
            const double in[] = {-INFINITY, INFINITY, 0.0, -0.0, NAN};
            for (int i = 0; i < 80; i++) {
                if (f.type == f32) static_cast<float *>(x.data())[i] = static_cast<float>(in[i % 5]);
                if (f.type == f64) static_cast<double *>(x.data())[i] = in[i % 5];
            }
            Buffer<> y = make_output(op, "Y", {});
            compile(op)(std::vector<Buffer<>>{x, y});
            const Buffer<> z = interpret(op, x).front();
            const double meant[] = {row.minus_infinity, row.infinity, row.zero, row.minus_zero, NAN};
            for (const Buffer<> &got : {y, z}) {
                for (size_t i = 0; i < 80; i++) {
                    const bool about = std::string(row.function) == "softplus" || std::string(row.function) == "erfc";
                    // log 2 and 1, within their bounds.
                    if (std::isnan(meant[i % 5]) && i % 5 != 4 && about) continue;
                    INFO(std::string(row.function), " of ", in[i % 5], " in ", type_name(f.type), ": ", number(got, i));
                    const double r = number(got, i), m = meant[i % 5];
                    CHECK((std::isnan(m) ? std::isnan(r) : r == m && std::signbit(r) == std::signbit(m)));
                }
            }
        }
    }
}

TEST_CASE("f64, within 6 units") {
    const Format f = {f64, 53, -1074, DBL_MAX};
    const int n = 2001;
    Buffer<> x(f64, {n});
    Random random(5);
    for (int i = 0; i < n; i++) {
        const double unit = static_cast<double>(random() >> 11) * 0x1p-53 * 2 - 1;
        static_cast<double *>(x.data())[i] = i % 2 ? unit * 12 : std::ldexp(unit, i % 53 - 50);
    }
    for (const char *function : {"silu", "gelu", "gelu_tanh", "softplus", "expm1", "log1p", "hard_sigmoid", "exp",
                                 "log", "sigmoid", "tanh", "erf", "erfc"}) {
        const Op op = ops::unary(function, f64, n);
        Buffer<> y = make_output(op, "Y", {});
        compile(op)(std::vector<Buffer<>>{x, y});
        double worst = 0, at = 0;
        for (size_t i = 0; i < static_cast<size_t>(n); i++) {
            if (!defined(function, number(x, i))) continue;
            const double u = units(f, number(y, i), value<Precise, Exact>(function, Exact(number(x, i))));
            if (u > worst) worst = u, at = number(x, i);
        }
        MESSAGE(std::string(function), " f64: ", worst, " at ", at);
        CHECK(worst <= 6);
    }
}

TEST_CASE("powers with constant exponents, arcs and hyperbolic functions in formulas, also in tails") {
    struct Row {
        const char *name;
        Element (*formula)(const Element &);
        long double (*exact)(long double);
        double scale; // of arguments from -1 to 1
    };
    const Row rows[] = {
        {"x^3", [](const Element &x) { return pow(x, 3); }, [](long double x) { return std::pow(x, 3.0L); }, 9},
        {"x^-2", [](const Element &x) { return pow(x, -2); }, [](long double x) { return std::pow(x, -2.0L); }, 9},
        {"x^0.5", [](const Element &x) { return pow(x, 0.5f); }, [](long double x) { return std::pow(x, 0.5L); }, 9},
        {"x^-1.75", [](const Element &x) { return pow(x, -1.75f); }, [](long double x) { return std::pow(x, -1.75L); },
         9},
        {"x^2.625", [](const Element &x) { return pow(x, 2.625f); }, [](long double x) { return std::pow(x, 2.625L); },
         9},
        {"atan", [](const Element &x) { return atan(x); }, [](long double x) { return std::atan(x); }, 9},
        {"atan2(2, x)", [](const Element &x) { return atan2(2, x); }, [](long double x) { return std::atan2(2.0L, x); },
         9},
        {"asin", [](const Element &x) { return asin(x); }, [](long double x) { return std::asin(x); }, 1.1},
        {"acos", [](const Element &x) { return acos(x); }, [](long double x) { return std::acos(x); }, 1.1},
        {"tan", [](const Element &x) { return tan(x); }, [](long double x) { return std::tan(x); }, 40},
        {"sinh", [](const Element &x) { return sinh(x); }, [](long double x) { return std::sinh(x); }, 9},
        {"cosh", [](const Element &x) { return cosh(x); }, [](long double x) { return std::cosh(x); }, 9},
    };
    const Format all[] = {formats[0], formats[1], formats[2], {f64, 53, -1074, DBL_MAX}};
    for (const Format &f : all) {
        for (const Row &row : rows) {
            double worst = 0, where = 0;
            for (const int n : {1, 7, 33, 1003}) {
                const Axis i("i", n);
                const Tensor X = input("X", f.type, {i});
                const Op op("formula", {X}, {compute("Y", {i}, row.formula(X(i)))});
                Buffer<> x = make_input(op.inputs()[0], {});
                fill_random(x, n, -row.scale, row.scale);
                Buffer<> y = make_output(op, "Y", {});
                fill_unwritten(y);
                compile(op)(std::vector<Buffer<>>{x, y});
                for (size_t k = 0; k < static_cast<size_t>(n); k++) {
                    const long double exact = row.exact(number(x, k));
                    const double got = number(y, k);
                    const double u = std::isnan(exact) ? (std::isnan(got) ? 0 : INFINITY) : units(f, got, exact);
                    if (u > worst) worst = u, where = number(x, k);
                }
            }
            MESSAGE(row.name, " ", type_name(f.type), ": ", worst, " at ", where);
            CHECK(worst <= (f.type == f64 ? 6 : f.type == f32 ? 4 : 0.51));
        }
    }
}

TEST_CASE("log_softmax and logsumexp, also where one element outweighs the others") {
    const int rows = 48, columns = 64;
    for (const Format &f : formats) {
        Buffer<> x(f.type, {rows, columns});
        Random random(3);
        const auto set = [&](int i, int j, double v) {
            const size_t at = static_cast<size_t>(i) * columns + static_cast<size_t>(j);
            if (f.type == f32) static_cast<float *>(x.data())[at] = static_cast<float>(v);
            if (f.type == f16) static_cast<float16_t *>(x.data())[at] = float16_t(static_cast<float>(v));
            if (f.type == bf16) static_cast<bfloat16_t *>(x.data())[at] = bfloat16_t(static_cast<float>(v));
        };
        for (int i = 0; i < rows; i++) {
            // Multiples of 1/4 from 0 down, so that their differences are exact; one element is i
            // above all others, in some rows two.
            const double shift = i % 7 - 3;
            for (int j = 0; j < columns; j++) set(i, j, shift - static_cast<double>(random.below(40)) / 4 - 1.5 * i);
            set(i, 5, shift);
            if (i % 9 == 8) set(i, 50, shift);
        }
        const Op logs = ops::log_softmax(f.type, rows, columns), sums = ops::logsumexp(f.type, rows, columns);
        Buffer<> y = make_output(logs, "Y", {}), z = make_output(sums, "Y", {});
        compile(logs)(std::vector<Buffer<>>{x, y});
        compile(sums)(std::vector<Buffer<>>{x, z});
        const double bound = f.type == f32 ? 8 : 0.51;
        double worst = 0, worst_sum = 0;
        for (int i = 0; i < rows; i++) {
            const size_t row = static_cast<size_t>(i) * columns;
            const double top = number(x, row + 5);
            Exact rest = -1;
            for (size_t j = 0; j < columns; j++) rest += exp(Exact(number(x, row + j)) - top);
            const Exact log_sum = log(1 + rest), sum = top + log_sum;
            for (size_t j = 0; j < columns; j++)
                worst = std::max(worst, units(f, number(y, row + j), Exact(Exact(number(x, row + j)) - top - log_sum)));
            const double greater = std::max(std::abs(top), static_cast<double>(log_sum));
            const double unit = std::ldexp(1.0, std::max(std::ilogb(greater) - f.digits + 1, f.least));
            const double off = static_cast<double>(abs(Exact(number(z, static_cast<size_t>(i))) - sum));
            worst_sum = std::max(worst_sum, off / unit);
        }
        MESSAGE(std::string(type_name(f.type)), ": log_softmax ", worst, ", logsumexp ", worst_sum);
        CHECK(worst <= bound);
        CHECK(worst_sum <= bound);
    }
}

TEST_CASE("docs/functions.md is fresh") {
    std::ifstream in(KUMIKO_SOURCE_DIR "/docs/functions.md");
    std::stringstream text;
    text << in.rdbuf();
    CHECK_MESSAGE(text.str() == ops::functions_page(), "make it again: kumiko docs functions > docs/functions.md");
}
