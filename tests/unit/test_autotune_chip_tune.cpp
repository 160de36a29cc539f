// Tuning on the simulated chip in the space made from the formula.
// Links: ops
// Sanitized: --test-case-exclude=an*op*of*the*library*
#include "autotune/chip_runner.h"
#include "autotune/tune.h"
#include "autotune/work.h"
#include "dsl/reduction.h"
#include "ops/registry.h"
#include "schedules/library/table.h"
#include "support/error.h"
#include "targets/chip/compile.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <sstream>

using namespace kumiko;

namespace {

Machine small() { return chip_machine(sim::Config::load("small")); }

// G(i, j) = (sum over k: X(i, k) U(k, j)) × max(sum over k: X(i, k) V(k, j), 0)
Op gated() {
    const Axis i("i", 16), j("j", 64), k("k", 12);
    const Tensor x = input("X", Float(32), {i, k}), u = input("U", Float(32), {k, j}),
                 v = input("V", Float(32), {k, j});
    const Tensor a = compute("A", {i, j}, sum(x(i, k) * u(k, j), k)),
                 b = compute("B", {i, j}, sum(x(i, k) * v(k, j), k));
    return Op("gated", {x, u, v}, {compute("G", {i, j}, a(i, j) * max(b(i, j), 0.f))});
}

// Wraps a space and counts the schedules that are requested.
struct Begun : Space {
    explicit Begun(const Space &other) : Space(other.op(), other.machine()), of(other) {
        set_parameters(other.parameters());
    }
    Point default_point() const override { return of.default_point(); }
    Schedule schedule(const Point &point) const override {
        count++;
        return of.schedule(point);
    }
    const Space &of;
    mutable std::atomic<int> count = 0;
};

Record tuned(const Op &op, SpaceKind spaces, TuneReport &report, uint64_t seed = 1) {
    TuneOptions o;
    o.trials = 12;
    o.seed = seed;
    o.spaces = spaces;
    return tune(op, small(), CpuTarget::host(), o, &report);
}

} // namespace

TEST_CASE("an op of the library, in either space; no candidate fails, and a seed finds the same") {
    const Op op = ops::make("reduce", {{"shape", {64, 256}}, {"axes", {1}}});
    TuneReport library, formula, again;
    const Record best = tuned(op, SpaceKind::Library, library), found = tuned(op, SpaceKind::Auto, formula);
    CHECK_EQ(best.library_template, "chip_reduce");
    CHECK_EQ(found.library_template, "auto");
    CHECK(formula.measured == 12);
    for (const Record &r : formula.records) CHECK(r.outcome == Outcome::Ok);
    CHECK(found.seconds() <= formula.default_seconds);
    CHECK(found.seconds() < 2 * library.default_seconds);
    CHECK_EQ(tuned(op, SpaceKind::Auto, again).schedule_hash, found.schedule_hash);
    // The result is an ordinary schedule.
    CHECK_NOTHROW(compile_chip(Schedule::from_json(op, small(), found.saved_schedule)));
}

TEST_CASE("the progress bar shows the best relative to the chip's roofline") {
    const Op op = ops::make("reduce", {{"shape", {64, 256}}, {"axes", {1}}});
    const sim::Config chip = sim::Config::load("small");
    const double bytes = 4 * (64 * 256 + 64); // reductions are bound by DRAM
    CHECK(bound_seconds(count_work(op, {}), small(), 1, 0) ==
          doctest::Approx(bytes / static_cast<double>(chip.dram_bytes_per_cycle()) / (chip.clock_ghz * 1e9)));
    const Op product = ops::make("matmul", {{"m", 2048}, {"n", 2048}, {"k", 2048}, {"type", "f16"}});
    CHECK(bound_seconds(count_work(product, {}), small(), 1, 0) ==
          doctest::Approx(std::pow(2048.0, 3) / static_cast<double>(chip.fp16_macs_per_cycle()) /
                          (chip.clock_ghz * 1e9)));
    std::ostringstream log;
    TuneOptions o;
    o.trials = 1;
    o.progress = &log;
    tune(op, small(), CpuTarget::host(), o);
    CHECK(log.str().find(" of the roofline") != std::string::npos);
}

TEST_CASE("long compilations and simulations end when they are cancelled") {
    const Op op = ops::make("matmul", {{"m", 1024}, {"n", 1024}, {"k", 1024}, {"type", "f32"}});
    const auto [name, space] = space_for(op, small(), SpaceKind::Fitting);
    const Candidate candidate = make_candidate(*space, space->default_point());
    std::atomic<bool> stop = true;
    CHECK_THROWS_WITH_AS(compile_chip(space->schedule(candidate.point), &stop), "compiling was stopped", UserError);
    // Ends as soon as a candidate is started.
    const Begun begun(*space);
    ChipRunner runner(begun, {.jobs = 1, .longest_reference = 1e-3, .over = [&] { return begun.count > 0; }});
    runner.submit({candidate, candidate});
    CHECK_FALSE(runner.next(std::numeric_limits<double>::infinity()));
    CHECK(runner.cancel().empty());
    CHECK(runner.compare({candidate}, 1, [&] { return begun.count > 1; }).at(0).timings.empty());
    CHECK(begun.count == 2);
    CHECK(runner.finished() == 0);
}

TEST_CASE("a cancelled runner can be used again") {
    const Op op = ops::make("reduce", {{"shape", {64, 256}}, {"axes", {1}}});
    const auto [name, space] = space_for(op, small(), SpaceKind::Fitting);
    const Candidate candidate = make_candidate(*space, space->default_point());
    ChipRunner runner(*space);
    runner.submit({candidate, candidate, candidate});
    runner.cancel();
    CHECK_FALSE(runner.next(1));
    runner.submit({candidate});
    CHECK(runner.next(1)->measured.outcome == Outcome::Ok);
    CHECK(runner.finished() >= 1);
}

TEST_CASE("an op for which the library has no schedule") {
    CHECK_EQ(library::fitting_template(gated(), small()), nullptr);
    TuneReport report;
    const Record best = tuned(gated(), SpaceKind::Fitting, report);
    CHECK_EQ(best.library_template, "auto");
    CHECK(report.failures.empty());
    CHECK_THROWS_AS(space_for(gated(), small(), SpaceKind::Library), Unsupported);
}
