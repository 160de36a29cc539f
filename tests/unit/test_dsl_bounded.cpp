// Reductions with excluded terms (where): results, the steps that loops run, and errors.
// Links: driver
#include "driver/default_schedule.h"
#include "dsl/bounded.h"
#include "dsl/math.h"
#include "tests/unit/check_runs.h"
#include "tests/unit/count.h"

using namespace kumiko;

namespace {

// For each row, the sum and the maximum of the elements up to the diagonal, or in a band below it.
Op rows(const Expr &M, const Expr &N, bool band) {
    Axis i("i", M), j("j", N);
    Tensor X = input("X", i32, {i, j});
    const Where bound = band ? where(j <= i && i - j < 4) : where(j <= i);
    return Op("rows", {X},
              {compute("S", {i}, sum(X(i, j), j, bound)), compute("most", {i}, maximum(X(i, j), j, bound))});
}

// Scores of a row, their maximum, and their sum weighted by the elements above it.
Op window(const Expr &N, const Expr &D) {
    Axis i("i", N), j("j", N), d("d", D), k("k", D);
    Tensor Q = input("Q", i32, {i, k}), K = input("K", i32, {j, k}), V = input("V", i32, {j, d});
    const Where near = where(j <= i && i - j < 5);
    Tensor score = compute("score", {i, j}, sum(Q(i, k) * K(j, k), k));
    Tensor most = compute("most", {i}, maximum(score(i, j), j, near));
    Tensor p = compute("p", {i, j}, score(i, j) - most(i));
    Tensor mix = compute("mix", {i, d}, sum(p(i, j) * V(j, d), j, near));
    return Op("window", {Q, K, V}, {compute("Y", {i, d}, mix(i, d) + most(i))});
}

} // namespace

TEST_CASE("steps of a bounded reduction") {
    using Halide::Internal::Interval;
    Axis i("i", 10), j("j", 20), k("k", 20);
    Tensor X = input("X", f32, {j});
    const auto steps = [&](const Expr &condition, int first, int last) {
        const Op op("op", {X}, {compute("Y", {i}, sum(X(j), j, where(condition)))});
        Halide::Internal::Scope<Interval> scope;
        scope.push("i", Interval(first, last));
        const Interval found = steps_of_terms(op.stages()[0], j, scope);
        return std::pair(*Halide::Internal::as_const_int(found.min), *Halide::Internal::as_const_int(found.max));
    };
    using Pair = std::pair<int64_t, int64_t>;
    CHECK(steps(j <= i, 3, 5) == Pair(0, 5));
    CHECK(steps(j < i, 3, 5) == Pair(0, 4));
    CHECK(steps(j >= i, 3, 5) == Pair(3, 19));
    CHECK(steps(i < j, 3, 5) == Pair(4, 19));
    CHECK(steps(j * 3 <= i + 1, 3, 6) == Pair(0, 2));
    CHECK(steps(j * 3 >= i + 1, 3, 6) == Pair(2, 19));
    CHECK(steps(j == i * 2, 3, 4) == Pair(6, 8));
    CHECK(steps(j <= i && i - j < 3, 4, 6) == Pair(2, 6));
    CHECK(steps(j <= i % 4, 6, 6) == Pair(0, 2));          // of a number
    CHECK(steps(j <= i % 4, 5, 6) == Pair(0, 3));          // at most, of several
    CHECK(steps(i - 100 >= j, 3, 5).second < 0);           // none
    CHECK(steps(j <= i || j >= 15, 3, 5) == Pair(0, 19));  // no bound
    CHECK(steps(j * j <= i, 3, 5) == Pair(0, 19));         // not a number of times
    CHECK(steps(i - i / 2 * 2 <= j, 3, 5) == Pair(0, 19)); // any remainder
}

