// Casts, division, shifts and arithmetic of every type against plain C++. One file, because all
// cases share the kernels and the reference.
// Sanitized: --test-case=integer*,floats*,bool*
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

std::vector<CpuTarget> targets() {
    CpuTarget host = CpuTarget::host();
    std::vector<CpuTarget> result{host};
    if (host.architecture() == "x86_64" && host.vector_bits >= 256) {
        result.push_back(CpuTarget::level("x86-64-sse4.2")); // without f16c and fma
    }
    return result;
}

// y[i] = f(a[i], b[i]) for arrays of `count` elements, a multiple of `lanes`.
void apply(const CpuTarget &target, int lanes, Type a, Type b, Type y, const std::function<Expr(Expr, Expr)> &f,
           const void *pa, const void *pb, void *py, int64_t count) {
    Nest n;
    n.name = "apply";
    n.tensors = {tensor("a", a, false, var("n") * lanes), tensor("b", b, false, var("n") * lanes),
                 tensor("y", y, true, var("n") * lanes)};
    n.sizes = {"n"};
    Expr at = lanes == 1 ? var("i") : ramp(var("i") * lanes, lanes);
    n.body = loop("i", 0, var("n"),
                  store("y", f(load(a.with_lanes(lanes), "a", at), load(b.with_lanes(lanes), "b", at)), at));
    JitOptions options;
    options.codegen.target = target;
    options.keep_text = false;
    JitModule m({n}, options);
    REQUIRE(run(m, "apply", {const_cast<void *>(pa), const_cast<void *>(pb), py}, {count / lanes}) == 0);
}

// Interesting bit patterns of an integer type, then random ones.
template<typename T>
std::vector<T> integers(int seed) {
    std::vector<T> v;
    for (int64_t base : {int64_t(0), int64_t(std::numeric_limits<T>::min()), int64_t(std::numeric_limits<T>::max())}) {
        for (int64_t d = -4; d <= 4; d++) {
            v.push_back(T(uint64_t(base) + uint64_t(d))); // around the ends of the range
        }
    }
    std::mt19937_64 random(seed);
    while (v.size() < 1024) {
        v.push_back(T(random() >> (random() % 64)));
    }
    std::shuffle(v.begin(), v.end(), random);
    return v;
}

template<typename T>
Type type_of() {
    return Halide::type_of<T>();
}

// The definitions of targets/cpu/division.cpp in 128 bits.
template<typename T>
T divide(T a, T b) {
    if (b == 0) {
        return 0;
    }
    __int128 x = a, y = b, q = x / y, r = x - q * y;
    if (r < 0) {
        q += y > 0 ? -1 : 1;
    }
    return T(q);
}

template<typename T>
T modulo(T a, T b) {
    if (b == 0) {
        return 0;
    }
    __int128 x = a, y = b, r = x % y;
    return T(r < 0 ? r + (y > 0 ? y : -y) : r);
}

template<typename T>
void check_division() {
    std::vector<T> a = integers<T>(1), b = integers<T>(2), q(a.size()), r(a.size());
    Type t = type_of<T>();
    CAPTURE(t);
    for (const CpuTarget &target : targets()) {
        for (int lanes : {1, 16}) {
            apply(
                target, lanes, t, t, t, [](Expr x, Expr y) { return Div::make(x, y); }, a.data(), b.data(), q.data(),
                a.size());
            apply(
                target, lanes, t, t, t, [](Expr x, Expr y) { return Mod::make(x, y); }, a.data(), b.data(), r.data(),
                a.size());
            int wrong = 0;
            for (size_t i = 0; i < a.size(); i++) {
                wrong += q[i] != divide(a[i], b[i]) || r[i] != modulo(a[i], b[i]);
            }
            CHECK(wrong == 0);
        }
        for (int64_t c : {1, 2, 3, 7, 8, 14, 100, 64, 0, -3, -1}) {
            if ((c < 0 && t.is_uint())) {
                continue;
            }
            apply(
                target, 16, t, t, t, [&](Expr x, Expr) { return Div::make(x, make_const(x.type(), c)); }, a.data(),
                b.data(), q.data(), a.size());
            apply(
                target, 1, t, t, t, [&](Expr x, Expr) { return Mod::make(x, make_const(x.type(), c)); }, a.data(),
                b.data(), r.data(), a.size());
            int wrong = 0;
            for (size_t i = 0; i < a.size(); i++) {
                wrong += q[i] != divide<T>(a[i], T(c)) || r[i] != modulo<T>(a[i], T(c));
            }
            CHECK_MESSAGE(wrong == 0, "by ", c);
        }
    }
}

