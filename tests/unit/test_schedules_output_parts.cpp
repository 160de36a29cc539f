// Outputs that are computed at a loop of a stage that reads them: results with extents that the
// splits do not divide, and refusals.
// Links: driver
#include "dsl/math.h"
#include "dsl/padding.h"
#include "tests/unit/check_runs.h"
#include "tests/unit/count.h"

using namespace kumiko;

namespace {

// A sum of two tensors, the total of each row, and the share of each element.
Op residual(const Expr &M, const Expr &N) {
    Axis i("i", M), j("j", N);
    Tensor X = input("X", i32, {i, j}), R = input("R", i32, {i, j});
    Tensor S = compute("S", {i, j}, X(i, j) + R(i, j)), total = compute("total", {i}, sum(S(i, j), j));
    return Op("residual", {X, R}, {compute("Y", {i, j}, S(i, j) * 3 - total(i)), S, total});
}

// An output that two others read, with a stage in between.
Op twice(const Expr &M, const Expr &N) {
    Axis i("i", M), j("j", N);
    Tensor X = input("X", i32, {i, j});
    Tensor S = compute("S", {i, j}, X(i, j) * 5 + i), T = compute("T", {i, j}, S(i, j) - 7);
    return Op("twice", {X}, {S, compute("Y", {i, j}, S(i, j) + T(i, j)), compute("Z", {i, j}, S(i, j) * 2)});
}

} // namespace

TEST_CASE("outputs of a row in the loops of the last stage") {
    for (const Tail tail : {Tail::Auto, Tail::Guard, Tail::Mask}) {
        for (const int m : {1, 6, 8}) {
            for (const int n : {1, 8, 21}) {
                Schedule s(residual(m, n));
                auto [o, rows] = s.stage("Y").split("i", 4, {"", "", tail});
                s.stage("total").compute_at("Y", rows);
                s.stage("S").compute_at("Y", rows).vectorize("j", 8);
                s.stage("Y").vectorize("j", 8).parallel(o);
                check_runs(s);
                s.stage("S").compute_at("Y", o); // the rows of a block
                s.stage("total").compute_at("Y", o).vectorize("j", 8);
                check_runs(s);
            }
        }
    }
    Schedule s(residual(Size("M"), Size("N")));
    s.stage("S").compute_at("Y", "i").vectorize("j", 8); // pending until total is computed there
    s.stage("total").compute_at("Y", "i");
    s.stage("Y").parallel("i").vectorize("j", 8);
    CHECK(s.nest() == R"(compute Y
  parallel i in 0..M
    compute S, the part that one i needs
      for i in 0..M
        for j.o in 0..((N + 7) / 8)
          vectorized j.v in 0..8
            S(i, j) = …
    compute total, the part that one i needs
      for i in 0..M
        for j in 0..N (reduction)
          total(i) sum= …
    for j.o in 0..((N + 7) / 8)
      vectorized j.v in 0..8
        Y(i, j) = …
)");
    for (const int m : {0, 1, 5}) {
        for (const int n : {0, 1, 8, 30}) check_runs(s, {{"M", m}, {"N", n}});
    }
}

TEST_CASE("a block of an output, which a later nest reads too") {
    for (const int n : {5, 16, 19}) {
        Schedule s(twice(7, n));
        auto [o, block] = s.stage("Y").split("j", 8);
        s.stage("T").compute_at("Y", o);
        s.stage("S").compute_at("Y", o).vectorize("j");
        s.stage("Y").vectorize(block);
        s.stage("Z").vectorize("j", 4);
        check_runs(s);
        CHECK(says(refusal([&] { s.stage("S").compute_at("T", "i"); }), "stage Y, which reads it"));
    }
}

