// Stages in loops that several stages share (compute_at beside compute_with), and the default
// schedule that computes rows of several outputs that way.
// Links: driver
#include "driver/default_schedule.h"
#include "dsl/math.h"
#include "dsl/padding.h"
#include "dsl/scan.h"
#include "tests/unit/check_runs.h"
#include "tests/unit/count.h"

using namespace kumiko;

namespace {

// Two outputs that read T at an offset of `below` rows and columns.
Op two(const Expr &M, const Expr &N, int below = 0) {
    Axis i("i", M), j("j", N), y("y", M + below), x("x", N + below);
    Tensor X = input("X", i32, {y, x});
    Tensor T = compute("T", {y, x}, X(y, x) * 3 + 1);
    return Op("two", {X},
              {compute("U", {i, j}, T(i, j) - X(i, j)), compute("V", {i, j}, T(i + below, j + below) * T(i, j))});
}

// Each row divided by its maximum, and that maximum.
Op scaled(const Expr &M, const Expr &N, Type type = i32) {
    Axis i("i", M), j("j", N), k("k", N);
    Tensor X = input("X", type, {i, j});
    Tensor most = compute("most", {i}, maximum(X(i, k), k));
    return Op("scaled", {X}, {compute("Y", {i, j}, X(i, j) - most(i)), compute("M", {i}, most(i) * 2)});
}

} // namespace

TEST_CASE("a stage is computed once for all that share the loop") {
    for (const int below : {0, 1, 3}) {
        for (const auto &[m, n] : {std::pair(8, 16), std::pair(7, 13), std::pair(1, 3)}) {
            Schedule s(two(m, n, below));
            s.stage("V").compute_with("U", "i");
            s.stage("T").compute_at("U", "i");
            check_runs(s);
            CHECK(count(body_of(s), "allocate T[") == 1);
            s.stage("T").vectorize("x", 4);
            s.stage("U").vectorize("j", 8);
            s.stage("V").vectorize("j", 4);
            s.stage("V").compute_with("U", "i"); // again
            check_runs(s);
            Schedule rows(two(m, n, below));
            for (const char *name : {"U", "V"}) {
                rows.stage(name).split("i", 3);
                rows.stage(name).parallel("i.o");
            }
            rows.stage("V").compute_with("U", "i.i");
            rows.stage("T").compute_at("U", "i.o");
            rows.stage("V").vectorize("j", 8);
            check_runs(rows);
        }
    }
    Schedule open(two(Size("M"), Size("N"), 2));
    open.stage("V").compute_with("U", "i");
    open.stage("T").compute_at("U", "i").vectorize("x", 4);
    check_runs(open, {{"M", 5}, {"N", 11}});
}

TEST_CASE("blocks of both axes, of which the last are not full") {
    for (const Tail tail : {Tail::Guard, Tail::Auto}) {
        Schedule s(two(11, 21, 2));
        for (const char *name : {"U", "V"}) {
            s.stage(name).split("i", 4, {"", "", tail});
            s.stage(name).split("j", 8, {"", "", tail});
            s.stage(name).reorder({"i.o", "j.o", "i.i", "j.i"});
        }
        s.stage("V").compute_with("U", "j.i");
        s.stage("T").compute_at("U", "j.o");
        check_runs(s);
    }
}

TEST_CASE("stages at loops of either reader, and readers that end reductions") {
    Axis i("i", 9), j("j", 12), k("k", 12), o("o", 5);
    Tensor X = input("X", i32, {i, j}), W = input("W", i32, {k, o});
    Tensor T = compute("T", {i, j}, X(i, j) * X(i, j));
    Tensor most = compute("most", {i}, maximum(T(i, j), j));
    Tensor m = compute("m", {i, o}, sum(T(i, k) * W(k, o), k));
    Tensor row = compute("row", {i}, sum(T(i, j), j));
    const Op op("ends", {X, W}, {compute("Y", {i, o}, m(i, o) + most(i)), compute("R", {i}, row(i) - most(i))});
    Schedule s(op);
    s.stage("m").reorder({"i", "k", "o"}).accumulate_in("registers", "i").finish_in("Y");
    s.stage("row").accumulate_in("registers", "i").finish_in("R");
    s.stage("row").compute_with("m", "i");
    for (const char *name : {"most", "T"}) s.stage(name).compute_at("m", "i");
    check_runs(s);
    Schedule own(op); // row is computed in the loops of R
    own.stage("m").reorder({"i", "k", "o"}).accumulate_in("registers", "i").finish_in("Y");
    own.stage("R").compute_with("m", "i");
    own.stage("row").compute_at("R", "i");
    for (const char *name : {"most", "T"}) own.stage(name).compute_at("m", "i");
    check_runs(own);
    Schedule late(op); // most is read where row ends
    late.stage("row").finish_in("R");
    late.stage("m").finish_in("Y");
    late.stage("row").compute_with("m", "i");
    late.stage("most").compute_at("m", "i");
    check_runs(late);
}

