// compile(op) gives a kernel for every legal op: long chains, nested expressions, extents near
// 2^31.
// Sanitized: --test-case-exclude=*nested*,*hundreds*
#include "driver/kernel.h"
#include "dsl/interpret.h"
#include "dsl/math.h"
#include "dsl/padding.h"
#include "ops/registry.h"
#include "schedules/library/table.h"
#include "support/error.h"
#include "targets/cpu/object.h"

#include <doctest/doctest.h>

#include <utility>

using namespace kumiko;

namespace {

// n stages, each computed from the previous one by f.
Op chain(int n, const std::function<Expr(const Tensor &, const Axis &)> &f) {
    Axis j("j", 200 + n);
    Tensor X = input("X", f32, {j}), T = X;
    for (int k = 1; k <= n; k++) {
        Axis i("i", 200 + n - k);
        T = compute("T" + std::to_string(k), {i}, f(T, i));
    }
    return Op("chain", {X}, {T});
}

void check_default(const Op &op, const std::string &schedule) {
    const Kernel kernel = compile(op);
    CHECK_EQ(kernel.report().schedule, schedule);
    CHECK(kernel.report().passed_over.empty());
    Buffer<> x = make_input(op.inputs()[0], {}), y = make_output(op, op.outputs()[0], {});
    fill_random(x, 1, 0, 1);
    fill_unwritten(y);
    kernel(std::vector<Buffer<>>{x, y});
    CHECK_NOTHROW(
        check_close(y, interpret(op, std::vector<Buffer<>>{x}).front(), {.relative = 1e-5, .absolute = 1e-6}));
}

// Upsampling by two along both axes.
Tensor upsampled(const std::string &name, const Tensor &X, int H, int W) {
    Axis y("y", H), x("x", W), ys("ys", X.axes()[0].extent());
    Tensor P = clamped(X);
    Tensor U = compute(name + "h", {ys, x}, P(ys, x / 2) * 0.75f + P(ys, x / 2 - 1 + 2 * (x % 2)) * 0.25f);
    Tensor PU = clamped(U);
    return compute(name, {y, x}, PU(y / 2, x) * 0.75f + PU(y / 2 - 1 + 2 * (y % 2), x) * 0.25f);
}

} // namespace

TEST_CASE("chains of stages that are read more than once") {
    check_default(chain(30, [](const Tensor &T, const Axis &i) { return (T(i) + T(i + 1)) * 0.5f; }), "elementwise");
    check_default(chain(18, [](const Tensor &T, const Axis &i) { return T(i) / (1.f + exp(-T(i))); }), "elementwise");
    check_default(chain(20, [](const Tensor &T, const Axis &i) { return T(i) / 2.f + T(i) * T(i) / 100.f; }),
                  "elementwise");
}

TEST_CASE("chains of stages that are read both plainly and through padding") {
    Axis y("y", 24), x("x", 31);
    Tensor X = input("X", f32, {y, x}), T = X, U = X;
    for (int k = 1; k <= 12; k++) {
        const Tensor P = zero_padded(T), Q = clamped(U);
        T = compute("T" + std::to_string(k), {y, x},
                    T(y, x) + 0.1f * (P(y - 1, x) + P(y + 1, x) + P(y, x - 1) + P(y, x + 1) - 4.f * P(y, x)));
        U = compute("U" + std::to_string(k), {y, x}, U(y, x) * 0.5f + Q(y, x - 1) * 0.25f + Q(y, x + 1) * 0.25f);
    }
    check_default(Op("heat", {X}, {T}), "elementwise");
    check_default(Op("smooth", {X}, {U}), "elementwise");
}

TEST_CASE("chains whose stages are read by two others each") {
    Axis y("y", 24), x("x", 31);
    Tensor X = input("X", f32, {y, x}), T = X;
    for (int k = 1; k <= 16; k++) {
        const std::string n = std::to_string(k);
        Tensor mean = compute("mean" + n, {y}, sum(T(y, x), x) / 64.f);
        T = compute("T" + n, {y, x}, T(y, x) - mean(y));
    }
    check_default(Op("norms", {X}, {T}), "rows");
}

TEST_CASE("a stage that holds another in its loops is not inlined") {
    Axis y("y", 24), x("x", 31);
    Tensor X = input("X", f32, {y, x});
    Tensor T = compute("T", {y, x}, X(y, x) * 0.5f), P = zero_padded(T, {x});
    Tensor U = compute("U", {y, x}, P(y, x - 1) + P(y, x + 1));
    check_default(Op("held", {X}, {compute("Y", {y, x}, U(y, x) + 1.f)}), "elementwise");
}

TEST_CASE("a stage computed at a loop that the default would divide") {
    Axis y("y", 128), x("x", 128);
    Tensor X = input("X", f32, {y, x});
    check_default(Op("up", {X}, {upsampled("U2", upsampled("U1", X, 256, 256), 512, 512)}), "elementwise");
}

