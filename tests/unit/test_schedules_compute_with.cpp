// compute_with: results with extents that the splits do not divide, and errors.
// Links: driver
#include "dsl/math.h"
#include "dsl/scan.h"
#include "tests/unit/check_runs.h"
#include "tests/unit/count.h"

using namespace kumiko;

namespace {

// The product of complex numbers: two outputs that read the same inputs.
Op products(const Expr &M, const Expr &N) {
    Axis i("i", M), j("j", N);
    Tensor A = input("A", i32, {i, j}), B = input("B", i32, {i, j}), C = input("C", i32, {i, j}),
           D = input("D", i32, {i, j});
    Tensor re = compute("re", {i, j}, A(i, j) * C(i, j) - B(i, j) * D(i, j));
    Tensor im = compute("im", {i, j}, A(i, j) * D(i, j) + B(i, j) * C(i, j));
    return Op("products", {A, B, C, D}, {re, im});
}

// The minimum, the maximum and the sum of each row.
Op rows(const Expr &M, const Expr &N) {
    Axis i("i", M), j("j", N);
    Tensor X = input("X", i32, {i, j});
    return Op("rows", {X},
              {compute("low", {i}, minimum(X(i, j), j)), compute("high", {i}, maximum(X(i, j), j)),
               compute("total", {i}, sum(X(i, j), j))});
}

// The same splits, order and kinds of loops for all of these stages.
void tile_alike(Schedule &s, const std::vector<std::string> &stages, Tail tail, int64_t block = 8) {
    for (const std::string &name : stages) {
        auto [o, l] = s.stage(name).split("j", block, {"", "", tail});
        s.stage(name).vectorize(l);
    }
}

} // namespace

TEST_CASE("two outputs in one nest, whatever the last block is") {
    for (const Tail tail : {Tail::Auto, Tail::Guard, Tail::Mask, Tail::Shift}) {
        for (const int n : {8, 16, 21}) {
            Schedule s(products(5, n));
            tile_alike(s, {"re", "im"}, tail);
            const size_t loops = count(body_of(s), "for (");
            s.stage("im").compute_with("re", "j.i");
            check_runs(s);
            CHECK(2 * count(body_of(s), "for (") == loops);
        }
    }
    Schedule s(products(Size("M"), Size("N")));
    tile_alike(s, {"re", "im"}, Tail::Auto);
    s.stage("re").parallel("i");
    s.stage("im").parallel("i").compute_with("re", "j.i");
    for (const int m : {0, 1, 3}) {
        for (const int n : {0, 1, 7, 8, 30}) check_runs(s, {{"M", m}, {"N", n}});
    }
}

TEST_CASE("an outer loop is shared, and each stage has its own loops inside") {
    Schedule s(products(6, 20));
    s.stage("re").vectorize("j", 4);
    s.stage("im").compute_with("re", "i");
    check_runs(s);
    CHECK(s.nest() == R"(compute re, and im down to i
  for i in 0..6
    for j.o in 0..5
      vectorized j.v in 0..4
        re(i, j) = …
    for j in 0..20
      im(i, j) = …
)");
}

TEST_CASE("reductions over the same data, with partial results in registers") {
    for (const int n : {1, 8, 37}) {
        Schedule s(rows(9, n));
        for (const char *name : {"low", "high", "total"}) {
            auto [o, l] = s.stage(name).split("i", 4);
            s.stage(name).reorder({o, "j", l}).vectorize(l);
            s.accumulate_in(name, "registers", o);
        }
        s.stage("high").compute_with("low", "i.i");
        s.stage("total").compute_with("low", "i.i");
        check_runs(s);
    }
}