TEST_CASE("an output that several stages of one nest read") {
    for (const int m : {1, 6}) {
        for (const int n : {3, 16, 21}) {
            for (const char *at : {"i", "j.o"}) {
                Schedule s(twice(m, n));
                s.stage("T").inline_into();
                for (const char *name : {"Y", "Z"}) s.stage(name).vectorize("j", 8).parallel("i");
                s.stage("Z").compute_with("Y", "j.v");
                s.stage("S").compute_at("Y", at).vectorize("j", 8);
                check_runs(s);
            }
        }
    }
    const auto refused = [](const std::function<void(Schedule &)> &f) {
        return refusal([&] {
            Schedule s(twice(6, 16));
            s.stage("T").inline_into();
            f(s);
        });
    };
    // In the nest of Y, its own part comes first.
    CHECK(refused([](Schedule &s) {
              s.stage("Z").compute_with("Y", "j");
              s.stage("S").compute_at("Z", "i");
          }).find("stage Y, which reads it, is not inside loop i of Z") != std::string::npos);
    CHECK(refused([](Schedule &s) {
              s.stage("Z").compute_with("Y", "i");
              s.stage("S").compute_at("Y", "j");
          }).find("stage Z, which reads it, is not inside loop j of Y") != std::string::npos);
    Axis i("i", 8), j("j", 8);
    Tensor X = input("X", i32, {i, j}), S = compute("S", {i, j}, X(i, j) * 5);
    const auto beside = [](const Op &op, const char *loop) {
        return refusal([&] {
            Schedule s(op);
            s.stage("Z").compute_with("Y", loop);
            s.stage("S").compute_at("Y", "i");
        });
    };
    const Op turned("turned", {X}, {S, compute("Y", {i, j}, S(i, j) + 1), compute("Z", {i, j}, S(j, i) * 2)});
    CHECK(beside(turned, "j").find("along i it is not read at one axis of Y of the same extent") != std::string::npos);
    const Op apart("apart", {X}, {S, compute("Y", {i, j}, X(i, j) + 1), compute("Z", {i, j}, S(i, j) * 2)});
    CHECK(beside(apart, "j").find("Y does not read S itself") != std::string::npos);
    Axis h("h", 4), k("k", 8);
    const Op longer("longer", {X}, {S, compute("Y", {i, h}, S(i, h)), compute("Z", {i}, sum(S(i, k), k))});
    CHECK(beside(longer, "i").find("along j it is not read at one axis of Y of the same extent") != std::string::npos);
}

TEST_CASE("stages inside the loops of an output do not extend it") {
    Axis i("i", 10), j("j", 21);
    Tensor X = input("X", i32, {i, j}), U = compute("U", {i, j}, X(i, j) + 1);
    Tensor S = compute("S", {i, j}, U(i, j) * U(i, j));
    Schedule s(Op("inside", {X}, {compute("Y", {i, j}, S(i, j) - 1), S}));
    s.stage("Y").tile({"i", "j"}, {4, 8});
    s.stage("S").compute_at("Y", "j.o").vectorize("j", 8);
    s.stage("U").compute_at("S", "i").vectorize("j", 8);
    check_runs(s);
}

TEST_CASE("parts of an output that are not the iteration's own") {
    Axis i("i", 8), j("j", 16), k("k", 8);
    Tensor X = input("X", i32, {i, j});
    const auto with = [&](const std::function<Element(const Tensor &)> &value, const std::vector<Axis> &axes) {
        Tensor S = compute("S", {i, j}, X(i, j) + 1);
        return Schedule(Op("own", {X}, {compute("Y", axes, value(S)), S}));
    };
    const auto at = [](Schedule s, const char *loop) { return refusal([&] { s.stage("S").compute_at("Y", loop); }); };
    Schedule reversed = with([&](const Tensor &S) { return S(7 - i, j); }, {i, j});
    CHECK(says(at(reversed, "i"), "iterations of loop i of Y would not write disjoint parts of output S: along i it is "
                                  "not read at one axis of Y of the same extent"));
    Schedule two = with([&](const Tensor &S) { return S(i, j) + S(i, 15 - j); }, {i, j});
    CHECK(at(two, "i") == "no error"); // all of a row
    CHECK(says(at(two, "j"), "along j it is not read at one axis of Y"));
    Axis fewer("i", 7);
    Schedule slice = with([&](const Tensor &S) { return S(fewer, j); }, {fewer, j});
    CHECK(says(at(slice, "i"), "along i"));
    Schedule again = with([&](const Tensor &S) { return S(i, j) * k; }, {k, i, j});
    CHECK(says(at(again, "i"), "loop k of Y runs over k, and each of its iterations would write all of S"));
    again.stage("Y").reorder({"i", "k", "j"});
    CHECK(at(again, "i") == "no error");
    Tensor V = compute("V", {i}, X(i, 0)), P = zero_padded(V);
    Schedule padded(Op("padded", {X}, {compute("Y", {i}, P(i - 1)), V}));
    padded.stage(P.name()).compute_root();
    CHECK(says(refusal([&] { padded.stage("V").compute_at(P.name(), "i"); }),
               "V.padded is padding, which is computed only where"));
    Tensor D = compute("D", {i, k}, X(i, k) + 1);
    Schedule diagonal(Op("diagonal", {X}, {compute("Y", {i}, D(i, i)), D}));
    CHECK(says(refusal([&] { diagonal.stage("D").compute_at("Y", "i"); }), "two axes of D run with axis i of Y"));

    Schedule s = with([&](const Tensor &S) { return S(i, j) * 2; }, {i, j});
    s.stage("Y").split("i", 3, {"", "", Tail::Shift});
    CHECK(says(at(s, "i.o"), "the last block of i of Y is shifted inwards, over elements of the previous block"));
    Schedule first = with([&](const Tensor &S) { return S(i, j) * 2; }, {i, j});
    first.stage("S").compute_at("Y", "i");
    CHECK(refusal([&] { first.stage("Y").region("j", 0, 8, "head"); }) != "no error");
}

