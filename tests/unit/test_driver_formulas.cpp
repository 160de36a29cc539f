// Ops for most rows of the table in docs/formulas.md. Each gives what `interpret` gives.
#include "dsl/extern.h"
#include "dsl/inout.h"
#include "dsl/padding.h"
#include "dsl/scan.h"
#include "dsl/scatter.h"
#include "dsl/tuple.h"
#include "ops/ops.h"
#include "tests/unit/check_runs.h"

using namespace kumiko;

namespace {

int twice(void *const *arrays, const int64_t *extents, const int64_t *) {
    const auto *x = static_cast<const float *>(arrays[0]);
    auto *y = static_cast<float *>(arrays[1]);
    for (int64_t n = 0; n < extents[0] * extents[1]; n++) y[n] = 2 * x[n];
    return 0;
}

} // namespace

TEST_CASE("the formulas of the page") {
    const Axis i("i", 6), j("j", Size("N")), k("k", 7), n("n", 9), d("d", 5), v("v", 4);
    const Tensor A = input("A", f32, {i, k}), B = input("B", f32, {k, j}), X = input("X", f32, {i, d}),
                 D = input("D", f64, {i, d}), T = input("T", f32, {v, d}), G = input("G", f32, {n, d}),
                 index = input("index", i32, {n});
    const auto add = [](Expr a, Expr b) { return a + b; };
    check_runs(Schedule(Op("layer", {A, B}, {compute("C", {i, j}, relu(sum(A(i, k) * B(k, j), k)))})), {{"N", 11}});
    check_runs(Schedule(Op("fold", {A}, {compute("Y", {i}, reduce(add, 0.f, A(i, k), k))})));
    const Tuple w = reduce(
        [](Values a, Values b) -> Values {
            return {a[0] + b[0], max(a[1], b[1])};
        },
        {0.f, -1e30f}, {A(i, k), A(i, k)}, k);
    check_runs(Schedule(Op("folds", {A}, {compute("Y", {i}, w[0]), compute("Z", {i}, w[1])})));
    check_runs(Schedule(Op("running", {X}, {compute("Y", {i, d}, scan(add, 0.f, X(i, d), d))})));
    check_runs(Schedule(Op("products", {D},
                           {compute("Y", {i, d}, scan([](Expr a, Expr b) { return a * b; }, Expr(1.0), D(i, d), d))})));
    check_runs(Schedule(Op("gather", {T, index}, {compute("Y", {n, d}, T(clamp(index(n), 0, 3), d))})));
    check_runs(Schedule(Op("scatter", {G, index}, {compute("Y", {v, d}, scatter(sum, G(n, d), v, index(n), n))})));
    const Tensor Z = zero_padded(X), P = constant_padded(G, -1.f), E = clamped(X, {d});
    check_runs(Schedule(Op("outside", {X, G}, {compute("Y", {i, d}, Z(i - 1, d) + P(i, d + 1) + E(i, d - 1))})));
    const Tensor U = inout("U", f32, {i, d});
    check_runs(Schedule(Op("update", {X, U}, {update(U, U(i, d) + X(i, d))})));
    check_runs(Schedule(Op("function", {X}, {extern_stage("S", f32, {i, d}, {X}, {"twice", twice})})));
    const Axis d2("d2", 5);
    check_runs(Schedule(Op("shares", {X}, {compute("Y", {i, d}, X(i, d) / (1.f + sum(abs(X(i, d2)), d2)))})));
}

// Each choice has both kinds, so neither may convert in two ways.
TEST_CASE("an Expr becomes an Element where one is declared, assigned or chosen") {
    const Axis i("i", 6), d("d", 5);
    const Tensor X = input("X", f32, {i, d});
    const auto formula = [&](bool scaled) {
        const Expr zero(0.f);
        Element e = zero;
        for (int n = 0; n < 2; n++) e = e + (scaled ? cast(f32, i) : zero) * X(i, d);
        Element at = i;
        at = clamp(at + 1, 0, 5);
        e = scaled ? e : Expr(e + X(at, d));
        return Op("declared", {X}, {compute("Y", {i, d}, e)});
    };
    check_runs(Schedule(formula(true)));
    check_runs(Schedule(formula(false)));
}

TEST_CASE("neighbours in pairs are read inside of the tensor") {
    for (const bool symbolic : {false, true}) {
        Axis t("t", 5), d("d", symbolic ? Expr(Size("D")) : Expr(30));
        const Tensor X = input("X", i32, {t, d}), T = compute("T", {t, d}, X(t, d) * 3 + 1);
        const Tensor Y = compute("Y", {t, d}, T(t, d + 1 - 2 * (d % 2)) - X(t, select(d % 2 == 0, d + 1, d - 1)));
        const Op op("swapped", {X}, {Y});
        const std::map<std::string, int64_t> sizes =
            symbolic ? std::map<std::string, int64_t>{{"D", 30}} : std::map<std::string, int64_t>();
        check_runs(default_schedule(op, Machine::host()), sizes);
        for (const char *loop : {"t", "d.o", "d.i"}) {
            Schedule s(op);
            s.stage("Y").split("d", 8);
            s.stage("T").compute_at("Y", loop);
            check_runs(s, sizes);
        }
        if (!symbolic) continue;
        const std::vector<Buffer<>> odd = {make_input(op.inputs()[0], {{"D", 31}}), make_output(op, "Y", {{"D", 31}})};
        CHECK_THROWS_AS(compile(op)(odd), UserError);
    }
}