TEST_CASE("terms that do not exist are left out, whatever the loops are") {
    for (const bool band : {false, true}) {
        for (const auto &[m, n] : {std::pair(9, 9), std::pair(5, 21), std::pair(21, 5), std::pair(1, 1)}) {
            check_runs(Schedule(rows(m, n, band)));
            Schedule s(rows(m, n, band));
            s.stage("S").split("i", 4);
            s.stage("S").reorder({"i.o", "j", "i.i"}).vectorize("i.i");
            s.accumulate_in("S", "registers", "i.o");
            auto [o, lanes] = s.stage("most").split("j", 8);
            s.stage("most").rfactor(lanes).vectorize("j_i");
            check_runs(s);
            Schedule rounds(rows(m, n, band));
            rounds.stage("S").split("j", 4);
            rounds.stage("S").reorder({"j.o", "i", "j.i"});
            rounds.accumulate_in("S", "registers", "i");
            rounds.stage("most").split("j", 3, {"", "", Tail::Guard});
            rounds.accumulate_in("most", "registers", "j.o");
            check_runs(rounds);
        }
    }
    Axis i("i", 13), j("j", 16), k("k", 4);
    Tensor X = input("X", i32, {i, j}), M = input("M", i32, {i, j}), Z = input("Z", i32, {i, j, k});
    const Expr rest[] = {j <= i % 4, j <= i - i / 2 * 2, j <= (Expr(i) & 3), j <= i && j >= i - 3 && M(i, j) > 0,
                         i + j == 9, i + 2 * j == 9};
    for (const Expr &bound : rest) {
        const Op op("bound", {X, M}, {compute("S", {i}, sum(X(i, j), j, where(bound)) + M(i, 0))});
        check_runs(Schedule(op));
        Schedule blocks(op);
        blocks.stage("S.sum").split("j", 4);
        blocks.stage("S.sum").reorder({"j.o", "i", "j.i"});
        blocks.place_in("X", "L1", "S.sum", "i");
        check_runs(blocks);
        Schedule partial(op);
        partial.stage("S.sum").split("j", 8);
        partial.stage("S.sum").rfactor("j.i").vectorize("j_i");
        check_runs(partial);
        Schedule whole(op);
        whole.place_in("X", "L2", "S.sum", "i");
        whole.stage("S.sum").compute_at("S", "i").split("j", 3);
        whole.stage("S.sum").peel("j.o", 1, 1);
        check_runs(whole);
    }
    Schedule both(Op("both", {Z}, {compute("S", {i}, sum(Z(i, j, k), {j, k}, where(j + k <= i && k <= j)))}));
    check_runs(both);
    both.stage("S").reorder({"k", "i", "j"});
    check_runs(both);
    Schedule s(rows(Size("M"), Size("N"), true));
    s.stage("S").parallel("i").split("j", 4);
    for (const int m : {0, 1, 6, 13}) {
        for (const int n : {0, 1, 6, 13}) check_runs(s, {{"M", m}, {"N", n}});
    }
}

TEST_CASE("data say which terms exist") {
    for (const int n : {100, 37, 16, 5}) {
        for (const bool symbolic : {false, true}) {
            const Expr N = symbolic ? Expr(Size("N")) : Expr(n);
            Axis i("i", 20), k("k", N);
            Tensor X = input("X", i32, {i, k}), B = input("B", i32, {k});
            const Expr holds = X(i, k) > 0, seen = B(k) > 0;
            for (const Expr &condition : {holds, seen, k <= i && seen, seen && k <= i, k <= i || seen}) {
                const Op op("op", {X, B},
                            {compute("S", {i}, sum(X(i, k), k, where(condition))),
                             compute("most", {i}, maximum(X(i, k) + B(k), k, where(condition)))});
                std::vector<PassedOver> passed_over;
                const Schedule standard = default_schedule(op, Machine::host(), PackedBy::Kernel, &passed_over);
                CHECK(passed_over.empty());
                Schedule lanes(op);
                lanes.stage("S").vectorize("k", 8);
                for (const Schedule &s : {standard, lanes}) check_runs(s, symbolic ? Sizes{{"N", n}} : Sizes{});
            }
        }
    }
}

TEST_CASE("loops run over the steps at which terms exist, and stages inside compute what those need") {
    Schedule s(rows(12, 12, true));
    const std::string code = body_of(s);
    CHECK(says(code, "for (S.j, 0, min(S.i, 3) + 1)"));
    CHECK(!says(code, "select")); // at steps that run the bounds hold
    for (const int n : {1, 4, 19}) {
        Schedule w(window(n, 6));
        for (const char *stage : {"mix", "p", "most", "score"}) w.stage(stage).compute_at("Y", "i");
        w.stage("Y").vectorize("d", 8);
        check_runs(w);
        w.stage("score").reorder({"i", "k", "j"}).vectorize("j", 8);
        w.stage("p").vectorize("j", 8);
        w.stage("mix").reorder({"i", "j", "d"}).vectorize("d", 8);
        check_runs(w);
        Schedule blocks(window(n, 6));
        auto [o, row] = blocks.stage("Y").split("i", 4);
        for (const char *stage : {"mix", "p", "most", "score"}) blocks.stage(stage).compute_at("Y", o);
        blocks.stage("score").reorder({"i", "k", "j"}).vectorize("j", 4);
        blocks.stage("Y").parallel(o);
        check_runs(blocks);
        check_runs(default_schedule(window(n, 6), Machine::host()));
    }
    Schedule w(window(64, 6));
    for (const char *stage : {"mix", "p", "most", "score"}) w.stage(stage).compute_at("Y", "i");
    const Kernel kernel = compile(w);
    for (const auto &buffer : kernel.nest().buffers) {
        if (buffer.name != "score") continue;
        int64_t elements = 1;
        for (const Expr &e : buffer.extents) elements *= Halide::Internal::as_const_int(e).value_or(1 << 20);
        CHECK(elements == 5); // of the row's 64
    }
}