TEST_CASE("partial results are spilled in one of two stages") {
    for (const int m : {8, 10}) {
        for (const bool of_leader : {true, false}) {
            Schedule s(rows(m, 37));
            for (const char *name : {"low", "high"}) {
                auto [o, l] = s.stage(name).split("i", 2);
                s.stage(name).reorder({o, "j", l}).vectorize(l);
            }
            s.accumulate_in(of_leader ? "low" : "high", "registers", "i.o");
            s.stage("high").compute_with("low", "i.i");
            check_runs(s);
            CHECK(count(body_of(s), "for (low.j") == 1);
        }
    }
}

TEST_CASE("the printed nest has the bodies of shared loops") {
    Axis i("i", 8), j("j", 16);
    Tensor X = input("X", i32, {i, j});
    Tensor t = compute("t", {i, j}, X(i, j) * 3);
    Schedule s(Op("both", {X}, {compute("low", {i}, minimum(X(i, j), j)), compute("high", {i}, maximum(t(i, j), j))}));
    s.stage("t").compute_at("high", "i");
    s.stage("high").compute_with("low", "j");
    s.accumulate_in("high", "registers", "i");
    check_runs(s);
    CHECK(s.nest() == R"(compute low, and high down to j
  for i in 0..8
    compute t, the part that one i needs
      for i in 0..8
        for j in 0..16
          t(i, j) = …
    accumulate high in registers
    for j in 0..16 (reduction)
      low(i) minimum= …
      high(i) maximum= …
)");
}

TEST_CASE("beside stages that are computed online") {
    Axis i("i", 5), j("j", 70);
    Tensor X = input("X", f32, {i, j});
    Tensor most = compute("most", {i}, maximum(X(i, j), j));
    Tensor e = compute("e", {i, j}, exp(X(i, j) - most(i)));
    Tensor total = compute("total", {i}, sum(e(i, j), j));
    // Rounded far above the last bit, in which sums in another order differ.
    Schedule s(Op("softmax", {X},
                  {compute("Y", {i}, most(i) + round(total(i) * 64)), compute("low", {i}, minimum(X(i, j), j)),
                   compute("sq", {i}, sum(X(i, j) * X(i, j), j))}));
    s.stage("e").inline_into();
    s.stage("total").split("j", 32);
    s.stage("total").online("most", "j.o");
    s.stage("sq").compute_with("low", "j");
    check_runs(s);
}

TEST_CASE("a later placement ends the sharing, also where it is pending") {
    Schedule s(rows(8, 16));
    s.stage("low").split("j", 4);
    s.stage("high").compute_with("low", "j.o");
    REQUIRE(s.pending().size() == 1);
    s.stage("high").compute_root();
    CHECK(s.pending().empty());
    s.stage("high").split("j", 4);
    CHECK(!s.state().stage("high").shared);
    s.stage("total").compute_with("low", "j.o");
    s.stage("total").compute_with("high", "j.o");
    CHECK(s.pending().size() == 1);
    s.stage("total").split("j", 4);
    CHECK(s.state().stage("total").shared->stage == "high");
    check_runs(s);
}

TEST_CASE("a refusal names the places of both stages") {
    Axis i("i", 8), j("j", 16);
    Tensor X = input("X", i32, {i, j}), A = compute("A", {i, j}, X(i, j) * 2), B = compute("B", {i, j}, X(i, j) * 3);
    Schedule s(Op("two", {X}, {compute("C", {i, j}, A(i, j) + B(i, j))}));
    s.stage("A").compute_at("C", "i");
    s.stage("B").compute_root();
    s.stage("B").compute_with("A", "j");
    const std::string why = refusal([&] { s.require_applied(); });
    CHECK(says(why, "stages B and A are computed at different places, B at the root and A at loop i of C"));
    CHECK(says(why, "compute_at(\"C\", \"i\") of B or compute_root() of A makes them equal"));
    s.stage("A").compute_root();
    check_runs(s);
}

