// Recurrences: tensors that read their own earlier elements, at any distance, in any legal order of
// loops. One file, because the cases share the recurrences.
// Links: driver
#include "driver/default_schedule.h"
#include "dsl/interpret_element.h"
#include "dsl/recurrence.h"
#include "dsl/scan.h"
#include "tests/unit/check_runs.h"
#include "tests/unit/op_reference.h"

using namespace kumiko;

namespace {

// y(i, t) = x(i, t) + 2 y(i, t − 1) − y(i, t − 2)
Op filter(const Expr &M, const Expr &N) {
    Axis i("i", M), t("t", N);
    Tensor X = input("X", i32, {i, t});
    return Op("filter", {X}, {recurrence("y", i32, {i, t}, 0, [&](const Earlier &y) {
                  return X(i, t) + 2 * y(i, t - 1) - y(i, t - 2);
              })});
}

// Local alignment: the best of three neighbours before.
Op alignment(int M, int N) {
    Axis i("i", M), j("j", N);
    Tensor A = input("A", i32, {i}), B = input("B", i32, {j});
    return Op("alignment", {A, B}, {recurrence("H", i32, {i, j}, 0, [&](const Earlier &H) {
                  const Element score = select(A(i) == B(j), 3, Expr(-2));
                  return max(max(H(i - 1, j - 1) + score, max(H(i - 1, j), H(i, j - 1)) - 1), 0);
              })});
}

// The best value of the items so far that fit into w: each row depends on the previous one at two
// places.
Op knapsack(int items, int room) {
    Axis n("n", items), w("w", room);
    Tensor V = input("V", i32, {n});
    return Op("knapsack", {V}, {recurrence("best", i32, {n, w}, 0, [&](const Earlier &best) {
                  return max(best(n - 1, w), best(n - 1, w - 5) + V(n));
              })});
}

// Errors are distributed to elements of the next row on both sides.
Op diffusion(int M, int N) {
    Axis y("y", M), x("x", N);
    Tensor X = input("X", i32, {y, x});
    return Op("diffusion", {X}, {recurrence("E", i32, {y, x}, 0, [&](const Earlier &E) {
                  return (X(y, x) * 16 + 7 * E(y, x - 1) + 3 * E(y - 1, x + 1) + 5 * E(y - 1, x) + E(y - 1, x - 1)) %
                         31;
              })});
}

Expr plus(const Expr &a, const Expr &b) { return a + b; }

Tuple largest_so_far(const Expr &e, const Expr &at, const Axis &j) {
    return scan(
        [](const Values &a, const Values &b) -> Values {
            const Expr wins = b[0] > a[0];
            return {select(wins, b[0], a[0]), select(wins, b[1], a[1])};
        },
        {-1000, -1}, {e, at}, j);
}

} // namespace

TEST_CASE("a filter of second order") {
    const Op op = filter(5, 40);
    CHECK(op.stage("y").distances == std::vector<std::vector<int64_t>>{{0, 1}, {0, 2}});
    CHECK(op.to_string() ==
          "filter(X) -> y\n"
          "  X: i32[i: 5, t: 40]\n"
          "  y: i32[i: 5, t: 40]\n"
          "    y(i, t) = X(i, t) + 2 * (if 1 <= t then y(i, t - 1) else 0) - (if 2 <= t then y(i, t - 2) "
          "else 0)\n");
    std::vector<Buffer<>> in = random_inputs(op);
    fill_random_integers(in[0], 3, -2, 2);
    check_elements(op, in, {5, 40}, [&](const Index &n) {
        double before = 0, now = 0;
        for (int64_t t = 0; t <= n[1]; t++) {
            const double next = at(in[0], {n[0], t}) + 2 * now - before;
            before = now, now = next;
        }
        return now;
    });
    for (const auto &[M, N] : std::vector<std::pair<int, int>>{{1, 1}, {1, 2}, {3, 17}, {40, 100}})
        check_runs(default_schedule(filter(M, N), Machine::host()));
    const Op any = filter(Size("M"), Size("N"));
    for (const int n : {0, 1, 2, 33}) check_runs(default_schedule(any, Machine::host()), {{"M", n}, {"N", n + 1}});
}