TEST_CASE("errors name stages outside of the shared loop") {
    Schedule s(two(8, 16));
    CHECK(says(refusal([&] { s.stage("T").compute_at("U", "i"), s.require_applied(); }), "is not inside loop i"));
    Schedule outer(two(8, 16));
    outer.stage("V").compute_with("U", "i");
    CHECK(says(refusal([&] { outer.stage("T").compute_at("U", "j"), outer.require_applied(); }),
               "is not inside loop j of U"));
    CHECK(says(refusal([&] { outer.stage("T").compute_at("V", "i"), outer.require_applied(); }),
               "is not inside loop i of V"));
}

TEST_CASE("stages inside share loops too, and followers share fewer loops than others") {
    Axis i("i", 12), j("j", 20), k("k", 20);
    Tensor X = input("X", i32, {i, j}), Z = input("Z", i32, {i, j});
    Tensor a = compute("a", {i}, maximum(X(i, k) + Z(i, k), k)), b = compute("b", {i}, maximum(X(i, k) - Z(i, k), k));
    Schedule s(Op("inside", {X, Z}, {compute("Y", {i, j}, X(i, j) * a(i) - b(i)), compute("R", {i}, a(i) + b(i))}));
    s.stage("R").compute_with("Y", "i");
    for (const char *name : {"a", "b"}) s.stage(name).compute_at("Y", "i");
    s.stage("b").compute_with("a", "k");
    check_runs(s);
    Schedule three(Op("three", {X, Z},
                      {compute("U", {i, j}, X(i, j) + Z(i, j)), compute("V", {i, j}, X(i, j) - Z(i, j)),
                       compute("W", {i, j}, X(i, j) * Z(i, j))}));
    for (const char *name : {"U", "V"}) three.stage(name).split("j", 4);
    three.stage("W").split("j", 5);
    three.stage("V").compute_with("U", "j.i");
    three.stage("W").compute_with("U", "i");
    check_runs(three);
}

TEST_CASE("a stage in a shared loop is not double-buffered") {
    Schedule s(two(6, 7));
    s.stage("V").compute_with("U", "i");
    s.stage("T").compute_at("U", "i");
    CHECK(says(refusal([&] { s.stage("T").double_buffer(); }), "has the multi-buffered copy T in its loops"));
}

TEST_CASE("no default loses its rules where several outputs read rows") {
    Axis i("i", 1000), j("j", 1000), k("k", 1000), d("d", 5);
    Tensor X = input("X", f32, {i, j}), Z = input("Z", f32, {i, j});
    Tensor most = compute("most", {i}, maximum(X(i, k), k)), least = compute("least", {i}, minimum(Z(i, k), k));
    Tensor e = compute("e", {i, j}, X(i, j) - most(i));
    const auto add = [](const Expr &a, const Expr &b) -> Expr { return a + b; };
    const Tensor Y = compute("Y", {i, j}, e(i, j) * 2);
    const Op ops[] = {
        Op("window", {X}, {Y, compute("W", {i, j}, sum(zero_padded(e)(i, j + d - 2), d) * 0.2f)}),
        Op("scanned", {X}, {compute("S", {i, j}, scan(add, 0.f, e(i, j), j)), compute("M", {i}, most(i) * 2)}),
        Op("index", {X, Z},
           {compute("A", {i, j}, X(i, j) - cast(f32, argmax(X(i, k) - most(i), k))),
            compute("B", {i, j}, Z(i, j) + most(i))}),
        Op("both", {X, Z}, {compute("A", {i, j}, X(i, j) * most(i) - least(i)), compute("R", {i}, most(i) + least(i))}),
        Op("read", {X}, {Y, compute("B", {i, j}, Y(i, j) + most(i)), compute("M", {i}, most(i) + 1)})};
    for (const Op &op : ops) {
        INFO(op.name());
        std::string name;
        std::vector<PassedOver> others;
        default_schedule(op, Machine::named("x86-64-avx512"), PackedBy::Kernel, &others, &name);
        CHECK(name == "elementwise");
        for (const PassedOver &other : others) MESSAGE(to_string(other));
    }
}

TEST_CASE("rows of several outputs are computed one after the other by default") {
    const auto nest = [](const Op &op) { return default_schedule(op, Machine::named("x86-64-avx512")).nest(); };
    const std::string large = nest(scaled(1000, 1000, f32));
    CHECK(says(large, "M down to i"));
    CHECK(says(large, "compute most, the part that one i needs"));
    CHECK(!says(nest(scaled(60, 60, f32)), "down to i")); // fits the cache
    check_runs(default_schedule(scaled(600, 1000), Machine::host()));
    check_runs(default_schedule(scaled(1000, 600), Machine::host()));
    Axis i("i", 150), j("j", 700), k("k", 700);
    Tensor X = input("X", i32, {i, j}), Z = input("Z", i32, {i, j});
    Tensor most = compute("most", {i}, maximum(X(i, k), k));
    Tensor e = compute("e", {i, j}, X(i, j) - most(i));
    Tensor total = compute("total", {i}, sum(e(i, k) * Z(i, k), k));
    check_runs(default_schedule(Op("three", {X, Z},
                                   {compute("Y", {i, j}, e(i, j) * total(i)), compute("E", {i, j}, e(i, j) + Z(i, j)),
                                    compute("L", {i}, most(i) + total(i))}),
                                Machine::host()));
}
