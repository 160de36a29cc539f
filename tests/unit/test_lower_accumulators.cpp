// Where accumulators are kept: lanes of any axis are contiguous, loops over several axes have an
// index of their own, and values shared by unrolled copies do not spill accumulators.
// Links: driver
// Levels: no
#include "ops/ops.h"
#include "tests/unit/check_runs.h"
#include "tests/unit/count.h"

using namespace kumiko;

namespace {

Op conv(int channels, int size, int filters, int window) {
    ops::Conv2dOptions o;
    o.padding(window / 2);
    return ops::conv2d(f32, 1, channels, size, size, filters, window, window, o);
}

// Vectors of filters, with `pixels` of them in a tile.
Schedule by_filters(const Op &op, int pixels, bool fused) {
    Schedule s(op, Machine::named("x86-64-avx2"));
    StageHandle Y = s.stage("Y");
    auto [oo, oi] = Y.split("o", 16);
    std::vector<LoopName> order = {"n", oo};
    LoopName run = "x";
    if (fused)
        run = Y.fuse("y", "x", "yx");
    else
        order.push_back("y");
    auto [xo, xi] = Y.split(run, pixels);
    order.insert(order.end(), {xo, "c", "ky", "kx", xi, oi});
    Y.reorder(order).unroll(xi).unroll("kx").vectorize(oi, 8);
    s.stage("X.padded").compute_root();
    s.accumulate_in("Y", "registers", xo);
    return s;
}

} // namespace

TEST_CASE("lanes of accumulators are neighbours, whatever axis they run along") {
    const Schedule s = by_filters(conv(3, 12, 32, 3), 4, false);
    CHECK(body_of(s).find("Y.acc[ramp(8, 1, 8)]") != std::string::npos);
    CHECK(body_of(s).find("allocate Y.acc[float32 * 1 * 1 * 4 * 16] in Register") != std::string::npos);
    check_runs(s);
}

TEST_CASE("a run of pixels through rows keeps its accumulators in registers") {
    for (const auto &[size, pixels] : {std::pair(7, 6), std::pair(12, 5), std::pair(5, 7)}) {
        const Schedule s = by_filters(conv(3, size, 32, 3), pixels, true);
        CHECK(compile(s).warnings().empty());
        check_runs(s);
    }
    // With rounds of the reduction outside, and with a consumer.
    for (const char *rounds : {"reload", "join"}) {
        ops::Conv2dOptions o;
        o.bias = true, o.activation = "relu";
        const Op op = ops::conv2d(f32, 2, 6, 5, 9, 16, 1, 1, o);
        const std::string sum = op.stages()[0].name;
        Schedule s(op);
        StageHandle Y = s.stage(sum);
        LoopName run = Y.fuse("y", "x", "yx");
        auto [xo, xi] = Y.split(run, 16);
        auto [co, ci] = Y.split("c", 2);
        Y.reorder({"n", co, xo, "o", ci, "ky", "kx", xi}).vectorize(xi, 8);
        s.accumulate_in(sum, "registers", "o", rounds);
        Y.finish_in("Y");
        check_runs(s);
    }
}

TEST_CASE("sizes known at run time: the loops over accumulators are of constant size") {
    Size H("H"), W("W");
    const Op op = ops::conv2d(f32, 1, 4, H, W, 6, 1, 1);
    Schedule s(op);
    StageHandle Y = s.stage("Y");
    LoopName run = Y.fuse("y", "x", "yx");
    CHECK_THROWS_WITH(Schedule(s).accumulate_in("Y", "registers", "o"),
                      doctest::Contains("the number of elements along axis y inside loop o is known only at run time"));
    auto [xo, xi] = Y.split(run, 16);
    Y.reorder({"n", xo, "o", "c", "ky", "kx", xi}).vectorize(xi, 8);
    s.accumulate_in("Y", "registers", "o");
    check_runs(s, {{"H", 7}, {"W", 5}});
    check_runs(s, {{"H", 16}, {"W", 16}});
}

TEST_CASE("unrolled copies read shared elements again where accumulators fill the registers") {
    const Op op = conv(4, 28, 32, 3);
    // 12 accumulators of 16 registers
    CHECK(count(body_of(by_filters(op, 6, false)), "kumiko.opaque") > 0);
    CHECK(count(body_of(by_filters(op, 2, false)), "kumiko.opaque") == 0);
    check_runs(by_filters(op, 6, false));
    // Runs that no row's end cuts: their neighbours are the same elements, whatever the remainders
    // are.
    const Schedule whole = by_filters(conv(4, 12, 32, 3), 6, true);
    CHECK(count(body_of(whole), "kumiko.opaque") > 0);
    CHECK(body_of(whole).find("1) % 12") == std::string::npos);
    check_runs(whole);
}

TEST_CASE("offsets are of 32 bits where the array's last one is") {
    CHECK(body_of(Schedule(conv(512, 28, 128, 1))).find("int64") == std::string::npos);
    const Op large = ops::matmul(f32, 70000, 4, 70000);
    CHECK(body_of(Schedule(large)).find("int64") != std::string::npos);
}