TEST_CASE("recurrences along two axes") {
    const Op op = alignment(9, 14);
    const std::vector<Buffer<>> in = random_inputs(op);
    Buffer<> a = in[0], b = in[1];
    fill_random_integers(a, 1, 0, 3);
    fill_random_integers(b, 2, 0, 3);
    std::vector<std::vector<double>> H(10, std::vector<double>(15, 0));
    for (int64_t i = 1; i < 10; i++) {
        for (int64_t j = 1; j < 15; j++) {
            const double score = at(a, {i - 1}) == at(b, {j - 1}) ? 3 : -2;
            H[i][j] = std::max({H[i - 1][j - 1] + score, std::max(H[i - 1][j], H[i][j - 1]) - 1, 0.0});
        }
    }
    check_elements(op, {a, b}, {9, 14}, [&](const Index &n) { return H[n[0] + 1][n[1] + 1]; });

    for (const Op &each : {alignment(9, 14), alignment(64, 80), knapsack(7, 100), knapsack(20, 3), diffusion(9, 40)}) {
        check_runs(default_schedule(each, Machine::host()));
        check_runs(default_schedule(each, Machine::host()), {}, {.through_halide = true});
    }
    Schedule tiled(alignment(20, 33));
    tiled.stage("H").tile({"i", "j"}, {8, 5});
    tiled.stage("H").unroll("j.i");
    check_runs(tiled);
    Schedule columns(alignment(20, 33));
    columns.stage("H").reorder({"j", "i"});
    check_runs(columns);
    Schedule rows(diffusion(9, 40));
    rows.stage("E").split("x", 8);
    rows.stage("E").split("y", 2);
    check_runs(rows);
    // Row by row, with each row a vector.
    Schedule vectors(knapsack(7, 96));
    vectors.stage("best").vectorize("w", 8);
    check_runs(vectors);
    Schedule shared(knapsack(7, 96));
    shared.stage("best").parallel("w");
    check_runs(shared);
}

TEST_CASE("several tensors that read each other's earlier elements") {
    Axis i("i", 6), t("t", 30);
    Tensor X = input("X", i32, {i, t});
    const auto made =
        recurrence({"p", "q"}, {i32, i32}, {i, t}, {1, 0}, [&](const std::vector<Earlier> &s) -> std::vector<Expr> {
            return {s[0](i, t - 1) - s[1](i, t - 1) + X(i, t), s[0](i, t - 1) + s[1](i, t - 2)};
        });
    const Op op("phasor", {X}, {made[0], made[1], compute("both", {i, t}, made[0](i, t) * 2 + made[1](i, t))});
    CHECK(op.stages().size() == 4);
    CHECK(op.stage("p.recurrence").components.size() == 2);
    std::vector<Buffer<>> in = random_inputs(op);
    fill_random_integers(in[0], 3, -2, 2);
    std::vector<std::vector<double>> p(6, std::vector<double>(30)), q = p;
    for (size_t r = 0; r < 6; r++) {
        for (size_t s = 0; s < 30; s++) {
            const double p1 = s > 0 ? p[r][s - 1] : 1, q1 = s > 0 ? q[r][s - 1] : 0, q2 = s > 1 ? q[r][s - 2] : 0;
            p[r][s] = p1 - q1 + at(in[0], {int64_t(r), int64_t(s)});
            q[r][s] = p1 + q2;
        }
    }
    const Results results = interpret(op, in);
    for (int64_t r = 0; r < 6; r++) {
        for (int64_t s = 0; s < 30; s++) {
            CHECK(at(results[0], {r, s}) == p[r][s]);
            CHECK(at(results[1], {r, s}) == q[r][s]);
            CHECK(at(results[2], {r, s}) == 2 * p[r][s] + q[r][s]);
        }
    }
    check_runs(default_schedule(op, Machine::host()));
    check_runs(default_schedule(op, Machine::host()), {}, {.through_halide = true});
    Schedule vectors(op);
    vectors.stage("p.recurrence").reorder({"t", "i"}).vectorize("i", 4);
    check_runs(vectors);
}