// ---- 16-bit floats, decoded to and rounded from double, once

double decode(uint16_t bits, bool bfloat) {
    if (bfloat) {
        return std::bit_cast<float>(uint32_t(bits) << 16);
    }
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double v = exponent == 31 ? (fraction ? NAN : INFINITY)
               : exponent     ? std::ldexp(1024 + fraction, exponent - 25)
                              : std::ldexp(fraction, -24);
    return bits & 0x8000 ? -v : v;
}

// Rounds to nearest even with `precision` bits, least exponent `least` (of the last place) and
// overflow from `limit`.
uint16_t encode(long double v, bool bfloat) {
    int precision = bfloat ? 8 : 11, last = bfloat ? -133 : -24, bits = bfloat ? 7 : 10, top = bfloat ? 255 : 31;
    uint16_t sign = std::signbit(v) ? 0x8000 : 0;
    if (std::isnan(v)) {
        return uint16_t(bfloat ? 0x7fc0 : 0x7e00);
    }
    long double a = std::fabs(v);
    if (a == 0) {
        return sign;
    }
    if (std::isinf(a)) {
        return uint16_t(sign | top << bits);
    }
    int e = std::max(std::ilogb(a) - precision + 1, last);
    long double n = std::nearbyint(std::ldexp(a, -e));
    // the hidden bit carries into the exponent
    uint32_t pattern = uint32_t(n) + (uint32_t(e - last) << bits);
    return uint16_t(sign | std::min<uint32_t>(pattern, uint32_t(top) << bits));
}

bool same_half(uint16_t got, uint16_t expected, bool bfloat) {
    bool nan = std::isnan(decode(expected, bfloat));
    return nan ? std::isnan(decode(got, bfloat)) : got == expected;
}

} // namespace

TEST_CASE("integer division") {
    check_division<int8_t>();
    check_division<uint8_t>();
    check_division<int16_t>();
    check_division<uint16_t>();
    check_division<int32_t>();
    check_division<uint32_t>();
    check_division<int64_t>();
    check_division<uint64_t>();
}

TEST_CASE("16-bit floats widen exactly") {
    std::vector<uint16_t> all(65536);
    std::vector<float> y(65536);
    for (int i = 0; i < 65536; i++) {
        all[i] = uint16_t(i);
    }
    for (const CpuTarget &target : targets()) {
        for (bool bfloat : {false, true}) {
            Type t = bfloat ? BFloat(16) : Float(16);
            for (int lanes : {1, 16}) {
                apply(
                    target, lanes, t, t, Float(32),
                    [](Expr a, Expr) { return Cast::make(Float(32, a.type().lanes()), a); }, all.data(), all.data(),
                    y.data(), 65536);
                int wrong = 0;
                for (int i = 0; i < 65536; i++) {
                    double d = decode(uint16_t(i), bfloat);
                    wrong += std::isnan(d) ? !std::isnan(y[i])
                                           : std::bit_cast<uint32_t>(y[i]) != std::bit_cast<uint32_t>(float(d));
                }
                CHECK(wrong == 0);
            }
        }
    }
}

