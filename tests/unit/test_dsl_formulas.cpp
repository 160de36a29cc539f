// Formulas beyond the examples of docs/language.md, which test_docs_language compiles: choices of
// `Expr` and `Element`, and reads of pairs under several schedules.
// Links: driver
#include "driver/default_schedule.h"
#include "tests/unit/check_runs.h"

using namespace kumiko;

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

// Halide's own tests of numbers rewrite the definitions of the tensors that they read.
TEST_CASE("a test of a number leaves the tensor that it reads as it is") {
    const Axis i("i", 6), d("d", 5), e("e", 5);
    const Tensor X = input("X", f32, {i, d});
    const auto larger = [](Expr a, Expr b) { return max(a, b); };
    const Tensor M = compute("M", {i}, reduce(larger, f32.min(), X(i, d), d));
    const auto used = [&](const Element &test) {
        return Op("used", {X}, {compute("Y", {i}, M(i) + sum(select(test, X(i, e), X(i, e) * 2), e))});
    };
    for (const Element &test : {is_inf(M(i)), is_nan(M(i)), is_finite(M(i))}) check_runs(Schedule(used(test)));
}