TEST_CASE("a scan of a tuple") {
    for (const bool along_rows : {false, true}) {
        Axis i("i", 12), j("j", 21);
        Tensor X = input("X", i32, {i, j});
        const Axis &along = along_rows ? j : i;
        const Tuple best = largest_so_far(X(i, j), along, along);
        const Op op("best", {X}, {compute("V", {i, j}, best[0]), compute("P", {i, j}, best[1])});
        std::vector<Buffer<>> in = random_inputs(op);
        fill_random_integers(in[0], 3, -9, 9);
        const Results results = interpret(op, in);
        for (int64_t r = 0; r < 12; r++) {
            for (int64_t c = 0; c < 21; c++) {
                double value = -1000, place = -1;
                for (int64_t k = 0; k <= (along_rows ? c : r); k++) {
                    const double x = at(in[0], along_rows ? Index{r, k} : Index{k, c});
                    if (x > value) value = x, place = double(k);
                }
                CHECK(at(results[0], {r, c}) == value);
                CHECK(at(results[1], {r, c}) == place);
            }
        }
        check_runs(default_schedule(op, Machine::host()));
    }
}

TEST_CASE("defaults of ops in which others feed a recurrence") {
    Axis c("c", 40), t("t", 100), k("k", 9), wide("tt", 108);
    Tensor X = input("X", f32, {c, wide});
    Tensor most = compute("most", {c, t}, maximum(X(c, t + k), k));
    const Op windows("windows", {X}, {recurrence("y", f32, {c, t}, 0, [&](const Earlier &y) {
                         return max(most(c, t), y(c, t - 1) - 1);
                     })});
    Tensor gate = compute("gate", {c, t}, exp(X(c, t) * 0));
    const Op gated("gated", {X}, {recurrence("y", f32, {c, t}, 0, [&](const Earlier &y) {
                       return gate(c, t) * y(c, t - 1) + X(c, t);
                   })});
    for (const Op &op : {windows, gated}) {
        std::vector<PassedOver> passed_over;
        const Schedule s = default_schedule(op, Machine::host(), PackedBy::Kernel, &passed_over);
        CHECK(passed_over.empty());
        check_runs(s);
    }
}

TEST_CASE("the value outside of the tensor is an expression over the axes") {
    Axis i("i", 5), j("j", 7);
    Tensor A = input("A", i32, {i}), B = input("B", i32, {j});
    const Op op("global", {A, B}, {recurrence("H", i32, {i, j}, -2 * (Expr(i) + Expr(j) + 2), [&](const Earlier &H) {
                    return max(H(i - 1, j - 1) + select(A(i) == B(j), 1, Expr(-1)), max(H(i - 1, j), H(i, j - 1)) - 2);
                })});
    std::vector<Buffer<>> in = random_inputs(op);
    fill_random_integers(in[0], 1, 0, 2);
    fill_random_integers(in[1], 2, 0, 2);
    std::vector<std::vector<double>> H(6, std::vector<double>(8, 0));
    for (int a = 0; a < 6; a++) {
        for (int b = 0; b < 8; b++) {
            H[a][b] = -2.0 * (a + b);
            if (a == 0 || b == 0) continue;
            const double score = at(in[0], {a - 1}) == at(in[1], {b - 1}) ? 1 : -1;
            H[a][b] = std::max(H[a - 1][b - 1] + score, std::max(H[a - 1][b], H[a][b - 1]) - 2);
        }
    }
    check_elements(op, in, {5, 7}, [&](const Index &n) { return H[n[0] + 1][n[1] + 1]; });
    check_runs(default_schedule(op, Machine::host()));
}