TEST_CASE("floats round once to 16 bits") {
    std::mt19937_64 random(5);
    std::vector<double> d;
    for (int i = 0; i < 65536; i++) { // halves between neighbours, and one step to either side
        for (bool bfloat : {false, true}) {
            double a = decode(uint16_t(i), bfloat), b = decode(uint16_t(i + 1), bfloat);
            if (std::isfinite(a) && std::isfinite(b)) {
                double m = a + (b - a) / 2;
                d.insert(d.end(), {a, m, std::nextafter(m, INFINITY), std::nextafter(m, -INFINITY)});
            }
        }
    }
    d.insert(d.end(), {0., -0., INFINITY, -INFINITY, NAN, 65504, 65519.99, 65520, 1e30, 3.4e38, 3.3961775292304957e38,
                       1e300, 1e-300, 5e-324});
    while (d.size() % 16 || d.size() < 700000) {
        d.push_back(std::bit_cast<double>(random()));
    }
    std::vector<float> f(d.begin(), d.end());
    std::vector<uint16_t> y(d.size());
    for (const CpuTarget &target : targets()) {
        for (bool bfloat : {false, true}) {
            Type t = bfloat ? BFloat(16) : Float(16);
            auto to = [&](Expr a, Expr) { return Cast::make(t.with_lanes(a.type().lanes()), a); };
            for (int lanes : {1, 16}) {
                apply(target, lanes, Float(64), Float(64), t, to, d.data(), d.data(), y.data(), d.size());
                int wrong = 0;
                for (size_t i = 0; i < d.size(); i++) {
                    wrong += !same_half(y[i], encode(d[i], bfloat), bfloat);
                }
                CHECK(wrong == 0);
                apply(target, lanes, Float(32), Float(32), t, to, f.data(), f.data(), y.data(), f.size());
                wrong = 0;
                for (size_t i = 0; i < f.size(); i++) {
                    wrong += !same_half(y[i], encode(f[i], bfloat), bfloat);
                }
                CHECK(wrong == 0);
            }
        }
    }
}

TEST_CASE("arithmetic of 16-bit floats rounds every operation") {
    std::mt19937 random(11);
    std::vector<uint16_t> a(65536), b(65536), y(65536);
    for (int i = 0; i < 65536; i++) {
        a[i] = uint16_t(random());
        b[i] = uint16_t(random());
    }
    for (const CpuTarget &target : targets()) {
        for (bool bfloat : {false, true}) {
            Type t = bfloat ? BFloat(16) : Float(16);
            const std::pair<std::function<Expr(Expr, Expr)>, std::function<long double(double, double)>> ops[] = {
                {[](Expr p, Expr q) { return Add::make(p, q); }, [](double p, double q) { return (long double)p + q; }},
                {[](Expr p, Expr q) { return Sub::make(p, q); }, [](double p, double q) { return (long double)p - q; }},
                {[](Expr p, Expr q) { return Mul::make(p, q); }, [](double p, double q) { return (long double)p * q; }},
                {[](Expr p, Expr q) { return Div::make(p, q); }, [](double p, double q) { return (long double)p / q; }},
                {[](Expr p, Expr q) { return Max::make(p, q); },
                 [](double p, double q) { return (long double)(p > q ? p : q); }},
                {[](Expr p, Expr q) { return Min::make(p, q); },
                 [](double p, double q) { return (long double)(p < q ? p : q); }}};
            for (const auto &[build, exact] : ops) {
                apply(target, 16, t, t, t, build, a.data(), b.data(), y.data(), a.size());
                int wrong = 0;
                for (size_t i = 0; i < a.size(); i++) {
                    wrong +=
                        !same_half(y[i], encode(exact(decode(a[i], bfloat), decode(b[i], bfloat)), bfloat), bfloat);
                }
                CHECK(wrong == 0);
            }
        }
    }
}

