// Functions on the chip's vector units: every fp16 input, simulated, compared with double and with
// the host's evaluation of the same program.
// Links: schedules/library ops
// Sanitized: --test-case=operations*,casts*
#include "dsl/interpret.h"
#include "ops/ops.h"
#include "schedules/library/chip_elementwise.h"
#include "support/half.h"
#include "targets/chip/compile.h"
#include "targets/chip/vector/from_expr.h"
#include "targets/chip/vector/functions.h"

#include <cfloat>
#include <cmath>
#include <doctest/doctest.h>

using namespace kumiko;

namespace {

const sim::Config &small() {
    static const sim::Config config = sim::Config::load("small");
    return config;
}

// The op's only output for these inputs, with the library's schedule on `small`.
Buffer<> simulated(const Op &op, std::vector<Buffer<>> arrays) {
    const Machine machine = chip_machine(small());
    const ChipProgram p = compile_chip(
        library::schedule_chip_elementwise(op, machine, library::chip_elementwise_parameters(op, machine)), small());
    arrays.push_back(make_output(op, op.outputs().front(), {}));
    fill_unwritten(arrays.back());
    p.run(arrays);
    return arrays.back();
}

Buffer<> every_half() {
    Buffer<> x(f16, {65536});
    auto *bits = static_cast<uint16_t *>(x.data());
    for (int i = 0; i < 65536; i++) bits[i] = uint16_t(i);
    return x;
}

chip::VectorProgram program_of(const Op &op) {
    chip::VectorBuilder b;
    b.result(chip::take_expression(b, op.stages().front().value, "test", [&](const Expr &e) -> chip::Id {
        return e.as<Halide::Internal::Call>() ? b.read(0, chip::vector_type(e.type(), "test")) : -1;
    }));
    return b.program();
}

double unit_of_half(double at) {
    int e;
    std::frexp(at, &e);
    return std::ldexp(1.0, std::max(e - 11, -24));
}

double silu(double x) { return x < -700 ? -0.0 : x / (1 + std::exp(-x)); }
double gelu(double x) { return x < -40 ? -0.0 : x / 2 * std::erfc(-x * M_SQRT1_2); }
double gelu_tanh(double x) {
    return x < -40 ? -0.0 : x / (1 + std::exp(-2 * std::sqrt(M_2_PI * 2) * (x + 0.044715 * x * x * x) / M_SQRT2));
}

struct Function {
    const char *name;
    double (*exact)(double); // null: only compared with the host
};

} // namespace