TEST_CASE("recurrences at loops of their readers begin with the first element") {
    const auto run = [](const Op &op, const Sizes &sizes, const std::function<void(Schedule &)> &directives) {
        for (const bool halide : {false, true}) {
            Schedule s(op, Machine::host());
            directives(s);
            check_runs(s, sizes, {.through_halide = halide});
        }
    };
    using S = Schedule &;
    for (const auto &[M, N] : std::vector<std::pair<int, int>>{{1, 1}, {5, 7}, {16, 33}}) {
        const Axis i("i", M), j("j", N), k("k", N);
        const Tensor X = input("X", i32, {i, j});
        const Tensor T = compute("T", {i, j}, scan(plus, 0, X(i, j), j));
        const Op twice("twice", {X}, {compute("Y", {i, j}, T(i, j) * 2)});
        run(twice, {}, [](S s) { s.stage("T").compute_at("Y", "i"); });
        run(twice, {}, [](S s) { s.stage("T").compute_at("Y", "j"); });
        const auto tiled = [](S s) {
            StageHandle Y = s.stage("Y");
            Y.split("i", 4), Y.split("j", 4);
            Y.reorder({"i.o", "j.o", "i.i", "j.i"}).vectorize("j.i").parallel("i.o");
            s.stage("T").compute_at("Y", "j.o").reorder({"j", "i"}).vectorize("i", 4);
        };
        run(twice, {}, tiled);
        // Read at other indices.
        const Tensor padded = zero_padded(T, {j}), edge = clamped(T, {j});
        const Op shifted("shifted", {X}, {compute("Y", {i, j}, T(i, j) - padded(i, j - 3) + edge(i, j + 2))});
        const Op reversed("reversed", {X}, {compute("Y", {i, j}, T(i, N - 1 - j))});
        const Op later("later", {X}, {compute("Y", {i, k}, T(i, min(k + 2, N - 1)))});
        for (const Op &op : {shifted, reversed, later}) {
            const std::string along = op.name() == "later" ? "k" : "j";
            run(op, {}, [](S s) { s.stage("T").compute_at("Y", "i"); });
            run(op, {}, [&](S s) {
                s.stage("Y").split(along, 4);
                s.stage("T").compute_at("Y", along + ".o");
            });
        }
        // With other stages, before and after.
        const Tensor P = compute("P", {i, j}, X(i, j) * 3 + 1);
        const Tensor U = compute("U", {i, j}, scan(plus, 0, P(i, j), j));
        const Op chain("chain", {X}, {compute("Y", {i, j}, U(i, j) - sum(U(i, k), k))});
        run(chain, {}, [](S s) {
            s.stage("Y.sum").compute_at("Y", "i");
            s.stage("U").compute_at("Y", "i");
            s.stage("P").compute_at("U", "j");
        });
        run(chain, {}, [](S s) { // the first two are pending until the third
            s.stage("P").compute_at("Y", "i").vectorize("j", 4);
            s.stage("U").compute_at("Y", "i");
            s.stage("Y.sum").compute_at("Y", "i");
        });
        const Tensor V = compute("V", {i, j}, scan(plus, 0, T(i, j), j));
        const Op of_scan("of_scan", {X}, {compute("Y", {i, j}, V(i, j) * 2)});
        run(of_scan, {}, [](S s) {
            s.stage("V").compute_at("Y", "i");
            s.stage("T").compute_at("V", "j");
        });
        run(of_scan, {}, [](S s) {
            s.stage("V").compute_at("Y", "i");
            s.stage("T").compute_at("Y", "i");
        });
        // An output is written once.
        const Op both("both", {X}, {T, compute("Y", {i, j}, T(i, j) * 2)});
        run(both, {}, [](S s) { s.stage("T").compute_at("Y", "i"); });
        // Several values, which a reduction reads.
        const Tuple best = largest_so_far(X(i, j), j, j);
        const Op reduced("reduced", {X}, {compute("Y", {i}, sum(best[0] * 3 + best[1], j))});
        run(reduced, {}, [](S s) { s.stage("Y.scan").compute_at("Y", "i"); });
        // Along the first axis, in columns.
        const Tensor C = compute("C", {i, j}, scan(plus, 0, X(i, j), i));
        const Op columns("columns", {X}, {compute("Y", {i, j}, C(i, j) * 2)});
        run(columns, {}, [](S s) {
            s.stage("Y").split("j", 8);
            s.stage("Y").reorder({"j.o", "i", "j.i"});
            s.stage("C").compute_at("Y", "j.o").vectorize("j", 4);
        });
        run(columns, {}, [](S s) { // vectors are wider than the stored column
            s.stage("Y").reorder({"j", "i"});
            s.stage("C").compute_at("Y", "j").vectorize("j", 16);
        });
        // An element reads both neighbours in the row before, so its region has all earlier rows.
        const Tensor E = recurrence("E", i32, {i, j}, 0, [&](const Earlier &E) {
            return (X(i, j) + 7 * E(i, j - 1) + 3 * E(i - 1, j + 1) + E(i - 1, j - 2)) % 31;
        });
        const Op spread("spread", {X}, {compute("Y", {i, j}, E(i, j) * 2)});
        run(spread, {}, [](S s) { s.stage("E").compute_at("Y", "i"); });
        run(spread, {}, [](S s) {
            s.stage("Y").split("j", 4);
            s.stage("Y").reorder({"j.o", "i", "j.i"});
            s.stage("E").compute_at("Y", "j.o");
        });
    }
    const Axis i("i", Size("M")), j("j", Size("N"));
    const Tensor X = input("X", i32, {i, j}), T = compute("T", {i, j}, scan(plus, 0, X(i, j), j));
    const Op any("any", {X}, {compute("Y", {i, j}, T(i, j) * 2)});
    for (const int n : {0, 1, 30}) {
        run(any, {{"M", n}, {"N", n + 3}}, [](S s) { s.stage("T").compute_at("Y", "i"); });
        run(any, {{"M", n}, {"N", n + 3}}, [](S s) {
            s.stage("Y").split("j", 4);
            s.stage("T").compute_at("Y", "j.o");
        });
    }
    const Op both("both", {X}, {T, compute("Y", {i, j}, T(i, j) * 2)});
    CHECK(refusal([&] { Schedule(both).stage("T").compute_at("Y", "j"); })
              .find("would not write disjoint parts of output T: T is a recurrence along j, each of whose iterations "
                    "computes all earlier elements") != std::string::npos);
}