TEST_CASE("stages that stand in loops which are one") {
    for (const int n : {24, 29}) {
        Schedule s(rows(5, n));
        for (const std::string name : {"low", "high"}) {
            s.stage(name).split("j", 8);
            s.stage(name).rfactor("j.i").vectorize("j_i", 8);
        }
        // Pending until high is in the nest of low.
        s.stage("high.rf").compute_with("low.rf", "j_i");
        CHECK(s.pending().size() == 1);
        s.stage("high").compute_with("low", "i");
        CHECK(s.pending().empty());
        check_runs(s);
        CHECK(says(s.nest(), "compute low.rf, the part that one i needs, and high.rf down to j_i"));
    }
}

TEST_CASE("reductions with finished consumers, and a producer between them") {
    Axis i("i", 6), j("j", 10), k("k", 7);
    Tensor X = input("X", i32, {i, k}), W = input("W", i32, {k, j}), V = input("V", i32, {k, j});
    Tensor left = compute("left", {i, j}, sum(X(i, k) * W(k, j), k));
    Tensor L = compute("L", {i, j}, max(left(i, j), 0));
    Tensor shift = compute("shift", {j}, W(0, j) + 1);
    Tensor right = compute("right", {i, j}, sum(X(i, k) * (V(k, j) + shift(j)), k));
    Tensor R = compute("R", {i, j}, right(i, j) - 1);
    const Op op("two", {X, W, V}, {L, R});
    Schedule s(op);
    s.stage("left").finish_in("L");
    s.stage("right").finish_in("R");
    for (const char *name : {"left", "right"}) s.stage(name).reorder({"i", "k", "j"});
    s.stage("right").compute_with("left", "j"); // shift is computed before both
    check_runs(s);
    for (const char *name : {"left", "right"}) s.accumulate_in(name, "registers", "i");
    check_runs(s);
    CHECK(says(refusal([&] { s.stage("R").compute_with("left", "j"); }), "R is computed in the loops of right"));
}

TEST_CASE("loops that one stage reduces over, and another does not") {
    for (const Tail tail : {Tail::Mask, Tail::Shift}) {
        for (const int n : {64, 61, 37, 9, 8, 5, 1}) {
            if (tail == Tail::Shift && n < 8) continue;
            Axis j("j", n);
            Tensor X = input("X", i32, {j});
            Schedule s(Op("loss", {X}, {compute("L", {}, sum(X(j) * X(j), j)), compute("G", {j}, X(j) * 2)}));
            s.stage("L").split("j", 8);
            s.stage("L").rfactor("j.i");
            s.stage("L.rf").reorder({"j_o", "j_i"}).vectorize("j_i").split("j_o", 3);
            s.stage("L.rf").accumulate_in("registers", "j_o.o");
            s.stage("L").vectorize("j_i");
            s.stage("G").split("j", 8, {"j_o", "j_i", tail});
            s.stage("G").vectorize("j_i").split("j_o", 3);
            const size_t loops = count(body_of(s), "for (");
            s.stage("G").compute_with("L.rf", "j_o.i");
            check_runs(s);
            if (n == 64) CHECK(count(body_of(s), "for (") < loops);
        }
    }
    Axis i("i", 7), j("j", 6);
    Tensor X = input("X", i32, {i, j});
    Schedule s(Op("both", {X}, {compute("C", {j}, sum(X(i, j), i)), compute("Y", {i, j}, X(i, j) + 1)}));
    s.stage("C").reorder({"i", "j"}).vectorize("j");
    s.stage("Y").vectorize("j").compute_with("C", "i");
    check_runs(s);
}

TEST_CASE("both loops of a split that masks its last block, beside two axes, are refused") {
    Axis a("a", 2), b("b", 8), j("j", 13);
    Tensor X = input("X", i32, {j}), U = input("U", i32, {a, b});
    Schedule s(Op("apart", {X, U}, {compute("Y", {j}, X(j) + 1), compute("Z", {a, b}, U(a, b) * 2)}));
    s.stage("Y").split("j", 8, {"a", "b", Tail::Mask});
    s.stage("Z").compute_with("Y", "b");
    CHECK(says(refusal([&] { s.require_applied(); }), "split or fused differently"));
    s.stage("Z").compute_with("Y", "a");
    check_runs(s);
}

