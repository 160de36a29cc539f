// Default schedules of reductions that read neither contiguous rows nor columns that fill vectors.
// Links: driver
#include "driver/default_schedule.h"
#include "dsl/math.h"
#include "machine/machine.h"
#include "tests/unit/check_runs.h"
#include "tests/unit/cores.h"
#include "tests/unit/count.h"

using namespace kumiko;

namespace {

// Whether the reduction keeps partial results in lanes, which are reduced at the end.
bool folds_lanes(const Schedule &s, const std::string &reduction) {
    return s.state().find(reduction + ".rf") != nullptr;
}

} // namespace

TEST_CASE("rows with a scale for each group, and rows with a step, are folded in lanes") {
    Axis n("n", 7), d("d", 256), g("g", 4), e("e", 768);
    const Tensor W = input("W", i32, {n, d}), S = input("S", i32, {n, g}), x = input("x", i32, {d}),
                 X = input("X", i32, {n, e});
    const auto schedule = [&](const std::vector<Tensor> &inputs, const Expr &row) {
        return default_schedule(Op("rows", inputs, {compute("r", {n}, row)}), host_of(1));
    };
    const Schedule groups = schedule({W, S, x}, sum(W(n, d) * S(n, d / 64) * x(d), d));
    CHECK(folds_lanes(groups, "r"));
    check_runs(groups);
    const Schedule steps = schedule({X}, sum(X(n, 3 * d), d));
    CHECK(folds_lanes(steps, "r"));
    check_runs(steps);
    for (const Expr &column : {Expr(d % 4), Expr(5 * d / 320)}) {
        const Schedule rows = schedule({W, S}, sum(W(n, d) * S(n, column), d));
        CHECK_EQ(folds_lanes(rows, "r"), column.as<Halide::Internal::Div>() != nullptr);
        check_runs(rows);
    }
}

TEST_CASE("lanes of a combiner without an instruction are joined in steps") {
    const Axis n("n", 6), i("i", 200), k("k", 200);
    const Tensor X = input("X", f32, {n, i});
    const auto nan_or_max = [](const Expr &a, const Expr &b) -> Expr {
        const Element x = a, y = b;
        return select(x != x, x, y != y, y, max(x, y));
    };
    const Tensor most =
        compute("most", {n}, reduce(nan_or_max, -INFINITY, X(n, k), {k}, {.associative = true, .commutative = true}));
    // At the root, and at the rows of its reader.
    for (const Op &op : {Op("most", {X}, {most}), Op("rest", {X}, {compute("Y", {n, i}, X(n, i) - most(n))})}) {
        const Schedule s = default_schedule(op, host_of(1));
        CHECK(folds_lanes(s, "most"));
        check_runs(s);
    }
}

TEST_CASE("a reduction that is folded in lanes holds no stage in its loops") {
    Axis n("n", 20000), i("i", 8), k("k", 256), e("e", 768);
    const Tensor X = input("X", i32, {n, i, k}), Z = input("Z", i32, {n, i, e});
    const Tensor S = compute("S", {n, i}, sum(X(n, i, k) * X(n, i, k), k)),
                 Y = compute("Y", {n, i}, sum(Z(n, i, 3 * k) - S(n, i), k));
    std::vector<PassedOver> passed_over;
    const Schedule s = default_schedule(Op("host", {X, Z}, {Y}), host_of(1), PackedBy::Kernel, &passed_over);
    CHECK(passed_over.empty());
    CHECK(folds_lanes(s, "Y"));
}

TEST_CASE("columns that fill no vector are folded along the rows") {
    Axis n("n", 1000), c("c", 2);
    const Tensor X = input("X", i32, {n, c});
    const Tensor mix = compute("mix", {c}, sum(X(n, c) * X(n, 1 - c), n)),
                 peak = compute("peak", {c}, maximum(X(n, c) + mix(c), n));
    const Schedule s = default_schedule(Op("columns", {X}, {mix, peak}), host_of(1));
    CHECK(folds_lanes(s, "mix"));
    CHECK(folds_lanes(s, "peak"));
    check_runs(s);
}

TEST_CASE("a sum over a grid that reads neighbours is folded in lanes") {
    Axis y("y", 40), x("x", 50);
    const Tensor X = input("X", i32, {y, x}), P = zero_padded(X);
    const Expr residual = 4 * P(y, x) - P(y - 1, x) - P(y + 1, x) - P(y, x - 1) - P(y, x + 1);
    const Tensor all = compute("all", {}, sum(residual * residual, {y, x}));
    const Schedule s = default_schedule(Op("residual", {X}, {all}), host_of(1));
    CHECK(folds_lanes(s, "all"));
    check_runs(s);
}

TEST_CASE("windows over pixels of few channels run along pixels and channels as one") {
    for (const auto &[channels, window] : {std::pair(2, 3), {3, 3}, {3, 5}, {5, 5}}) {
        if (channels >= host_of(1).lanes(32)) continue; // which fill a vector
        Axis y("y", 20), x("x", 50), c("c", channels), j("j", window), i("i", window);
        const Tensor X = input("X", u8, {y, x, c}), P = clamped(X);
        const Tensor S = compute("S", {y, x, c}, sum(cast(i32, P(y + j - 1, x + i - 1, c)), {j, i}));
        const Op op("box", {X}, {compute("Y", {y, x, c}, cast(u8, S(y, x, c) / 9))});
        const Schedule s = default_schedule(op, host_of(1));
        CHECK(says(s.nest(), "x_c.o"));
        // Whole pixels, so that each lane has its channel.
        const auto block = Halide::Internal::as_const_int(s.state().stage("S").loop("x_c.i").extent);
        CHECK((block && *block % channels == 0));
        check_runs(s);
    }
}

TEST_CASE("a cheap stage of inputs with several readers is inlined if L2 does not hold it") {
    const auto inlined = [](int rows) {
        Axis t("t", rows), d("d", 512);
        const Tensor dY = input("dY", f32, {t, d}), X = input("X", f32, {t, d}), w = input("w", f32, {d});
        const Tensor g = compute("g", {t, d}, dY(t, d) * w(d)), a = compute("a", {t}, sum(g(t, d), d)),
                     b = compute("b", {t}, sum(g(t, d) * X(t, d), d));
        const Op op("backward", {dY, X, w}, {compute("dX", {t, d}, g(t, d) - a(t) - X(t, d) * b(t))});
        return default_schedule(op, host_of(1)).state().stage("g").placement.kind == Placement::Kind::Inline;
    };
    CHECK(inlined(1 << 14));
    CHECK(!inlined(16));
}

TEST_CASE("tiles of few rows and columns take blocks of many steps, which L2 holds") {
    Machine m = host_of(1);
    for (MemoryLevel &level : m.memory) {
        if (level.name == "L2") level.bytes = 64 << 10;
    }
    Axis n("n", 1003), c("c", 24), d("d", 24);
    const Tensor X = input("X", i32, {n, c}), mean = input("mean", i32, {c});
    const Op op("covariance", {X, mean}, {compute("S", {c, d}, sum((X(n, c) - mean(c)) * (X(n, d) - mean(d)), n))});
    const Schedule s = default_schedule(op, m);
    CHECK_EQ(s.state().stage("S").order.front(), "n.o");
    check_runs(s);
}
