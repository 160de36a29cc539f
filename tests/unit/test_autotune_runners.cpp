// How sessions treat impossible measurements and candidates that fail late. The measurer misbehaves
// on purpose (odd_measurer.c).
#include "autotune/local_runner.h"
#include "autotune/tune.h"
#include "ops/matmul.h"
#include "support/duration.h"
#include "tests/database_help.h"
#include "tests/unit/blocks_space.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <sstream>
#include <thread>
#include <unistd.h>

using namespace kumiko;
using kumiko::testing::blocks;
using kumiko::testing::fresh_file;

namespace {

std::string measurer_that_is(const std::string &odd) {
    const std::filesystem::path link = kumiko::testing::folder() / odd;
    std::filesystem::remove(link);
    std::filesystem::remove(link.string() + ".hangs");
    std::filesystem::create_symlink(std::filesystem::path(KUMIKO_BINARY_DIR) / "tests" / "odd_measurer", link);
    return link.string();
}

void wait_until_hanging(const std::string &measurer, const std::atomic<bool> *over = nullptr) {
    const Stopwatch watch;
    while (!std::filesystem::exists(measurer + ".hangs") && watch.seconds() < 120 && !(over && *over)) usleep(10'000);
}

// Tunes small blocks of a product.
TuneReport tune_with(const std::string &odd, TuneOptions options, std::optional<Record> *best = nullptr) {
    const Op op = ops::matmul(Float(32), 96, 96, 96);
    const auto space = blocks(op);
    options.space = space.get();
    if (options.threads == 0) options.threads = 1;
    options.search = SearchMethod::Evolution;
    options.trial_seconds = 0.01;
    options.measurer = measurer_that_is(odd);
    TuneReport report;
    const Record found = tune(op, Machine::host(), CpuTarget::host(), options, &report);
    if (best) *best = found;
    return report;
}

} // namespace

TEST_CASE("times that no machine has are no measurements") {
    const auto after = [](double seconds, double least) {
        Measured m{Outcome::Ok, "", {{seconds, seconds, 0, 5}}, 0};
        const bool accepted = accept(m, least);
        CHECK(accepted == (m.outcome == Outcome::Ok));
        return m.outcome;
    };
    CHECK(after(1e-3, 0) == Outcome::Ok); // the least is not known
    CHECK(after(1e-3, 1e-3) == Outcome::Ok);
    CHECK(after(1e-3, 2e-3) == Outcome::Impossible);
    // The clock was set back meanwhile.
    CHECK(after(0, 0) == Outcome::Impossible);
    CHECK(after(-3600, 0) == Outcome::Impossible);
    // One of several samples was too short: the system counted some of the thread's time as stolen.
    Measured once{Outcome::Ok, "", {{1e-6, 3e-3, 0, 5}}, 0};
    CHECK(accept(once, 2e-3));
    CHECK(once.timings[0].least == 3e-3);
    Measured wrong{Outcome::Wrong, "why", {}, 0};
    CHECK(!accept(wrong, 0));
    CHECK(wrong.outcome == Outcome::Wrong);
}

TEST_CASE("a clock that jumps costs the one candidate") {
    if (Machine::host().architecture != "x86-64") return; // elsewhere, the clock is unknown
    const TuneReport report = tune_with("first_too_fast", {.trials = 8, .final_seconds = 0});
    REQUIRE(report.records.size() == 8);
    CHECK(report.records[0].outcome == Outcome::Impossible);
    for (size_t i = 1; i < 8; i++) CHECK(report.records[i].outcome == Outcome::Ok);
}

TEST_CASE("what a candidate is timed beside fails on its own account") {
    for (const char *odd : {"anchor_wrong", "anchor_crashes"}) {
        INFO(odd);
        const TuneReport report = tune_with(odd, {.trials = 8, .final_seconds = 0});
        REQUIRE(report.records.size() == 8);
        for (const Record &r : report.records) {
            CHECK_EQ(r.reason, "");
            CHECK(r.outcome == Outcome::Ok);
        }
    }
}

TEST_CASE("a candidate that fails in the last comparison is reported, and the others are compared without it") {
    for (const auto &[odd, outcome, reason] : std::vector<std::tuple<std::string, Outcome, std::string>>{
             {"wrong_late", Outcome::Wrong, "wrong now and then"},
             {"crashes_late", Outcome::Crashed, "SIGSEGV"},
             {"hangs_late", Outcome::TimedOut, "still running after"}}) {
        INFO(odd);
        std::optional<Record> best;
        TuneOptions options;
        options.trials = 8;
        options.final_seconds = 0.05;
        options.timeout = 0.2;
        options.database = fresh_file(odd + ".db");
        const TuneReport report = tune_with(odd, options, &best);
        REQUIRE(best);
        CHECK(best->outcome == Outcome::Ok);
        CHECK(best->final_seconds);
        std::vector<Record> failed;
        for (const Record &r : report.records) {
            if (r.outcome != Outcome::Ok) failed.push_back(r);
        }
        REQUIRE(failed.size() == 1);
        CHECK(failed[0].outcome == outcome);
        CHECK(failed[0].reason.find(reason) != std::string::npos);
        CHECK(failed[0].schedule_hash != best->schedule_hash);
        int compared = 0, told = 0;
        for (const auto &[what, count] : report.failures) told += what.starts_with(outcome_name(outcome)) ? count : 0;
        CHECK(told == 1);
        const Database kept(options.database, Database::Mode::Read);
        for (const Record &r : kept.records(best->key, Machine::host())) {
            if (!r.tried()) continue;
            compared += r.final_seconds.has_value();
            CHECK((r.outcome == Outcome::Ok) == (r.schedule_hash != failed[0].schedule_hash));
        }
        CHECK(compared == 7);
        CHECK(kept.best(best->key, Machine::host())->schedule_hash == best->schedule_hash);
    }
}

TEST_CASE("if comparing all finalists takes too long, none has failed, and the search's measurements decide") {
    std::optional<Record> best;
    TuneOptions options;
    options.trials = 8;
    options.final_seconds = 0.05;
    options.timeout = 0.5;
    options.database = fresh_file("slow_late.db");
    const TuneReport report = tune_with("slow_late", options, &best);
    REQUIRE(best);
    REQUIRE(report.records.size() == 8);
    for (const Record &r : report.records) {
        CHECK(r.outcome == Outcome::Ok);
        CHECK(best->timing.least <= r.timing.least);
    }
    const Database kept(options.database, Database::Mode::Read);
    for (const Record &r : kept.records(best->key, Machine::host())) {
        if (!r.tried()) continue;
        CHECK(r.outcome == Outcome::Ok);
        CHECK(!r.final_seconds);
    }
}

// sanitizers take unlimited address space
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("where memory holds the packed inputs of some, these are compared, and the others are as good as before") {
    const Op op = ops::matmul(Float(32), 8, 2048, 2048); // 16 MiB each
    std::ostringstream said;
    TuneOptions options;
    options.trials = 8;
    options.threads = 1;
    options.trial_seconds = 0.01;
    options.final_seconds = 0.05;
    options.longest_reference = 1e-3;
    options.search = SearchMethod::Evolution;
    options.ahead = true;
    options.memory_mib = 130;
    options.progress = &said;
    options.database = fresh_file("narrow.db");
    TuneReport report;
    const Record best = tune(op, Machine::host(), CpuTarget::host(), options, &report);
    CHECK(report.failures.empty());
    CHECK(best.final_seconds);
    const Database kept(options.database, Database::Mode::Read);
    int compared = 0, good = 0;
    for (const Record &r : kept.records(best.key, Machine::host())) {
        if (!r.tried()) continue;
        CHECK_EQ(r.reason, "");
        good += r.outcome == Outcome::Ok;
        compared += r.final_seconds.has_value();
    }
    CHECK(good == 8);
    CHECK(compared >= 2);
    CHECK(compared < 8);
    CHECK(said.str().find(" of the best 8 side by side") != std::string::npos);
}
#endif

TEST_CASE("cancelling ends the current measurement, and keeps earlier results") {
    if (std::thread::hardware_concurrency() < 2) return; // nothing is measured beside
    const Op op = ops::matmul(Float(32), 32, 32, 32);
    const auto space = blocks(op);
    const CpuTarget target = CpuTarget::host();
    LocalRunnerOptions options;
    options.measurer.program = measurer_that_is("hangs_at_3");
    options.timeout = 600;
    LocalRunner runner(*space, target, {}, options);
    std::vector<Candidate> candidates;
    for (const uint32_t rows : {0, 1, 2}) candidates.push_back(make_candidate(*space, {rows, 0, 0}));
    runner.submit(candidates);
    CHECK(runner.next(1)->candidate.schedule_hash == candidates[0].schedule_hash);
    wait_until_hanging(options.measurer.program);
    const Stopwatch watch;
    const std::vector<MeasureResult> done = runner.cancel();
    CHECK(watch.seconds() < 60);
    REQUIRE(done.size() == 1);
    CHECK(done[0].candidate.schedule_hash == candidates[1].schedule_hash);
    CHECK(done[0].measured.outcome == Outcome::Ok);
    CHECK_FALSE(runner.next(1));
    runner.submit({candidates[2]}); // by a restarted process
    CHECK(runner.next(1)->measured.outcome == Outcome::Ok);
}

TEST_CASE("a budget or an interruption does not wait for a measurement") {
    for (const bool interrupted : {false, true}) {
        for (const int threads : {1, 64}) { // with 64, nothing runs beside the timing
            INFO((interrupted ? "interrupted, " : "budget, "), threads, " threads");
            std::atomic<bool> interrupt = false, over = false;
            TuneOptions options;
            options.trials = 8;
            options.threads = threads;
            options.timeout = 600;
            options.final_seconds = 0;
            options.seconds = interrupted ? 0 : 1;
            options.interrupt = &interrupt;
            const std::string measurer = measurer_that_is("hangs_at_2");
            std::thread interrupter([&] {
                wait_until_hanging(measurer, &over);
                interrupt = interrupted;
            });
            const TuneReport report = tune_with("hangs_at_2", options);
            over = true;
            interrupter.join();
            CHECK(report.interrupted == interrupted);
            CHECK(report.seconds < 100);
            REQUIRE(report.records.size() == 1);
            CHECK(report.records[0].outcome == Outcome::Ok);
        }
    }
}