TEST_CASE("reductions that read one array, of which not all is alike") {
    Axis k("k", 64), x("x", 100);
    Tensor X = input("X", f32, {k, x});
    Tensor most = compute("most", {x}, maximum(X(k, x), k)), at = compute("at", {x}, argmax(X(k, x), k));
    check_default(Op("both", {X}, {compute("Y", {x}, most(x) * cast<float>(at(x)))}), "elementwise");
    Axis b("b", 64), r("r", 66), y("y", 64), w("w", 5), c("c", 104);
    Tensor Z = input("Z", f32, {b, r, c});
    Tensor T = compute("T", {b, r, x}, sum(Z(b, r, x + w), w)), U = compute("U", {b, r, x}, maximum(Z(b, r, x + w), w));
    check_default(
        Op("rows", {Z}, {compute("Y", {b, y, x}, T(b, y, x) + T(b, y + 1, x) + T(b, y + 2, x) + U(b, y + 1, x))}),
        "elementwise");
}

TEST_CASE("hundreds of stages") {
    Axis i("i", 8);
    Tensor X = input("X", f32, {i}), T = X;
    for (int k = 0; k < 300; k++) T = compute("T" + std::to_string(k), {i}, T(i) + 1.f);
    check_default(Op("many", {X}, {T}), "elementwise");
    for (int k = 300; k < 2001; k++) T = compute("T" + std::to_string(k), {i}, T(i) + 1.f);
    CHECK_THROWS_WITH_AS(
        compile(Schedule(Op("most", {X}, {T}))),
        doctest::Contains("op most keeps 2001 stages in memory, and a kernel has at most 2000; inline"), UserError);
}

TEST_CASE("expressions that are small as graphs and vast as trees") {
    Axis i("t0", 200), j("t1", 300); // which are also names that Halide makes
    Tensor X = input("X", f32, {j});
    Expr square = X(i) * 0.5f + 0.5f, fibonacci = X(i), before = X(i + 1), mixed = X(i);
    for (int k = 0; k < 30; k++) {
        square = square * square * 0.5f + 0.5f;
        before = std::exchange(fibonacci, fibonacci * 0.4f + before * 0.6f);
        mixed = select(mixed > 0.5f, mixed * X(i + k), mixed + 0.25f) * 0.9f;
    }
    for (const Expr &e : {square, fibonacci, mixed})
        check_default(Op("shared", {X}, {compute("Y", {i}, e)}), "elementwise");
    const auto text = [&] { return Op("shared", {X}, {compute("Y", {i}, square)}).to_string(); };
    CHECK(text() == text());
    Axis k("k", 40);
    Expr term = X(i + k);
    for (int n = 0; n < 30; n++) term = term * term * 0.5f + 0.5f;
    check_default(Op("sums", {X}, {compute("Y", {i}, sum(term, {k}))}), "elementwise");
    Tensor T = compute("T", {j}, X(j) * 2.f);
    Expr integer = cast<int32_t>(X(i) * 8.f), place = i;
    for (int n = 0; n < 20; n++) integer = integer * integer % 1001 + 1, place = (place + place) % 200;
    check_default(Op("integers", {X}, {compute("Y", {i}, cast<float>(integer) + T(place))}), "elementwise");
}

TEST_CASE("a function that stands in an expression many times is written once") {
    Axis i("i", 100);
    Tensor X = input("X", f32, {i}), P = zero_padded(X);
    const auto nested = [&](int n) {
        Expr e = X(i), padded = P(i - 1);
        for (int k = 0; k < n; k++) e = e / (1.f + exp(-e)), padded = padded / (1.f + exp(-padded));
        return Op("nested", {X}, {compute("Y", {i}, select(X(i) > 0.f, e, exp(e)) + padded * exp(e))});
    };
    check_default(nested(5), "elementwise");
    // 31 times as trees
    CHECK(compile(nested(5)).assembly().size() < 6 * compile(nested(1)).assembly().size());
}

TEST_CASE("expressions are nested to a limit") {
    Axis i("i", 8);
    Tensor X = input("X", f32, {i});
    const auto nested = [&](int n) {
        Expr e = X(i);
        for (int k = 0; k < n; k++) e = e * 0.5f + 1.f;
        return compute("Y", {i}, e);
    };
    check_default(Op("deep", {X}, {nested(2000)}), "elementwise");
    for (const int n : {5001, 40000, 200000})
        CHECK_THROWS_WITH_AS(
            nested(n), doctest::Contains("is nested more than 10000 deep; divide it into several stages"), UserError);
    Tensor T = X;
    const auto chained = [&] {
        for (int k = 0; k < 5001; k++) T = compute("T" + std::to_string(k), {i}, T(i) + 1.f);
    };
    CHECK_THROWS_WITH_AS(chained(),
                         doctest::Contains("is the last of a chain of stages whose expressions are nested more than "
                                           "10000 deep in all; divide the chain into several ops"),
                         UserError);
}

