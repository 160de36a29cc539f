// Tuning with aliased arrays: an input that the formula reads twice is one array, checked like any
// other; an op that updates its input receives the same input in each run.
// Links: driver
#include "autotune/tune.h"
#include "dsl/inout.h"
#include "ops/registry.h"
#include "support/error.h"
#include "tests/unit/check_runs.h"

using namespace kumiko;

namespace {

TuneOptions quick() {
    TuneOptions options;
    options.trials = 6;
    options.threads = 1;
    options.trial_seconds = 0.01;
    options.final_seconds = 0.02;
    return options;
}

// C = A A, where both operands are one array.
Op square(int n) {
    Axis i("i", n), j("j", n), k("k", n);
    Tensor A = input("A", f32, {i, k});
    return Op("square", {A}, {compute("C", {i, j}, sum(A(i, k) * A(k, j), k))});
}

} // namespace

TEST_CASE("a product of one array with itself is tuned, and the result is right") {
    const Op op = square(60);
    REQUIRE(op.inputs().size() == 1);
    TuneReport report;
    const Record best = tune(op, Machine::host(), CpuTarget::host(), quick(), &report);
    CHECK(report.measured == 6);
    CHECK(report.exact); // each result is compared with the interpreter's, bit for bit
    CHECK(best.outcome == Outcome::Ok);
    for (const Record &r : report.records) CHECK_EQ(r.reason, "");
    check_runs(best.schedule(op));
}

TEST_CASE("an op that updates its input is tuned, and the result is right") {
    Axis i("i", 100);
    Tensor Y = inout("Y", f32, {i}), X = input("X", f32, {i});
    const Op op("updating", {Y, X}, {update(Y, Y(i) + X(i))});
    TuneReport report;
    const Record best = tune(op, Machine::host(), CpuTarget::host(), quick(), &report);
    CHECK(report.measured > 0);
    CHECK(best.outcome == Outcome::Ok);
    for (const Record &r : report.records) CHECK_EQ(r.reason, "");
    check_runs(best.schedule(op));
}

TEST_CASE("a tuned kernel refuses an output that overlaps the input") {
    const Op op = square(40);
    const Kernel kernel = compile(tune(op, Machine::host(), CpuTarget::host(), quick()).schedule(op));
    Buffer<> a = make_input(op.inputs()[0], {});
    fill_random_integers(a, 1, -4, 4);
    const std::string told = refusal([&] { kernel(std::vector<Buffer<>>{a, a}); });
    CHECK_MESSAGE(told.find("output C overlaps A in memory") != std::string::npos, told);
}