TEST_CASE("the default computes large recurrences in their readers") {
    const Axis i("i", 1030), j("j", 1000), k("k", 1000);
    const Tensor X = input("X", i32, {i, j}), T = compute("T", {i, j}, scan(plus, 0, X(i, j), j));
    const Op op("normalised", {X}, {compute("Y", {i, j}, max(T(i, j), 0) * 2 - sum(X(i, k), k))});
    const Schedule s = default_schedule(op, Machine::named("x86-64-avx2"));
    CHECK(s.state().stage("T").placement.consumer == "Y");
    check_runs(default_schedule(op, Machine::host()));
    // Not one that is read at other rows.
    const Op across("across", {X}, {compute("Y", {i, j}, T(1029 - i, j) * 2)});
    CHECK(default_schedule(across, Machine::named("x86-64-avx2")).state().stage("T").placement.kind ==
          Placement::Kind::Root);
}

TEST_CASE("one element alone needs those before it") {
    for (const Op &op : {filter(3, 20), alignment(6, 9), diffusion(5, 11)}) {
        const std::vector<Buffer<>> in = random_inputs(op);
        const Results all = interpret(op, in);
        for (const std::vector<int64_t> &index : {std::vector<int64_t>{2, 7}, {0, 0}, {1, 3}})
            CHECK(interpret_element(op, in, {}, op.outputs()[0], index, false).value == at(all[0], index));
    }
}

