// Where partial results are spilled between rounds (wait_in), and copies in reading order
// (reindex).
// Links: driver
#include "ops/ops.h"
#include "support/error.h"
#include "tests/unit/check_runs.h"

using namespace kumiko;

namespace {

Op conv(int channels, int size, int filters, int window, int stride, bool epilogue = false) {
    ops::Conv2dOptions o;
    o.padding(window / 2).stride(stride);
    o.bias = epilogue;
    if (epilogue) o.activation = "relu";
    return ops::conv2d(f32, 2, channels, size, size, filters, window, window, o);
}

// Channels in blocks of 4 outside of the tiles, so that each tile has several rounds.
Schedule in_rounds(const Op &op, int pixels, const std::string &wait_at) {
    const std::string sum = op.stages()[op.stages()[0].kind == Stage::Kind::Padding].name;
    Schedule s(op);
    StageHandle Y = s.stage(sum);
    auto [oo, oi] = Y.split("o", 8);
    LoopName run = Y.fuse("y", "x", "yx");
    auto [ro, ri] = Y.split(run, pixels);
    auto [co, ci] = Y.split("c", 4);
    Y.reorder({"n", oo, co, ro, ci, "ky", "kx", ri, oi}).unroll(ri).vectorize(oi, 8);
    s.accumulate_in(sum, "registers", ro);
    Y.wait_in("L2", wait_at);
    if (sum != "Y") Y.finish_in("Y");
    return s;
}

} // namespace

TEST_CASE("wait_in: a buffer of the size of the partial results inside the loop") {
    for (const char *at : {"n", "o.o"}) {
        const Schedule s = in_rounds(conv(10, 7, 16, 1, 1), 6, at);
        CHECK(body_of(s).find("allocate Y.sum[") != std::string::npos);
        CHECK(std::string(s.nest()).find("between rounds, spill Y to L2") != std::string::npos);
        check_runs(s);
    }
    // blocks of channels and runs that are not full
    check_runs(in_rounds(conv(9, 6, 24, 3, 2), 5, "o.o"));
    // filters too, and a consumer at the end
    check_runs(in_rounds(conv(10, 7, 20, 1, 1, true), 6, "o.o"));
    check_runs(in_rounds(conv(3, 7, 16, 1, 1, true), 6, "o.o")); // one round
    check_runs(in_rounds(conv(0, 7, 16, 1, 1), 6, "o.o"));       // none: zeros
    Size C("C");
    const Op op = ops::matmul(f32, 20, 24, C);
    Schedule s(op);
    StageHandle M = s.stage("C");
    auto [io, ii] = M.split("i", 4);
    auto [jo, ji] = M.split("j", 16);
    auto [ko, ki] = M.split("k", 8);
    M.reorder({jo, ko, io, ki, ii, ji}).unroll(ii).vectorize(ji, 8);
    s.accumulate_in("C", "registers", io);
    M.wait_in("L1", jo);
    for (int k : {0, 1, 8, 21}) check_runs(s, {{"C", k}});
}