TEST_CASE("blocks of an output that overlap are refused, and others are right") {
    Axis i("i", 10), j("j", 7), k("k", 3);
    Tensor X = input("X", i32, {i, j, k});
    const auto fresh = [&] {
        Tensor S = compute("S", {i, j}, sum(X(i, j, k), k));
        return Schedule(Op("blocks", {X}, {compute("Y", {i, j}, S(i, j) * 2), S}));
    };
    const auto at = [](Schedule s, const std::string &loop) {
        return refusal([&] { s.stage("S").compute_at("Y", loop); });
    };
    Schedule fused = fresh(); // the box of five elements is whole rows
    fused.stage("Y").fuse("i", "j", "f");
    fused.stage("Y").split("f", 5);
    CHECK(says(at(fused, "f.o"), "loop f is fused from several loops, and only a part of it is outside"));
    fused.stage("S").compute_at("Y", "f.i");
    fused.stage("Y").parallel("f.o");
    check_runs(fused);
    Schedule strided = fresh();
    strided.stage("Y").split("i", 4);
    strided.stage("Y").reorder({"i.i", "i.o", "j"});
    CHECK(says(at(strided, "i.i"), "a part of i.i is outside of i.o"));
    strided.stage("S").compute_at("Y", "i.o");
    check_runs(strided);
    Schedule uneven = fresh();
    uneven.stage("Y").split("i", 8);
    uneven.stage("Y").split("i.i", 3);
    CHECK(says(at(uneven, "i.i.o"), "the split of i.i by 3 does not divide it"));
    CHECK(says(at(uneven, "i.o"), "the split of i.i by 3 does not divide it"));
    uneven.stage("S").compute_at("Y", "i.i.i");
    check_runs(uneven);
    Schedule twice = fresh();
    twice.stage("Y").split("i", 4, {"", "", Tail::Shift});
    twice.stage("Y").split("i.o", 2);
    CHECK(says(at(twice, "i.o.i"), "the last block of i of Y is shifted inwards"));
    Schedule blocks = fresh();
    blocks.stage("Y").split("i", 4);
    blocks.stage("Y").split("i.o", 2);
    blocks.stage("S").compute_at("Y", "i.o.o");
    blocks.stage("Y").parallel("i.o.o");
    check_runs(blocks);

    Tensor B = input("B", i32, {j, k}), A = input("A", i32, {i, j});
    Tensor S = compute("S", {j}, sum(B(j, k), k)), Y = compute("Y", {i, j}, S(j) + A(i, j));
    Schedule nested(Op("nested", {A, B}, {compute("W", {i, j}, Y(i, j) * 2), Y, S}));
    nested.stage("Y").compute_at("W", "i").reorder({"j", "i"});
    CHECK(says(at(nested, "j"), "Y is not computed at the root"));
}

TEST_CASE("nests that read an output later come after the one that computes it, whatever shares loops") {
    Axis i("i", 9), j("j", 12);
    Tensor X = input("X", i32, {i, j});
    Tensor S = compute("S", {i, j}, X(i, j) + 1), Y = compute("Y", {i, j}, S(i, j) * 2),
           V = compute("V", {i, j}, X(i, j) * 3), W = compute("W", {i, j}, Y(i, j) + 5),
           Z = compute("Z", {i, j}, S(i, j) - 1);
    Schedule s(Op("order", {X}, {S, Y, V, W, Z}));
    s.stage("S").compute_at("Y", "i");
    s.stage("V").compute_with("Z", "i");
    check_runs(s);
    Schedule other(Op("order", {X}, {S, Y, V, W, Z}));
    other.stage("Y").compute_at("W", "i");
    other.stage("V").compute_with("Z", "i");
    check_runs(other);
}