TEST_CASE("errors of recurrences") {
    Axis i("i", 8), t("t", 16);
    Tensor X = input("X", f32, {i, t});
    const auto told = [&](const std::function<Expr(const Earlier &)> &value) {
        return refusal([&] { Op("bad", {X}, {recurrence("y", f32, {i, t}, 0, value)}); });
    };
    using E = const Earlier &;
    CHECK(told([&](E y) { return y(i, t); }).find("reads itself at (i, t), the element that it computes") !=
          std::string::npos);
    CHECK(told([&](E y) { return y(i, t + 1); }).find("at (i, t + 1), an element that is computed later") !=
          std::string::npos);
    CHECK(told([&](E y) { return y(i + 1, t); }).find("an element that is computed later; legal is each axis plus") !=
          std::string::npos);
    CHECK(told([&](E y) { return y(i + Expr(INT32_MIN), t); }).find("legal are distances of up to 16777216") !=
          std::string::npos);
    CHECK(told([&](E y) { return y(i - 1, t + 2147483647); }).find("2147483647 elements away along t; legal are") !=
          std::string::npos);
    CHECK(told([&](E y) { return y(i, t - 1000) + y(i - 1, t + 1000); }) == "no error");
    CHECK(told([&](E y) { return y(i, 2 * t); }).find("index 1 is not t plus or minus a number") != std::string::npos);
    CHECK(told([&](E y) { return y(t - 1); }).find("1 indices for its 2 axes") != std::string::npos);
    CHECK(told([&](E y) {
              return cast(f64, y(i, t - 1));
          }).find("the value of recurrence \"y\" is f64, but the tensor has elements of f32; cast it") !=
          std::string::npos);
    using Several = const std::vector<Earlier> &;
    const auto several = [&](const std::vector<std::string> &names, bool earlier) {
        return refusal([&] {
            const auto made = recurrence(names, {f32, f32}, {i, t}, {0, 0}, [&](Several e) -> std::vector<Expr> {
                return {earlier ? e[0](i, t - 1) + X(i, t) : X(i, t), X(i, t) * 2};
            });
            Op("bad", {X}, {made[0], made[1]});
        });
    };
    CHECK(several({"p", "q"}, true) == "no error");
    CHECK(
        several({"p", "q"}, false).find("has 2 values of which none reads an earlier element; make each by compute") !=
        std::string::npos);
    CHECK(several({"p", "p"}, true).find("recurrence \"p\" names tensor \"p\" twice") != std::string::npos);
    Tensor top = input("top", f32, {t});
    CHECK(refusal([&] {
              recurrence("H", f32, {i, t}, top(t), [&](E H) { return H(i - 1, t - 1); });
          }).find("the value before the first of recurrence \"H\" reads top; legal are numbers, axes and sizes") !=
          std::string::npos);
    Axis longer("i", 20);
    const auto twice = [&](const Axis &along) {
        return recurrence({"x", "y"}, {i32, i32}, {along}, {0, 0}, [&](Several e) -> std::vector<Expr> {
            return {e[0](along - 1) + 1, e[0](along - 1) + 2};
        });
    };
    CHECK(refusal([&] {
              Op("bad", {}, {twice(i)[0], twice(longer)[1]});
          }).find("two different recurrences have") != std::string::npos);
    CHECK(refusal([&] {
              recurrence({"p", "q"}, {f32}, {i, t}, {0, 0},
                         [&](const std::vector<Earlier> &) -> std::vector<Expr> { return {}; });
          }).find("recurrence \"p\" has 2 tensors but 1 types; give one for each") != std::string::npos);

    const auto wrong = [](const Op &op, auto f) {
        return refusal([&] {
            Schedule s(op);
            f(s.stage(op.outputs()[0]));
        });
    };
    using S = StageHandle;
    CHECK(wrong(filter(8, 16), [](S y) { y.vectorize("t", 4); })
              .find("y reads itself at (i, t - 1), so the iterations of loop t.v wait for each other and cannot be "
                    "lanes of one vector; legal is a loop along another axis") != std::string::npos);
    CHECK(wrong(filter(8, 16), [](S y) { y.parallel("i"); }) == "no error");
    CHECK(wrong(alignment(8, 16), [](S H) { H.parallel("i"); }).find("cannot run in parallel") != std::string::npos);
    CHECK(wrong(alignment(8, 16), [](S H) { H.vectorize("j", 4); }).find("wait for each other") != std::string::npos);
    CHECK(wrong(knapsack(8, 16), [](S b) { b.vectorize("w", 4); }) == "no error");
    CHECK(wrong(knapsack(8, 16),
                [](S b) {
                    b.reorder({"w", "n"}).parallel("w");
                })
              .find("legal is a loop along another axis, or one inside of all loops along another axis of the read") !=
          std::string::npos);
    CHECK(wrong(knapsack(8, 16), [](S b) { b.vectorize("w", 4).reorder({"w.o", "n", "w.v"}); }) == "no error");
    CHECK(wrong(diffusion(8, 16),
                [](S e) {
                    e.reorder({"x", "y"});
                })
              .find("E reads itself at (y - 1, x + 1), so all loops along y stay outside of those along x") !=
          std::string::npos);
    // Fusing keeps the order.
    CHECK(wrong(diffusion(8, 16), [](S e) { e.fuse("y", "x", "yx"); }) == "no error");
    CHECK(wrong(alignment(8, 16), [](S H) {
              auto [o, in] = H.split("j", 4);
              H.fuse(o, in, "jj");
              H.split("jj", 3);
          }) == "no error");
    CHECK(refusal([&] {
              Schedule s(Op("pair", {X}, [&] {
                  const Tuple w = scan(
                      [](const Values &a, const Values &b) -> Values {
                          return {a[0] + b[0], a[1] + b[1]};
                      },
                      {0.f, 0.f}, {X(i, t), X(i, t) * 2}, t);
                  return std::vector{compute("V", {i, t}, w[0] + w[1])};
              }()));
              s.place_in("V.scan.1", "L1", "V.scan", "i");
          }).find("is a recurrence: a copy would miss") != std::string::npos);
    CHECK(wrong(diffusion(8, 16), [](S e) { e.tile({"y", "x"}, {4, 4}); }).find("stay outside") != std::string::npos);
    CHECK(wrong(alignment(8, 16), [](S H) {
              auto [o, in] = H.split("j", 4);
              H.reorder({in, o});
          }).find("H is a recurrence along j, so loop j.o stays outside of loop j.i") != std::string::npos);
}