TEST_CASE("stages that cannot share loops are refused with a reason") {
    Axis i("i", 8), j("j", 12);
    Tensor X = input("X", i32, {i, j});
    Tensor T = compute("T", {i, j}, X(i, j) + 1), U = compute("U", {i, j}, T(i, j) * 2),
           V = compute("V", {i, j}, X(i, j) - 1),
           S = compute("S", {i, j}, scan([](Expr a, Expr b) { return a + b; }, 0, X(i, j), j));
    const Op op("four", {X}, {T, U, V, S});
    Schedule s(op);
    CHECK(says(refusal([&] { s.stage("U").compute_with("T", "j"); }), "all of T must be complete before"));
    CHECK(says(refusal([&] { s.stage("T").compute_with("T", "j"); }), "runs in its own loops"));
    CHECK(says(refusal([&] { s.stage("S").compute_with("T", "j"); }), "stage S is a recurrence"));
    CHECK(says(refusal([&] { s.stage("V").compute_with("X", "j"); }), "there is no stage \"X\""));
    CHECK(says(refusal([&] { s.stage("V").compute_with("T", "k"); }), "stage T has no loop \"k\""));
    s.stage("V").compute_with("T", "j");
    CHECK(says(refusal([&] { s.stage("U").compute_with("V", "j"); }), "V runs in the loops of T; name that stage"));
    CHECK(says(refusal([&] { s.stage("T").compute_with("U", "j"); }), "V runs in the loops of T"));
    CHECK(says(refusal([&] { s.stage("T").split("j", 4); }), "loop j of stage T no longer exists"));
    CHECK(says(refusal([&] { s.stage("V").parallel("i"); }), "is parallel, that of T is serial"));
    s.stage("V").compute_root(); // in its own loops again
    s.stage("T").split("j", 5);
    check_runs(s);
    // Pending until the loops are alike.
    s.stage("V").compute_with("T", "j.o");
    CHECK(says(refusal([&] { s.require_applied(); }), "loop j of V is where T has loop j.o"));
    s.stage("V").split("j", 5);
    CHECK(says(refusal([&] { s.require_applied(); }), "j.i of T comes from a split that does not divide"));
    Schedule both(op);
    for (const char *name : {"T", "V"}) both.stage(name).split("j", 4);
    both.stage("V").compute_with("T", "j.o");
    both.stage("V").unroll("j.i");
    check_runs(both);
}

TEST_CASE("groups that need each other in a ring are refused") {
    Axis i("i", 8);
    Tensor X = input("X", i32, {i});
    Tensor a = compute("a", {i}, X(i) + 1), d = compute("d", {i}, X(i) * 3);
    Tensor c = compute("c", {i}, a(i) * 2), b = compute("b", {i}, d(i) - 1);
    Schedule s(Op("ring", {X}, {a, b, c, d}));
    s.stage("b").compute_with("a", "i"); // b needs d, and c needs a
    CHECK(says(refusal([&] { s.stage("d").compute_with("c", "i"); }), "must be complete before"));
    check_runs(s);
}

TEST_CASE("stages that a group reads may be computed in parts") {
    Axis i("i", 9), j("j", 6);
    Tensor X = input("X", i32, {i, j});
    Tensor a = compute("a", {i, j}, X(i, j) * 2), T = compute("T", {i, j}, X(i, j) + 1);
    Tensor b = compute("b", {i, j}, T(i, j) - T(0, j));
    Schedule s(Op("parts", {X}, {a, b}));
    s.stage("T").region("i", 2, 3, "part");
    s.stage("b").compute_with("a", "j"); // T and its part are computed before both
    check_runs(s);
    CHECK(says(refusal([&] { s.stage("T").compute_with("a", "j"); }), "stage T is computed in parts"));
}