TEST_CASE("a stage that reads panels begins at a whole one") {
    for (const int n : {40, 43, 9}) {
        Axis i("i", n), j("j", n), d("d", 4), o("o", 8);
        Tensor Q = input("Q", i32, {i, d}), K = input("K", i32, {j, d}), V = input("V", i32, {j, o});
        Tensor S = compute("S", {i, j}, sum(Q(i, d) * K(j, d), d));
        Schedule s(
            Op("band", {Q, K, V}, {compute("Y", {i, o}, sum(S(i, j) * V(j, o), j, where(j <= i && i - j < 11)))}));
        s.stage("Y").split("i", 5, {"i.b", "i.r"});
        s.stage("S").compute_at("Y", "i.b");
        s.stage("S").split("j", 8);
        s.stage("S").reorder({"j.o", "i", "d", "j.i"}).vectorize("j.i");
        s.place_in("K", "L2", "S", "j.o").layout({"j/8", "d", "j%8"}).compute_root();
        check_runs(s);
        if (n != 40) continue;
        const std::string code = body_of(s);
        CHECK(count(code, "K.L2[") == count(code, "K.L2[ramp(") + 2); // allocated, and filled
        CHECK(says(code, "allocate S[int32 * 5 * 22]"));              // 15 elements, 7 before them
    }
}

TEST_CASE("windows without any step, beside stages that would compute for them") {
    for (const bool open : {false, true}) {
        for (const int keys : {4, 11, 13, 20, 40}) {
            const Expr N = open ? Expr(Size("N")) : Expr(keys);
            Axis i("i", 40), k("k", N), d("d", 4);
            Tensor Q = input("Q", i32, {i, d}), K = input("K", i32, {k, d});
            Tensor S = compute("S", {i, k}, sum(Q(i, d) * K(k, d), d));
            const Where bounds[] = {where(k >= i + 2), where(k <= 2 * i && 2 * i - k < 9), where(k >= i && k < i + 5)};
            for (const Where &bound : bounds) {
                for (const bool panels : {false, true}) {
                    Schedule s(Op("w", {Q, K}, {compute("R", {i}, maximum(S(i, k), k, bound))}));
                    if (panels) s.place_in("K", "L2", "S", "i").layout({"k/8", "d", "k%8"}).compute_root();
                    s.stage("S").compute_at("R", "i").split("k", 4);
                    s.stage("S").reorder({"i", "k.o", "d", "k.i"}).vectorize("k.i");
                    check_runs(s, open ? Sizes{{"N", keys}} : Sizes());
                }
            }
        }
    }
}

TEST_CASE("a bound is part of the formula, and a user's select is not a bound") {
    Axis i("i", 9), j("j", 9);
    Tensor X = input("X", i32, {i, j});
    const Op bounded("op", {X}, {compute("Y", {i}, sum(X(i, j), j, where(j <= i)))}),
        chosen("op", {X}, {compute("Y", {i}, sum(select(j <= i, X(i, j), 0), j))});
    CHECK(says(bounded.to_string(), "Y(i) = sum over j where j <= i: X(i, j)"));
    CHECK(bounded.hash() != chosen.hash());
    CHECK(term_bounds(bounded.stages()[0]).size() == 1);
    CHECK(term_bounds(chosen.stages()[0]).empty());
    check_runs(Schedule(chosen));
}

TEST_CASE("directives that bounded reductions refuse") {
    Axis i("i", 8), j("j", 8);
    Tensor X = input("X", i32, {i, j}), Z = input("Z", i32, {j});
    Tensor T = compute("T", {i, j}, X(i, j) + 1);
    Schedule s(Op("own", {X}, {compute("Y", {i}, sum(T(i, j), j, where(j <= i))), T}));
    CHECK(says(refusal([&] { s.stage("T").compute_at("Y", "i"); }), "would not write disjoint parts of output T"));
    Schedule with(
        Op("with", {X}, {compute("A", {i}, sum(X(i, j), j, where(j <= i))), compute("B", {i}, sum(X(i, j), j))}));
    with.stage("B").compute_with("A", "j");
    CHECK(says(refusal([&] { with.require_applied(); }), "excludes other terms than that of A"));
    CHECK(says(refusal([&] { sum(X(i, j), j, where(Expr(j))); }), "the condition of sum where … is not one"));
}
