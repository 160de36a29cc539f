// Products of bytes with zero points, multiplied out: the same bits, computed by instructions.
// Links: driver
#include "driver/default_schedule.h"
#include "dsl/padding.h"
#include "schedules/primitive.h"
#include "tests/unit/check_runs.h"
#include "tests/unit/op_reference.h"

using namespace kumiko;

namespace {

Op product(int M, int N, int K, Type a, Type b, bool per_channel) {
    Axis i("i", M), j("j", N), k("k", K);
    Tensor A = input("A", a, {i, k}), B = input("B", b, {k, j}), Z = input("Z", i32, {j}), U = input("U", u8, {i});
    const Element x = cast(i32, A(i, k)), y = cast(i32, B(k, j));
    const Expr term = per_channel ? (x - cast(i32, U(i))) * (y - Z(j)) : (x - 118) * (7 + y);
    std::vector<Tensor> inputs = {A, B};
    if (per_channel) inputs.insert(inputs.end(), {Z, U});
    Tensor C = compute("C", {i, j}, sum(term, k));
    return Op("product", inputs, {compute("Y", {i, j}, C(i, j) / 3 + 1)});
}

size_t count(const Schedule &s, const std::string &primitive) {
    return static_cast<size_t>(std::count_if(s.directives().begin(), s.directives().end(),
                                             [&](const Directive &d) { return d.primitive == primitive; }));
}

} // namespace

TEST_CASE("sums of products are multiplied out") {
    for (const bool per_channel : {false, true}) {
        Schedule s(product(7, 9, 33, u8, i8, per_channel));
        const StageHandle made = s.stage("C").expand();
        CHECK(made.name() == "C.product");
        CHECK(!s.state().stage("C").def.is_reduction());
        CHECK(s.state().stage("C.rows").def.axes.size() == 1);
        CHECK(s.state().stage("C.columns").def.axes.size() == 1);
        check_runs(s);
        s.stage("C").inline_into();
        s.stage("C.product").split("k", 4);
        check_runs(s);
    }
    // Sizes for which the sum may be empty, and only one factor shifted.
    Axis i("i", Size("M")), j("j", 8), k("k", Size("K"));
    Tensor A = input("A", i16, {i, k}), B = input("B", i16, {k, j});
    const Op open("open", {A, B}, {compute("C", {i, j}, sum((cast(i32, A(i, k)) - 5) * cast(i32, B(k, j)), k))});
    Schedule s(open);
    s.stage("C").expand();
    CHECK(!s.state().find("C.rows"));
    for (const int K : {0, 1, 20}) check_runs(s, {{"M", 3}, {"K", K}});
}

TEST_CASE("constants that overflow 32 bits wrap") {
    Axis i("i", 2), j("j", 3), k("k", 140000);
    Tensor A = input("A", u8, {i, k}), B = input("B", u8, {k, j});
    const Op op("wraps", {A, B},
                {compute("C", {i, j}, sum((cast(i32, A(i, k)) - 128) * (cast(i32, B(k, j)) - 128), k))});
    Schedule s(op);
    s.stage("C").expand();
    // Elements near the zero points, so that the sum itself does not overflow.
    std::vector<Buffer<>> args = random_inputs(op);
    for (Buffer<> &b : args) fill_random_integers(b, 7, 126, 130);
    const Results meant = interpret(op, args);
    args.push_back(make_output(op, "C", {}));
    compile(s)(args);
    CHECK(equal_bits(args.back(), Buffer<>(meant[0])));
}

TEST_CASE("convolutions, whose windows lie in padding that means zero") {
    Axis o("o", 16), y("y", 9), x("x", 20), c("c", 8), ky("ky", 3), kx("kx", 3);
    Tensor X = input("X", u8, {c, y, x}), W = input("W", i8, {o, c, ky, kx});
    Tensor P = constant_padded(X, 118, {y, x});
    const Expr term = (cast(i32, P(c, y + ky - 1, x + kx - 1)) - 118) * (cast(i32, W(o, c, ky, kx)) - 3);
    const Op op("conv", {X, W}, {compute("Y", {o, y, x}, sum(term, {c, ky, kx}))});
    Schedule s(op);
    s.stage("Y").expand();
    CHECK(s.state().stage("Y.rows").def.axes.size() == 2); // of the image, for all filters
    check_runs(s);
    check_runs(default_schedule(op, Machine::host()));
}

TEST_CASE("convolutions of bytes without a batch, on every level") {
    Axis o("o", 16), y("y", 9), x("x", 20), ky("ky", 3), kx("kx", 3);
    for (const int channels : {3, 8, 64}) {
        for (const bool last : {false, true}) {
            Axis c("c", channels);
            const std::vector<Axis> image = last ? std::vector{y, x, c} : std::vector{c, y, x};
            Tensor X = input("X", u8, image), W = input("W", i8, {o, c, ky, kx}), P = zero_padded(X, {y, x});
            const Element pixel = last ? P(y + ky - 1, x + kx - 1, c) : P(c, y + ky - 1, x + kx - 1);
            const Expr term = cast(i32, pixel) * cast(i32, W(o, c, ky, kx));
            const std::vector<Axis> results = last ? std::vector{y, x, o} : std::vector{o, y, x};
            const Op op("conv", {X, W}, {compute("Y", results, sum(term, {c, ky, kx}))});
            for (const char *level : {"x86-64-sse4.2", "x86-64-avx2", "x86-64-avx512-vnni", "x86-64-amx"})
                default_schedule(op, Machine::named(level));
            check_runs(default_schedule(op, Machine::host()));
        }
    }
}