TEST_CASE("what the end of a reduction reads is computed in a round only if that is surely the last") {
    const auto product = [](const Expr &K) {
        Axis i("i", 5), j("j", 9), k("k", K);
        Tensor A = input("A", f32, {i, k}), B = input("B", f32, {k, j}), D = input("D", f32, {i, j});
        Tensor C = compute("C", {i, j}, sum(A(i, k) * B(k, j), k)), P = compute("P", {i, j}, D(i, j) * 3);
        return Op("product", {A, B, D}, {compute("Y", {i, j}, C(i, j) + P(i, j))});
    };
    const auto rounds = [](Schedule &s, const std::string &outer, const std::string &inner) {
        StageHandle C = s.stage("C");
        C.split("k", 4);
        C.reorder({"i", outer, "j", inner});
        s.accumulate_in("C", "L1", outer);
        C.finish_in("Y");
    };
    const auto place = [](Schedule &s, const std::string &loop) { s.stage("P").compute_at("C", loop); };
    for (const int k : {1, 8, 10}) {
        Schedule s(product(k));
        rounds(s, "k.o", "k.i");
        place(s, "k.o");
        check_runs(s);
    }
    const std::string outside = "is computed at the end of the reduction, outside of k.";
    const auto refused = [&](Schedule s, const std::string &loop) {
        place(s, loop);
        const std::string why = message_of([&] { s.require_applied(); });
        CAPTURE(why);
        CHECK(why.find(outside + loop.substr(2)) != std::string::npos);
    };
    Schedule any(product(Size("K")));
    rounds(any, "k.o", "k.i");
    refused(any, "k.o"); // K may be 0
    Schedule some = any;
    place(some, "k.o");
    some.assume(Size("K") >= 1);
    for (const int k : {1, 8, 10}) check_runs(some, {{"K", k}});
    place(any, "i");
    for (const int k : {0, 1, 10}) check_runs(any, {{"K", k}});
    Schedule mixed(product(8)); // the last round does not have the last step of each row
    rounds(mixed, "k.i", "k.o");
    refused(mixed, "k.i");
    place(mixed, "i");
    check_runs(mixed);
    Schedule waiting(product(8));
    rounds(waiting, "k.o", "k.i");
    waiting.stage("C").wait_in("L2", "i");
    refused(waiting, "k.o");
    place(waiting, "i");
    check_runs(waiting);
    Schedule placed(product(8));
    rounds(placed, "k.o", "k.i");
    place(placed, "k.o");
    CHECK_THROWS_WITH(placed.stage("C").wait_in("L2", "i"), doctest::Contains(outside.c_str()));
}

TEST_CASE("errors of wait_in") {
    const Op op = ops::matmul(f32, 32, 32, 32);
    Schedule s(op);
    StageHandle C = s.stage("C");
    CHECK_THROWS_WITH(C.wait_in("L1", "i"), doctest::Contains("C has no accumulate_in"));
    auto [jo, ji] = C.split("j", 8);
    auto [ko, ki] = C.split("k", 8);
    C.reorder({"i", ko, jo, ki, ji});
    s.accumulate_in("C", "registers", jo);
    CHECK_THROWS_WITH(C.wait_in("registers", "i"), doctest::Contains("registers cannot hold partial results"));
    CHECK_THROWS_WITH(C.wait_in("L7", "i"), doctest::Contains("L7"));
    CHECK_THROWS_WITH(C.wait_in("L1", ko), doctest::Contains("reduction loop k.o is not inside loop k.o"));
    CHECK_THROWS_WITH(C.wait_in("L1", jo), doctest::Contains("which is not inside loop j.o"));
    C.wait_in("L1", "i");
    CHECK_THROWS_WITH(Schedule(s).stage("C").reorder({ko, "i", jo, ki, ji}),
                      doctest::Contains("breaks a requirement of wait_in"));
    Schedule joined(op);
    joined.stage("C").split("k", 8);
    joined.stage("C").reorder({"i", "k.o", "j", "k.i"});
    joined.accumulate_in("C", "registers", "j", "join");
    CHECK_THROWS_WITH(joined.stage("C").wait_in("L1", "i"), doctest::Contains("joins its rounds"));
    CHECK_THROWS_WITH(s.accumulate_in("C", "registers", jo, "join"),
                      doctest::Contains("breaks a requirement of wait_in"));
}