TEST_CASE("a kept stage of more than 2^31 elements") {
    Axis i("i", 46341), j("j", 46341);
    Tensor X = input("X", u8, {i, j}, {.strides = {0, 1}});
    Tensor T = compute("T", {i, j}, X(i, j) + cast<uint8_t>(1));
    Op op("wide", {X}, {compute("Y", {j}, sum(cast<int>(T(i, j)), i))});
    Schedule s(op);
    s.stage("T").compute_root();
    CHECK_NOTHROW(compile(s));
    CHECK_NOTHROW(compile(op));
}

TEST_CASE("extents near 2^31") {
    for (const int n : {2147483632, 2147483640, 2147483646, 2147483647}) {
        Axis i("i", n);
        Tensor X = input("X", u8, {i}, {.strides = {0}});
        Op op("ones", {X}, {compute("s", {}, sum(cast<int64_t>(X(i)), i))});
        CAPTURE(n);
        CHECK_NOTHROW(compile(op));
    }
    for (const auto &[n, factor] : {std::pair(2147483632, 16), std::pair(2147483640, 8), std::pair(2147483646, 2)}) {
        Axis i("i", n);
        Tensor X = input("X", u8, {i}, {.strides = {0}});
        Schedule s(Op("ones", {X}, {compute("s", {}, sum(cast<int64_t>(X(i)), i))}));
        s.stage("s").split("i", factor);
        const std::string nest = s.nest();
        CHECK(nest.find("overflow") == std::string::npos);
        CHECK(nest.find("for i.o in 0.." + std::to_string(n / factor)) != std::string::npos);
        CHECK_NOTHROW(compile(s));
    }
}

TEST_CASE("the report says which schedule was taken and why others were not") {
    Axis i("i", 2147483647);
    Tensor X = input("X", u8, {i}, {.strides = {0}});
    const Kernel kernel = compile(Op("ones", {X}, {compute("s", {}, sum(cast<int64_t>(X(i)), i))}));
    CHECK_EQ(kernel.report().schedule, "stages");
    REQUIRE_EQ(kernel.report().passed_over.size(), 3);
    CHECK_EQ(kernel.report().passed_over[0].name, "reduce");
    CHECK_EQ(kernel.report().passed_over[1].name, "elementwise");
    CHECK_EQ(kernel.report().passed_over[2].name, "apart");
    for (const PassedOver &other : kernel.report().passed_over) {
        CHECK(other.reason.starts_with("split(\"i\", "));
        CHECK(!other.internal);
    }
    const std::vector<std::string> &warnings = kernel.warnings();
    REQUIRE_GE(warnings.size(), 2);
    CHECK(warnings.back().starts_with("the default schedule is \"stages\", since \"apart\" does not apply: split"));
}

TEST_CASE("the last candidates apply to ops of the library") {
    for (const char *name : {"matmul", "softmax"}) {
        const Op op = ops::make(name, std::string(name) == "matmul" ? Json{{"m", 20}, {"n", 30}, {"k", 40}}
                                                                    : Json{{"m", 20}, {"n", 30}});
        const auto candidates = default_candidates(op, Machine::host());
        REQUIRE(candidates.size() >= 3);
        CHECK_EQ(candidates.back().name, "plain");
        CHECK_EQ(candidates[candidates.size() - 2].name, "stages");
        for (size_t n = candidates.size() - 2; n < candidates.size(); n++) {
            const Kernel kernel = compile(candidates[n].make().schedule);
            std::vector<Buffer<>> arguments;
            for (const Input &in : op.inputs()) {
                arguments.push_back(make_input(in, {}));
                fill_random(arguments.back(), arguments.size(), -1, 1);
            }
            const auto expected = interpret(op, arguments);
            arguments.push_back(make_output(op, op.outputs()[0], {}));
            kernel(arguments);
            CHECK_NOTHROW(check_close(arguments.back(), expected.front()));
        }
    }
}

TEST_CASE("sizes may be as large as the header says, and no larger") {
    const Op op = ops::make("matmul", Json{{"m", "M"}, {"n", "N"}, {"k", "K"}});
    const Kernel kernel = compile(op);
    const SizeLimits limits = size_limits(kernel.nest());
    const auto call = [&](const std::string &large, int64_t n) {
        Sizes sizes = {{"M", 0}, {"N", 0}, {"K", 0}};
        sizes[large] = n;
        std::vector<Buffer<>> arguments;
        for (const Input &in : op.inputs()) arguments.push_back(make_input(in, sizes));
        arguments.push_back(make_output(op, op.outputs()[0], sizes));
        kernel(arguments);
    };
    for (const char *size : {"M", "N", "K"}) {
        const int64_t most = limits.most.at(size);
        CHECK(most > 2147480000);
        try {
            call(size, most);
        } catch (const std::exception &e) { // a workspace as large as that
            CHECK(std::string(e.what()).find("no memory") != std::string::npos);
        }
        if (most < INT32_MAX)
            CHECK_THROWS_WITH_AS(call(size, most + 1), doctest::Contains("the most for which"), UserError);
    }
}