namespace {

template<typename T>
void check_int_to_half() {
    std::vector<T> x = integers<T>(9);
    for (int shift = 0; shift < int(sizeof(T)) * 8 - 1; shift++) { // around halves of every size
        for (int64_t lead : {257, 259, 2049, 2051, 511, 4095}) {
            for (int64_t d : {-1, 0, 1}) {
                x.push_back(T(uint64_t(lead) << shift) + T(d));
            }
        }
    }
    while (x.size() % 16) {
        x.push_back(0);
    }
    std::vector<uint16_t> y(x.size());
    for (const CpuTarget &target : targets()) {
        for (bool bfloat : {false, true}) {
            Type t = bfloat ? BFloat(16) : Float(16);
            for (int lanes : {1, 16}) {
                apply(
                    target, lanes, type_of<T>(), type_of<T>(), t,
                    [&](Expr a, Expr) { return Cast::make(t.with_lanes(a.type().lanes()), a); }, x.data(), x.data(),
                    y.data(), x.size());
                int wrong = 0;
                for (size_t i = 0; i < x.size(); i++) {
                    wrong += y[i] != encode((long double)x[i], bfloat);
                }
                CHECK(wrong == 0);
            }
        }
    }
}

template<typename From, typename To>
void check_int_cast() {
    std::vector<From> x = integers<From>(3);
    std::vector<To> y(x.size());
    for (int lanes : {1, 16}) {
        apply(
            CpuTarget::host(), lanes, type_of<From>(), type_of<From>(), type_of<To>(),
            [](Expr a, Expr) { return Cast::make(Halide::type_of<To>().with_lanes(a.type().lanes()), a); }, x.data(),
            x.data(), y.data(), x.size());
        int wrong = 0;
        for (size_t i = 0; i < x.size(); i++) {
            wrong += y[i] != static_cast<To>(x[i]);
        }
        CHECK(wrong == 0);
    }
}

template<typename From>
void check_int_casts() {
    check_int_cast<From, int8_t>();
    check_int_cast<From, uint8_t>();
    check_int_cast<From, int16_t>();
    check_int_cast<From, uint16_t>();
    check_int_cast<From, int32_t>();
    check_int_cast<From, uint32_t>();
    check_int_cast<From, int64_t>();
    check_int_cast<From, uint64_t>();
    check_int_cast<From, float>();
    check_int_cast<From, double>();
    check_int_to_half<From>();
}

template<typename F, typename To>
void check_float_to_int() {
    std::vector<F> x = {F(0),    F(-0.5),  F(0.9),    F(-0.9), F(-1),   F(1.5),
                        F(-1.5), INFINITY, -INFINITY, NAN,     F(1e30), F(-1e30)};
    for (int bits = 1; bits <= 66; bits++) {
        for (F sign : {F(1), F(-1)}) {
            F edge = sign * std::ldexp(F(1), bits);
            x.insert(x.end(), {edge, std::nextafter(edge, F(0)), std::nextafter(edge, edge * 2), edge + 1, edge - 1,
                               edge - F(0.5)});
        }
    }
    while (x.size() % 16) {
        x.push_back(0);
    }
    std::vector<To> y(x.size());
    for (const CpuTarget &target : targets()) {
        for (int lanes : {1, 16}) {
            apply(
                target, lanes, type_of<F>(), type_of<F>(), type_of<To>(),
                [](Expr a, Expr) { return Cast::make(Halide::type_of<To>().with_lanes(a.type().lanes()), a); },
                x.data(), x.data(), y.data(), x.size());
            int wrong = 0;
            for (size_t i = 0; i < x.size(); i++) {
                long double v = x[i];
                To expected = std::isnan(v)                                      ? To(0)
                              : v <= (long double)std::numeric_limits<To>::min() ? std::numeric_limits<To>::min()
                              : v >= (long double)std::numeric_limits<To>::max() ? std::numeric_limits<To>::max()
                                                                                 : To(v);
                wrong += y[i] != expected;
            }
            CHECK(wrong == 0);
        }
    }
}

template<typename F>
void check_float_casts() {
    check_float_to_int<F, int8_t>();
    check_float_to_int<F, uint8_t>();
    check_float_to_int<F, int16_t>();
    check_float_to_int<F, uint16_t>();
    check_float_to_int<F, int32_t>();
    check_float_to_int<F, uint32_t>();
    check_float_to_int<F, int64_t>();
    check_float_to_int<F, uint64_t>();
}

} // namespace

TEST_CASE("casts from integers") {
    check_int_casts<int8_t>();
    check_int_casts<uint8_t>();
    check_int_casts<int16_t>();
    check_int_casts<uint16_t>();
    check_int_casts<int32_t>();
    check_int_casts<uint32_t>();
    check_int_casts<int64_t>();
    check_int_casts<uint64_t>();
}

TEST_CASE("casts from floats to integers saturate, NaN gives 0") {
    check_float_casts<float>();
    check_float_casts<double>();
}