TEST_CASE("images with channels first and without a batch take instructions") {
    // With one image, the copy that an instruction reads has no outer loop.
    Axis o("o", 16), y("y", 9), x("x", 20), h("y", 11), w("x", 22);
    for (const auto &[channels, taps] : std::vector<std::pair<int, int>>{{3, 3}, {8, 3}, {33, 1}, {64, 3}}) {
        for (const bool padded : {false, true}) {
            for (const bool per_channel : {false, true}) {
                Axis c("c", channels), ky("ky", taps), kx("kx", taps);
                Tensor X = padded ? input("X", u8, {c, y, x}) : input("X", u8, {c, h, w});
                Tensor W = input("W", i8, {o, c, ky, kx}), Z = input("Z", i32, {o});
                Tensor P = padded ? constant_padded(X, 118, {y, x}) : X;
                const int before = padded ? taps / 2 : 0;
                const Element pixel = cast(i32, P(c, y + ky - before, x + kx - before)) - 118;
                const Element weight = cast(i32, W(o, c, ky, kx));
                std::vector<Tensor> inputs = {X, W};
                if (per_channel) inputs.push_back(Z);
                const Expr term = per_channel ? pixel * (weight - Z(o)) : pixel * (weight - 3);
                const Op op("conv", inputs, {compute("Y", {o, y, x}, sum(term, {c, ky, kx}))});
                for (const char *level : {"x86-64-avx2", "x86-64-avx512-vnni"}) {
                    const Schedule s = default_schedule(op, Machine::named(level));
                    CHECK_EQ(count(s, "expand"), 1);
                    CHECK_EQ(count(s, "tensorize"), 1);
                }
                check_runs(default_schedule(op, Machine::host()));
            }
        }
    }
}

TEST_CASE("the default multiplies out where there is an instruction") {
    const Machine vnni = Machine::named("x86-64-avx512-vnni");
    const Op op = product(64, 64, 128, u8, i8, false);
    const Schedule by_instruction = default_schedule(op, vnni);
    CHECK(count(by_instruction, "expand") == 1);
    CHECK(count(by_instruction, "tensorize") == 1);
    CHECK(count(default_schedule(product(64, 64, 8, u8, i8, false), vnni), "expand") == 0);
    CHECK(count(default_schedule(product(64, 64, 128, i32, i32, true), vnni), "expand") == 0);
    for (const auto &[M, N, K] :
         std::vector<std::tuple<int, int, int>>{{64, 64, 128}, {5, 33, 50}, {1, 40, 64}, {33, 3, 70}}) {
        check_runs(default_schedule(product(M, N, K, u8, i8, false), Machine::host()));
        check_runs(default_schedule(product(M, N, K, u8, i8, true), Machine::host()));
        check_runs(default_schedule(product(M, N, K, i8, i8, true), Machine::host()));
    }
}

TEST_CASE("products of narrow types inside of larger ops take instructions") {
    // A normalised product, which no library template matches as a whole.
    Axis i("i", 32), j("j", 64), k("k", 64), l("l", 64);
    Tensor A = input("A", u8, {i, k}), B = input("B", i8, {k, j});
    Tensor C = compute("C", {i, j}, sum(cast(i32, A(i, k)) * cast(i32, B(k, j)), k));
    Tensor most = compute("most", {i}, maximum(C(i, l), l));
    const Op op("shifted", {A, B}, {compute("Y", {i, j}, C(i, j) - most(i))});
    CHECK(count(default_schedule(op, Machine::named("x86-64-avx512-vnni")), "tensorize") == 1);
    check_runs(default_schedule(op, Machine::host()));
}

TEST_CASE("errors of expand") {
    const auto told = [](const Expr &term, const AxisList &k) {
        Axis i("i", 8), j("j", 8);
        return refusal([&] {
            Schedule s(Op("bad", {input("A", u8, {i, Axis("k", 16)}), input("B", i8, {Axis("k", 16), j})},
                          {compute("C", {i, j}, sum(term, k))}));
            s.stage("C").expand();
        });
    };
    Axis i("i", 8), j("j", 8), k("k", 16);
    Tensor A = input("A", u8, {i, k}), B = input("B", i8, {k, j});
    const Element x = cast(i32, A(i, k)), y = cast(i32, B(k, j));
    CHECK(told(x * y, k).find("in which no number is added to a factor") != std::string::npos);
    CHECK(told((x - Expr(k)) * y, k).find("not products of two elements plus or minus") != std::string::npos);
    CHECK(told((x * 2 - 3) * y, k).find("not products of two elements") != std::string::npos);
    CHECK(told(cast(f32, x - 1) * cast(f32, y), k).find("C sums f32, whose rounding depends on the order") !=
          std::string::npos);
    Schedule s(product(8, 8, 16, u8, i8, false));
    s.stage("C").split("k", 4);
    CHECK(refusal([&] { s.stage("C").expand(); }).find("other directives rely on C already") != std::string::npos);
    CHECK(refusal([&] { s.stage("Y").expand(); }).find("Y is not a sum") != std::string::npos);
}
