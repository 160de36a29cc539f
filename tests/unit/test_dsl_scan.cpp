// Scans: their meaning, legal orders of their loops, and illegal ones.
// Links: driver
#include "driver/default_schedule.h"
#include "dsl/recurrence.h"
#include "dsl/scan.h"
#include "ops/registry.h"
#include "tests/unit/check_runs.h"
#include "tests/unit/op_reference.h"

using namespace kumiko;

namespace {

Expr plus(const Expr &a, const Expr &b) { return a + b; }

Op running(Type t, const Expr &M, const Expr &N, bool along_rows) {
    Axis i("i", M), j("j", N);
    Tensor X = input("X", t, {i, j});
    return Op("running", {X}, {compute("Y", {i, j}, scan(plus, 0, X(i, j), along_rows ? j : i))});
}

} // namespace

TEST_CASE("cumulative sums") {
    for (const int axis : {0, 1, 2, -1}) {
        for (const bool exclusive : {false, true}) {
            const int d = axis < 0 ? 2 : axis;
            const Op op = ops::cumulative_sum(f64, {3, 4, 5}, axis, exclusive);
            const std::vector<Buffer<>> in = random_inputs(op);
            check_elements(op, in, {3, 4, 5}, [&](const Index &i) {
                double sum = 0;
                Index x = i;
                for (x[d] = 0; x[d] < i[d] + !exclusive; x[d]++) sum += at(in[0], x);
                return sum;
            });
        }
    }
    CHECK(ops::cumulative_sum(i8, {7}, 0).stage("Y").type == i32);
    CHECK(ops::cumulative_sum(bf16, {7}, 0).stage("Y.scan").type == f32);
    const Op none = ops::cumulative_sum(f32, {0, 3}, 0);
    CHECK(Buffer<>(interpret(none, random_inputs(none))).extents() == Index{0, 3});
}

TEST_CASE("a scan prints as its recurrence, folds with any combiner, and may be part of an expression") {
    CHECK(running(f32, 3, 4, true).to_string() == "running(X) -> Y\n"
                                                  "  X: f32[i: 3, j: 4]\n"
                                                  "  Y: f32[i: 3, j: 4]\n"
                                                  "    Y(i, j) = (if 0 < j then Y(i, j - 1) else 0.0) + X(i, j)\n");
    Axis i("i", 4), j("j", 9);
    Tensor X = input("X", i32, {i, j});
    const auto digits = [](Expr a, Expr b) { return a * 3 + b; }; // not commutative
    const Op op("digits", {X}, {compute("Y", {i, j}, 2 * scan(digits, 1, X(i, j), j) - X(i, j))});
    CHECK(carries_dependence(op.stage("Y.scan"), "j"));
    CHECK(!op.stage("Y").reads_itself());
    std::vector<Buffer<>> in = random_inputs(op);
    fill_random_integers(in[0], 5, 0, 2);
    check_elements(op, in, {4, 9}, [&](const Index &n) {
        double acc = 1;
        for (int64_t k = 0; k <= n[1]; k++) acc = acc * 3 + at(in[0], {n[0], k});
        return 2 * acc - at(in[0], n);
    });
    check_runs(default_schedule(op, Machine::host()));
}