TEST_CASE("clamped floats become integers as without a clamp, and NaN as the clamp says") {
    std::vector<float> x = {0,       -0.5f,  0.5f,   1.5f, 2.5f,     126.5f,    127.5f, -127.5f,
                            -128.5f, 254.5f, 255.5f, NAN,  INFINITY, -INFINITY, 1e30f,  -1e30f};
    const auto check = [&]<typename To>(To, bool round, float low, float high, float plus, bool low_first) {
        std::vector<To> y(x.size());
        for (const CpuTarget &target : targets()) {
            apply(
                target, 16, Float(32), Float(32), type_of<To>(),
                [&](Expr a, Expr) {
                    const auto number = [&](float n) { return make_const(a.type(), n); };
                    Expr e = round ? Call::make(a.type(), Call::round, {a}, Call::PureIntrinsic) : a;
                    e = low_first ? Min::make(Max::make(e, number(low)), number(high))
                                  : Max::make(Min::make(e, number(high)), number(low));
                    if (plus != 0) e = Add::make(e, number(plus));
                    return Cast::make(Halide::type_of<To>().with_lanes(a.type().lanes()), e);
                },
                x.data(), x.data(), y.data(), int64_t(x.size()));
            for (size_t i = 0; i < x.size(); i++) {
                float v = round ? std::nearbyint(x[i]) : x[i];
                if (low_first) v = v > low ? v : low;
                v = v < high ? v : high;
                v = v > low ? v : low;
                v += plus;
                const float least = std::numeric_limits<To>::min(), most = std::numeric_limits<To>::max();
                const To expected = v <= least ? To(least) : v >= most ? To(most) : To(v);
                CHECK_MESSAGE(y[i] == expected, x[i] << " in [" << low << ", " << high << "] + " << plus);
            }
        }
    };
    for (const bool round : {false, true}) {
        for (const bool low_first : {false, true}) {
            for (const float plus : {0.0f, 3.0f, -128.0f}) {
                check(int8_t(), round, -127, 127, plus, low_first);
                check(int8_t(), round, -200, 5, plus, low_first);
                check(uint8_t(), round, 0, 255, plus, low_first);
                check(uint8_t(), round, -7, 300, plus, low_first);
                check(int16_t(), round, -2.5f, 40000.5f, plus, low_first);
            }
        }
    }
    check(int32_t(), false, -5, 5, 0, false);
}

TEST_CASE("a cast after a clamp to the range of its type does not clamp again") {
    if (!CpuTarget::level("x86-64-avx512").missing_on(CpuTarget::host()).empty()) return;
    Nest n;
    n.name = "quantise";
    n.tensors = {tensor("x", Float(32), false, 16), tensor("y", Int(8), true, 16)};
    const auto number = [](float x) { return Broadcast::make(x, 16); };
    const Expr rounded =
        Call::make(Float(32, 16), Call::round, {load(Float(32, 16), "x", ramp(0, 16))}, Call::PureIntrinsic);
    n.body = store("y", Cast::make(Int(8, 16), Max::make(Min::make(rounded, number(127)), number(-127))), ramp(0, 16));
    JitOptions options;
    options.codegen.target = CpuTarget::level("x86-64-avx512");
    options.keep_text = true;
    const std::string text = JitModule({n}, options).assembly();
    const auto count = [&](const std::string &what) {
        size_t found = 0;
        for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) found++;
        return found;
    };
    CHECK(count("vminps") == 1);
    CHECK(count("vmaxps") == 1);
    CHECK(count("vrndscaleps") == 0);
}

TEST_CASE("bool in memory is a byte") {
    std::vector<uint8_t> a(64), y(64);
    std::vector<float> f(64);
    for (int i = 0; i < 64; i++) {
        a[i] = i % 3 == 0;
        f[i] = i % 5 == 0 ? 0.f : i % 5 == 1 ? NAN : -0.5f;
    }
    for (int lanes : {1, 16}) {
        apply(
            CpuTarget::host(), lanes, Bool(), Float(32), Bool(),
            [](Expr x, Expr z) { return And::make(x, Cast::make(Bool(z.type().lanes()), z)); }, a.data(), f.data(),
            y.data(), 64);
        for (int i = 0; i < 64; i++) {
            CHECK(y[i] == (a[i] && f[i] != 0.f));
        }
    }
}