TEST_CASE("reindex: the columns of a convolution's image, one after the other") {
    for (const auto &[size, window, stride] :
         {std::tuple(9, 3, 2), std::tuple(8, 3, 1), std::tuple(7, 1, 1), std::tuple(11, 5, 3)}) {
        const Op op = conv(5, size, 16, window, stride);
        Schedule s(op);
        StageHandle Y = s.stage("Y");
        LoopName run = Y.fuse("y", "x", "yx");
        LoopName steps = Y.fuse(Y.fuse("c", "ky", "cky"), "kx", "ckykx");
        auto [ro, ri] = Y.split(run, 16);
        auto [ko, ki] = Y.split(steps, 12);
        Y.reorder({"n", ro, ko, "o", ki, ri}).vectorize(ri, 8);
        const StageHandle columns = s.reindex(window > 1 ? "X.padded" : "X", "Y", {"n", "c ky kx", "y x"});
        if (window > 1) s.stage("X.padded").compute_root();
        StageHandle panel = s.place_in(columns.name(), "L1", "Y", ko);
        s.accumulate_in("Y", "registers", "o");
        // As much as one block of steps of one run of pixels needs.
        CHECK(body_of(s).find("[float32 * 1 * 12 * 16]") != std::string::npos);
        CHECK(Schedule::from_json(op, s.to_json()).to_json() == s.to_json());
        CHECK(s.to_cpp().find("reindex(") != std::string::npos);
        check_runs(s);
        panel.layout({"n", "yx/8", "ckykx", "yx%8"});
        check_runs(s);
    }
    // Without a copy it changes nothing.
    Schedule plain(conv(5, 8, 4, 3, 1));
    plain.reindex("X.padded", "Y", {"n", "y ky", "x kx", "c"});
    check_runs(plain);
}

TEST_CASE("reindex by loops that are not fused, and of run-time sizes") {
    Size H("H"), W("W");
    const Op op = ops::conv2d(f32, 1, 4, H, W, 6, 1, 1);
    Schedule s(op);
    CHECK_THROWS_WITH(Schedule(s).reindex("X", "Y", {"n", "c ky kx", "y x"}),
                      doctest::Contains("the extent of axis x is known only at run time"));
    s.reindex("X", "Y", {"n", "y", "x", "c ky kx"});
    StageHandle Y = s.stage("Y");
    auto [xo, xi] = Y.split("x", 8);
    Y.reorder({"n", "y", xo, "o", "c", "ky", "kx", xi}).vectorize(xi, 8);
    s.place_in("X.by.Y", "L1", "Y", xo).layout({"n", "y", "ckykx", "x"});
    s.accumulate_in("Y", "registers", "o");
    check_runs(s, {{"H", 7}, {"W", 5}});
    check_runs(s, {{"H", 3}, {"W", 16}});
}

TEST_CASE("errors of reindex") {
    const Op op = conv(5, 8, 4, 3, 1);
    Schedule s(op);
    CHECK_THROWS_WITH(s.reindex("X.padded", "Q", {"n"}), doctest::Contains("there is no stage \"Q\""));
    CHECK_THROWS_WITH(s.reindex("X", "Y", {"n"}), doctest::Contains("Y does not read X itself"));
    CHECK_THROWS_WITH(s.reindex("X.padded", "Y", {"n", "c ky kx", "y z"}), doctest::Contains("Y has no axis \"z\""));
    CHECK_THROWS_WITH(s.reindex("X.padded", "Y", {"n", "c ky kx", "y y"}), doctest::Contains("axis y is named twice"));
    CHECK_THROWS_WITH(s.reindex("X.padded", "Y", {"n", "", "y"}), doctest::Contains("a group is empty"));
    CHECK_THROWS_WITH(s.reindex("X.padded", "Y", {"n", "c ky kx", "y"}),
                      doctest::Contains("axis x, by which Y reads X.padded, is in no group"));
    CHECK_THROWS_WITH(s.reindex("X.padded", "Y", {"n o", "c ky kx", "y x"}),
                      doctest::Contains("the index at which Y reads X.padded does not depend on axis o"));
    CHECK_THROWS_WITH(s.reindex("X", "X.padded", {"n", "c", "y x"}),
                      doctest::Contains("X.padded is padding, so it is computed beyond its axes"));
    s.reindex("X.padded", "Y", {"n", "c ky kx", "y x"});
    CHECK_THROWS_WITH(s.reindex("X.padded", "Y", {"n", "c ky kx", "y x"}),
                      doctest::Contains("Y reads X.padded by its own axes already"));
    // The last block of k is partial: a stage over the full extents would read out of bounds.
    Schedule blocks(ops::matmul(f32, 8, 8, Size("K")));
    blocks.stage("C").interleave("k", 4);
    CHECK_THROWS_WITH(blocks.reindex("A", "C.rf", {"i", "k_o k_n"}),
                      doctest::Contains("of A is not proved to be in bounds for all iterations of C.rf"));
}