TEST_CASE("scans under schedules") {
    for (const bool along_rows : {true, false}) {
        for (const auto &[M, N] : std::vector<std::pair<int, int>>{{1, 1}, {5, 33}, {40, 17}, {64, 64}}) {
            const Op op = running(i32, M, N, along_rows);
            check_runs(default_schedule(op, Machine::host()));
            check_runs(default_schedule(op, Machine::host()), {}, {.through_halide = true});
            Schedule s(op);
            auto Y = s.stage("Y");
            const std::string scanned = along_rows ? "j" : "i", free = along_rows ? "i" : "j";
            auto [o, in] = Y.split(scanned, 4);
            auto [fo, fi] = Y.split(free, 8);
            Y.reorder({fo, o, in, fi}).parallel(fo).vectorize(fi).unroll(in);
            check_runs(s);
            Schedule shifted(op);
            shifted.stage("Y").split(scanned, 3, {.tail = Tail::Shift});
            check_runs(shifted);
            Schedule fused(op);
            fused.stage("Y").fuse("i", "j", "ij");
            fused.stage("Y").split("ij", 5);
            check_runs(fused);
        }
        const Op any = running(i32, Size("M"), Size("N"), along_rows);
        for (const int n : {0, 1, 30}) check_runs(default_schedule(any, Machine::host()), {{"M", n}, {"N", n + 3}});
    }
    check_runs(default_schedule(ops::cumulative_sum(i32, {100}, 0), Machine::host()));
    check_runs(default_schedule(ops::cumulative_sum(i64, {3, 50, 7}, 1, true), Machine::host()));
}

TEST_CASE("errors of scans") {
    const Op op = running(f32, 8, 16, true);
    const auto told = [&](auto f) {
        return refusal([&] {
            Schedule s(op);
            f(s, s.stage("Y"));
        });
    };
    using S = Schedule &;
    using H = StageHandle;
    const auto waits = [](const std::string &loop) {
        return "Y reads itself at (i, j - 1), so the iterations of loop " + loop + " wait for each other and cannot ";
    };
    CHECK(told([](S, H Y) { Y.parallel("j"); }).find(waits("j") + "run in parallel; legal is a loop along another") !=
          std::string::npos);
    CHECK(told([](S, H Y) { Y.vectorize("j"); }).find(waits("j") + "be lanes of one vector") != std::string::npos);
    CHECK(told([](S, H Y) {
              Y.fuse("i", "j", "ij");
              Y.parallel("ij");
          }).find(waits("ij")) != std::string::npos);
    CHECK(told([](S, H Y) {
              auto [o, i] = Y.split("j", 4);
              Y.reorder({"i", i, o});
          }).find("Y is a recurrence along j, so loop j.o stays outside of loop j.i") != std::string::npos);
    CHECK(told([](S, H Y) { Y.region("j", 0, 8, "part"); }).find("is a recurrence") != std::string::npos);
    CHECK(told([](S s, H) { s.place_in("Y", "L1", "Y", "i"); }).find("Y is a recurrence: a copy would miss") !=
          std::string::npos);
    CHECK(told([](S, H Y) { Y.reorder({"j", "i"}); }) == "no error");
    CHECK(told([](S, H Y) { Y.parallel("i"); }) == "no error");

    Axis i("i", 8), j("j", 16), k("k", 3);
    Tensor X = input("X", f32, {i, j}), T = compute("T", {i, j}, scan(plus, 0, X(i, j), j));
    const Op two("two", {X}, {compute("Y", {i, j}, T(i, j) * 2)});
    CHECK(refusal([&] { Schedule(two).stage("T").inline_into(); }).find("its elements read each other") !=
          std::string::npos);
    CHECK(refusal([&] { Schedule(two).stage("T").compute_at("Y", "i"); }) == "no error");
    CHECK(refusal([&] {
              Schedule(two).stage("T").store_at("Y", "i").compute_at("Y", "j");
          }).find("T is a recurrence, so each part would compute all earlier elements") != std::string::npos);
    CHECK(refusal([&] {
              Op("bad", {X}, {compute("Y", {i, j}, scan(plus, 0, X(i, j), k))});
          }).find("tensor \"Y\" scans along axis \"k\", over which it does not range") != std::string::npos);
    CHECK(refusal([&] { scan(plus, 0.5f, cast(i32, X(i, j)), j); }).find("scan") != std::string::npos);
    CHECK(refusal([&] {
              ops::make("cumulative_sum", {{"shape", {3, 4}}, {"axis", 2}});
          }) == "cumulative_sum: axis 2 is not one of the 2 axes");
}