TEST_CASE("min and max of floats return the second operand for NaN") {
    std::vector<float> a = {1, 2, NAN, 1, NAN, 0.f, -0.f, INFINITY}, b = {2, 1, 1, NAN, NAN, -0.f, 0.f, 3}, y(8);
    for (int lanes : {1, 8}) {
        apply(
            CpuTarget::host(), lanes, Float(32), Float(32), Float(32), [](Expr p, Expr q) { return Max::make(p, q); },
            a.data(), b.data(), y.data(), 8);
        for (int i = 0; i < 8; i++) {
            CHECK(std::bit_cast<uint32_t>(y[i]) == std::bit_cast<uint32_t>(a[i] > b[i] ? a[i] : b[i]));
        }
        apply(
            CpuTarget::host(), lanes, Float(32), Float(32), Float(32), [](Expr p, Expr q) { return Min::make(p, q); },
            a.data(), b.data(), y.data(), 8);
        for (int i = 0; i < 8; i++) {
            CHECK(std::bit_cast<uint32_t>(y[i]) == std::bit_cast<uint32_t>(a[i] < b[i] ? a[i] : b[i]));
        }
    }
}

TEST_CASE("shifts, bits, abs") {
    std::vector<int32_t> a = integers<int32_t>(1), b(a.size()), y(a.size());
    for (size_t i = 0; i < b.size(); i++) {
        b[i] = int(i % 80) - 40;
    }
    auto shift = [](int64_t v, int n) -> int32_t { // left, or right when negative
        if (n >= 0) {
            return n >= 32 ? 0 : int32_t(uint32_t(v) << n);
        }
        return int32_t(v >> std::min(-n, 31));
    };
    for (int lanes : {1, 16}) {
        apply(
            CpuTarget::host(), lanes, Int(32), Int(32), Int(32),
            [](Expr p, Expr q) {
                return Call::make(p.type(), Call::shift_left, {p, q}, Call::PureIntrinsic);
            },
            a.data(), b.data(), y.data(), a.size());
        int wrong = 0;
        for (size_t i = 0; i < a.size(); i++) {
            wrong += y[i] != shift(a[i], b[i]);
        }
        apply(
            CpuTarget::host(), lanes, Int(32), Int(32), Int(32),
            [](Expr p, Expr q) {
                return Call::make(p.type(), Call::shift_right, {p, q}, Call::PureIntrinsic);
            },
            a.data(), b.data(), y.data(), a.size());
        for (size_t i = 0; i < a.size(); i++) {
            wrong += y[i] != shift(a[i], -b[i]);
        }
        apply(
            CpuTarget::host(), lanes, Int(32), Int(32), Int(32),
            [](Expr p, Expr q) {
                auto call = [&](Call::IntrinsicOp op, std::vector<Expr> args) {
                    return Call::make(p.type(), op, args, Call::PureIntrinsic);
                };
                return call(Call::bitwise_xor, {call(Call::bitwise_and, {p, q}),
                                                call(Call::bitwise_not, {call(Call::bitwise_or, {p, q})})});
            },
            a.data(), b.data(), y.data(), a.size());
        for (size_t i = 0; i < a.size(); i++) {
            wrong += y[i] != ((a[i] & b[i]) ^ ~(a[i] | b[i]));
        }
        std::vector<uint32_t> u(a.size());
        apply(
            CpuTarget::host(), lanes, Int(32), Int(32), UInt(32), [](Expr p, Expr q) { return Halide::absd(p, q); },
            a.data(), b.data(), u.data(), a.size());
        for (size_t i = 0; i < a.size(); i++) {
            wrong += u[i] != uint32_t(std::abs(int64_t(a[i]) - b[i]));
        }
        CHECK(wrong == 0);
    }
}

TEST_CASE("arcs of f64 go through the C library") {
    std::vector<double> a(64), y(64);
    for (int i = 0; i < 64; i++) {
        a[i] = i * 0.1 - 2;
    }
    apply(
        CpuTarget::host(), 4, Float(64), Float(64), Float(64),
        [](Expr p, Expr) {
            return Call::make(p.type(), "atan_f64", {Call::make(p.type(), "tan_f64", {p}, Call::PureExtern)},
                              Call::PureExtern);
        },
        a.data(), a.data(), y.data(), 64);
    for (int i = 0; i < 64; i++) {
        CHECK(y[i] == std::atan(std::tan(a[i])));
    }
}
