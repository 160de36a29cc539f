// Several tasks that share a budget: how it is divided, and that a task that cannot be tuned stops
// no other.
// Sanitized: --test-case-exclude=a*budget*,a*task*without*
#include "autotune/tune.h"
#include "dsl/extern.h"
#include "ops/matmul.h"
#include "ops/registry.h"
#include "support/duration.h"
#include "targets/chip/compile.h"
#include "tests/database_help.h"

#include <doctest/doctest.h>

#include <cstring>
#include <sstream>

using namespace kumiko;
using kumiko::testing::fresh_file;

namespace {

TuneOptions quick(int trials) {
    TuneOptions options;
    options.trials = trials;
    options.threads = 1;
    options.trial_seconds = 0.01;
    options.final_seconds = 0;
    return options;
}

int copied(void *const *arrays, const int64_t *, const int64_t *) {
    std::memcpy(arrays[1], arrays[0], 100 * sizeof(float));
    return 0;
}

Op calling() {
    Axis i("i", 100);
    Tensor x = input("X", Float(32), {i}), y = extern_stage("Y", Float(32), {i}, {x}, {"copied", copied});
    return Op("calling", {x}, {compute("Z", {i}, y(i) + x(i))});
}

} // namespace

TEST_CASE("several tasks share the trials, and the one that gains gets more") {
    const std::vector<TuneTask> tasks = {{ops::matmul(Float(32), 16, 64, 16)},
                                         {ops::matmul(Float(32), 96, 96, 96), 50}};
    TuneOptions options;
    options.trials = 24;
    options.threads = 1;
    options.trial_seconds = 0.01;
    options.final_seconds = 0.05;
    std::vector<TuneReport> reports;
    const auto best = tune_all(tasks, Machine::host(), CpuTarget::host(), options, &reports);
    REQUIRE(best.size() == 2);
    REQUIRE(best[0]);
    REQUIRE(best[1]);
    CHECK(reports[0].measured + reports[1].measured == 48);
    CHECK(reports[0].measured >= 16);
    CHECK(reports[1].measured > reports[0].measured);
    CHECK(best[1]->key.op_hash == tasks[1].op.hash());
}

TEST_CASE("a task that cannot be tuned says why, and the others are tuned") {
    const std::vector<TuneTask> tasks = {
        {ops::matmul(Float(32), 16, 64, 16)}, {calling()}, {ops::make("softmax", {{"m", 8}, {"n", 64}})}};
    std::ostringstream log;
    TuneOptions options = quick(3);
    options.progress = &log;
    std::vector<TuneReport> reports;
    const auto best = tune_all(tasks, Machine::host(), CpuTarget::host(), options, &reports);
    CHECK(best[0]);
    CHECK(!best[1]);
    CHECK(best[2]);
    CHECK(reports[0].measured + reports[2].measured == 6);
    CHECK(reports[0].error.empty());
    CHECK(reports[1].error.find("op calling calls the extern function") == 0);
    CHECK(log.str().find("calling cannot be tuned: op calling calls") != std::string::npos);
    CHECK_THROWS_AS(tune_all({tasks[1]}, Machine::host(), CpuTarget::host(), options), Unsupported);

    // On a chip this is known before the first trial.
    const Machine chip = chip_machine(sim::Config::load("small"));
    const auto on_chip = tune_all({{ops::make("cumulative_sum", {{"shape", {8, 64}}, {"axis", 1}})}, tasks[2]}, chip,
                                  CpuTarget::host(), options, &reports);
    CHECK(!on_chip[0]);
    CHECK(on_chip[1]);
    CHECK(reports[0].error.find("scan") != std::string::npos);
}

TEST_CASE("a resumed run executes the missing trials of a task, and none of a task that is not tuned yet") {
    const std::vector<TuneTask> tasks = {{ops::matmul(Float(32), 16, 64, 16)}, {ops::matmul(Float(32), 24, 64, 16)}};
    TuneOptions options = quick(6);
    options.database = fresh_file("resume.db");
    tune(tasks[0].op, Machine::host(), CpuTarget::host(), options);
    options.trials = 4;
    std::vector<TuneReport> reports;
    const auto best = tune_all(tasks, Machine::host(), CpuTarget::host(), options, &reports);
    CHECK(best[0]);
    CHECK(best[1]);
    CHECK(reports[0].known == 6);
    CHECK(reports[0].measured == 0);
    CHECK(reports[1].measured == 4);
}

TEST_CASE("a task too large for memory is refused before it takes a trial") {
    const std::vector<TuneTask> tasks = {{ops::matmul(Float(32), 16, 64, 16)},
                                         {ops::matmul(Float(32), 2000000, 2000000, 2000000)}};
    TuneOptions options = quick(4);
    options.database = fresh_file("large.db");
    std::vector<TuneReport> reports;
    for (const int trials : {4, 4, 6}) { // the later ones resume
        options.trials = trials;
        tune_all(tasks, Machine::host(), CpuTarget::host(), options, &reports);
        CHECK(reports[0].measured + reports[0].known == trials);
        CHECK(reports[1].error.find("tuning matmul takes some ") == 0);
    }
}

TEST_CASE("a task without a good candidate leaves the trials to the others") {
    const std::vector<TuneTask> tasks = {{ops::matmul(Float(32), 16, 64, 16)},
                                         {ops::matmul(Float(32), 2000, 2000, 2000)}};
    TuneOptions options = quick(20);
    options.timeout = 0.04; // no processor makes 16 billion operations in that time
    options.longest_reference = 0.1;
    std::vector<TuneReport> reports;
    const auto best = tune_all(tasks, Machine::host(), CpuTarget::host(), options, &reports);
    CHECK(best[0]);
    CHECK(!best[1]);
    CHECK(reports[1].error.empty());
    CHECK(reports[1].measured == 16);
    CHECK(reports[0].measured == 24);
}

TEST_CASE("a budget in seconds is shared by the first trials, and each task tells its own time") {
    std::vector<TuneTask> tasks;
    for (const int n : {48, 64, 80}) tasks.push_back({ops::matmul(Float(32), n, n, n)});
    TuneOptions options = quick(1000);
    options.seconds = 6;
    std::vector<TuneReport> reports;
    const Stopwatch watch;
    tune_all(tasks, Machine::host(), CpuTarget::host(), options, &reports);
    const double whole = watch.seconds();
    double sum = 0;
    for (const TuneReport &r : reports) {
        CHECK(r.measured >= 1);
        CHECK(r.seconds > 0);
        sum += r.seconds;
    }
    CHECK(sum <= whole);
}

TEST_CASE("tasks of one formula are tuned once") {
    const Op op = ops::matmul(Float(32), 16, 64, 16);
    std::vector<TuneReport> reports;
    const auto best = tune_all({{op}, {ops::matmul(Float(32), 24, 64, 16)}, {op}}, Machine::host(), CpuTarget::host(),
                               quick(6), &reports);
    REQUIRE(best[0]);
    REQUIRE(best[2]);
    CHECK(best[0]->schedule_hash == best[2]->schedule_hash);
    CHECK(reports[0].measured + reports[1].measured == 12);
    CHECK(reports[2].measured == 0);
    CHECK(reports[2].known == reports[0].measured);
}