TEST_CASE("functions of every fp16, to 2 units in the last place, and as the host evaluates them") {
    const Function functions[] = {
        {"exp", [](double x) { return std::exp(x); }},
        {"tanh", [](double x) { return std::tanh(x); }},
        {"erf", [](double x) { return std::erf(x); }},
        {"sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }},
        {"rsqrt", [](double x) { return 1 / std::sqrt(x); }},
        {"sqrt", [](double x) { return std::sqrt(x); }},
        {"log", [](double x) { return std::log(x); }},
        {"reciprocal", [](double x) { return 1 / x; }},
        {"softplus",
         [](double x) { return std::isnan(x) ? x : std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }},
        {"silu", silu},
        {"gelu", gelu},
        {"gelu_tanh", gelu_tanh},
        {"erfc", [](double x) { return std::erfc(x); }},
        {"expm1", [](double x) { return std::expm1(x); }},
        {"log1p", [](double x) { return std::log1p(x); }},
        {"relu", [](double x) { return x > 0 ? x : 0; }},
        {"abs", [](double x) { return std::abs(x); }},
        {"neg", [](double x) { return -x; }},
        {"floor", [](double x) { return std::floor(x); }},
        {"ceil", [](double x) { return std::ceil(x); }},
        {"round", [](double x) { return std::nearbyint(x); }},
        {"trunc", [](double x) { return std::trunc(x); }},
        {"relu6", nullptr},
        {"leaky_relu", nullptr},
        {"hard_sigmoid", nullptr},
        {"hard_swish", nullptr},
        {"square", nullptr},
        {"sign", nullptr},
    };
    const Buffer<> x = every_half();
    for (const Function &f : functions) {
        CAPTURE(std::string(f.name));
        const Op op = ops::unary(f.name, f16, 65536);
        const Buffer<> y = simulated(op, {x});
        const auto *out = static_cast<const uint16_t *>(y.data());
        const chip::VectorProgram p = program_of(op);
        int unlike_host = 0, wrong = 0;
        double worst = 0;
        for (uint32_t i = 0; i < 65536; i++) {
            const double from = double(float_from_half(uint16_t(i))), to = double(float_from_half(out[i]));
            unlike_host += evaluate(p, {i}) != out[i];
            if (!f.exact) continue;
            const double exact = f.exact(from);
            if (std::isnan(exact) || std::isnan(to)) {
                wrong += !(std::isnan(exact) && std::isnan(to));
                continue;
            }
            const double rounded = double(float_from_half(half_from_float(float(exact))));
            if (std::isinf(rounded) || std::isinf(to)) {
                wrong += rounded != to && !(std::abs(exact) > 65500 && std::abs(to) > 65500);
                continue;
            }
            worst = std::max(worst, std::abs(to - exact) / unit_of_half(exact));
        }
        CAPTURE(f.name);
        CHECK(unlike_host == 0);
        CHECK(wrong == 0);
        CHECK(worst <= 2);
    }
}

TEST_CASE("functions of f32, as the host evaluates them") {
    const int n = 4096;
    Buffer<> x(f32, {n});
    auto *in = static_cast<float *>(x.data());
    Random r(7);
    for (int i = 0; i < n; i++) in[i] = __builtin_bit_cast(float, uint32_t(r()));
    for (int i = 0; i < 1024; i++) in[i] = float(i - 512) / 37;
    const float ends[] = {0.f, -0.f, INFINITY, -INFINITY, NAN, 1e-45f, -1e-45f, 3.4e38f, 1.17549435e-38f};
    std::copy(std::begin(ends), std::end(ends), in);
    for (const char *name : {"exp", "log", "tanh", "erf", "erfc", "expm1", "log1p", "sigmoid", "sqrt", "rsqrt",
                             "reciprocal", "floor", "silu", "gelu", "gelu_tanh", "softplus"}) {
        CAPTURE(std::string(name));
        const Op op = ops::unary(name, f32, n);
        const Buffer<> y = simulated(op, {x});
        const auto *out = static_cast<const uint32_t *>(y.data());
        const chip::VectorProgram p = program_of(op);
        int unlike_host = 0;
        for (int i = 0; i < n; i++) unlike_host += evaluate(p, {__builtin_bit_cast(uint32_t, in[i])}) != out[i];
        CHECK(unlike_host == 0);
        const Bounded expected = interpret_with_bound(op, {x}, {});
        CHECK_NOTHROW(check_within(y, expected.values.front(), expected.bounds.front()));
    }
}

TEST_CASE("functions of f32 are within 4 units in the last place") {
    const Function functions[] = {
        {"silu", silu},
        {"gelu", gelu},
        {"gelu_tanh", gelu_tanh},
        {"softplus", [](double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }},
        {"erfc", [](double x) { return std::erfc(x); }},
        {"expm1", [](double x) { return std::expm1(x); }},
        {"log1p", [](double x) { return std::log1p(x); }},
        {"sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }},
        {"tanh", [](double x) { return std::tanh(x); }},
    };
    std::vector<float> in;
    Random r(9);
    for (uint32_t exponent = 0; exponent < 255; exponent++) {
        const int count = exponent > 100 && exponent < 136 ? 300 : 20;
        for (int k = 0; k < count; k++)
            in.push_back(__builtin_bit_cast(float, (uint32_t(r()) & 0x807fffffu) | exponent << 23));
    }
    for (int k = -5000; k < 5000; k++) in.push_back(float(k) * (110.f / 5000));
    for (const Function &f : functions) {
        CAPTURE(std::string(f.name));
        const chip::VectorProgram p = program_of(ops::unary(f.name, f32, 16));
        double worst = 0, at = 0;
        for (const float x : in) {
            const double exact = f.exact(x);
            if (std::isnan(exact) || std::abs(exact) > FLT_MAX) continue;
            const double got = __builtin_bit_cast(float, evaluate(p, {__builtin_bit_cast(uint32_t, x)}));
            const int exponent = exact == 0 ? -149 : std::max(std::ilogb(exact) - 23, -149);
            const double units = std::abs(got - exact) / std::ldexp(1.0, exponent);
            if (units > worst) worst = units, at = x;
        }
        CAPTURE(f.name);
        CAPTURE(at);
        CHECK(worst <= 4);
    }
}

TEST_CASE("quotients of f32 are rounded to nearest") {
    chip::VectorBuilder b;
    b.result(chip::divide(b, b.read(0, sim::Type::F32), b.read(1, sim::Type::F32)));
    const chip::VectorProgram p = b.program();
    Random r(3);
    const auto divided = [&](float x, float y) {
        return __builtin_bit_cast(float,
                                  evaluate(p, {__builtin_bit_cast(uint32_t, x), __builtin_bit_cast(uint32_t, y)}));
    };
    int wrong = 0;
    for (int i = 0; i < 100000; i++) {
        const auto random = [&] {
            return __builtin_bit_cast(float, uint32_t((r() & 0x807fffff) | (64 + r.below(128)) << 23));
        };
        const float x = random(), y = random();
        wrong += divided(x, y) != x / y;
    }
    CHECK(wrong == 0);
    CHECK(divided(1, 0) == INFINITY);
    CHECK(divided(-1, 0) == -INFINITY);
    CHECK(divided(1, -0.f) == -INFINITY);
    CHECK(std::isnan(divided(0, 0)));
    CHECK(std::isnan(divided(INFINITY, INFINITY)));
    CHECK(divided(5, INFINITY) == 0);
    CHECK(std::signbit(divided(5, -INFINITY)));
    CHECK(divided(3.4e38f, 1e-40f) == INFINITY);
    CHECK(divided(1e-45f, 1e-45f) == 1);
}

TEST_CASE("operations of two tensors, and choices") {
    const Machine machine = chip_machine(small());
    for (const char *name : {"div", "max", "min", "silu_mul", "squared_difference"}) {
        for (const Type t : {f16, f32}) {
            CAPTURE(std::string(name));
            const Op op = ops::binary(name, t, 3000);
            const std::vector<Buffer<>> in = {random_buffer(t, {3000}, 1), random_buffer(t, {3000}, 2)};
            const Buffer<> y = simulated(op, in);
            const Bounded expected = interpret_with_bound(op, in, {});
            CHECK_NOTHROW(check_within(y, expected.values.front(), expected.bounds.front()));
        }
    }
    // f16 in and f32 out, and vice versa; integers; conditions.
    Axis i("i", 1000);
    Tensor A = input("A", f16, {i}), B = input("B", f32, {i});
    const Op mixed("mixed", {A, B}, {compute("Y", {i}, cast(f32, A(i)) * 3.0f + B(i))});
    const Op back("back", {A, B},
                  {compute("Y", {i}, cast(f16, select(B(i) > 0.f && cast(f32, A(i)) < B(i), B(i), cast(f32, A(i)))))});
    for (const Op &op : {mixed, back}) {
        CAPTURE(op.to_string());
        Schedule s(op, machine);
        auto Y = s.stage("Y");
        Y.split("i", 4, {"io", "v"});
        Y.split("io", 4, {"im", "pe"});
        Y.split("im", 2, {"il", "mab"});
        Y.split("il", 2, {"it", "l1b"});
        Y.split("it", 8, {"t", "w"});
        Y.reorder({"t", "l1b", "mab", "pe", "w", "v"});
        Y.bind("l1b", "L1B").bind("mab", "MAB").bind("pe", "PE").vectorize("v");
        s.place_in("A", "LM0", "Y", "t");
        s.place_in("B", "LM1", "Y", "t");
        const std::vector<Buffer<>> in = {random_integers(f16, {1000}, 1), random_integers(f32, {1000}, 2)};
        std::vector<Buffer<>> arrays = in;
        arrays.push_back(make_output(op, "Y", {}));
        fill_unwritten(arrays.back());
        compile_chip(s, small()).run(arrays);
        CHECK(difference(arrays.back(), interpret(op, in).front()) == "");
    }
}

TEST_CASE("casts of numbers that i32 cannot hold") {
    Axis i("i", 100);
    Tensor A = input("A", i32, {i});
    const Buffer<> a = random_integers(i32, {100}, 1, -9, 9);
    for (const double v : {1e30, -1e30, 2.75, double(NAN)}) {
        CAPTURE(v);
        Tensor C = compute("C", {i}, Halide::Internal::make_const(f32, v));
        const Op op("most", {A}, {compute("Y", {i}, max(A(i), cast(i32, C(i))))});
        CHECK(difference(simulated(op, {a}), interpret(op, a)[0]) == "");
    }
}
