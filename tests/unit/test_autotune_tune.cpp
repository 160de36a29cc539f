// Tuning from end to end, on a small matrix product with a space of the test's own.
#include "autotune/build.h"
#include "autotune/sqlite.h"
#include "autotune/tune.h"
#include "ops/matmul.h"
#include "ops/registry.h"
#include "schedules/primitive.h"
#include "support/json.h"
#include "targets/chip/compile.h"
#include "targets/lower/lower.h"
#include "tests/database_help.h"
#include "tests/unit/blocks_space.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <sstream>

using namespace kumiko;
using kumiko::testing::blocks;
using kumiko::testing::fresh_file;

namespace {

// One thread, with short timings.
TuneOptions quick(int trials, const std::string &database = "") {
    TuneOptions o;
    o.trials = trials;
    o.database = database;
    o.threads = 1;
    o.trial_seconds = 0.01;
    o.final_seconds = 0.05;
    return o;
}

} // namespace

TEST_CASE("an op that is slow to evaluate is checked on a sample, and the output says so") {
    Op op = ops::matmul(Float(32), 192, 192, 192);
    auto space = blocks(op);
    TuneOptions options;
    options.trials = 3;
    options.space = space.get();
    options.threads = 1;
    options.trial_seconds = 0.01;
    options.final_seconds = 0;
    std::ostringstream log;
    options.progress = &log;
    TuneReport report;
    tune(op, Machine::host(), CpuTarget::host(), options, &report);
    CHECK(report.checked_elements == 0);
    CHECK(log.str().find("sample") == std::string::npos);
    options.longest_reference = 1e-9;
    tune(op, Machine::host(), CpuTarget::host(), options, &report);
    CHECK(report.checked_elements >= 30);
    CHECK(report.measured == 3);
    CHECK(log.str().find("matmul takes long to evaluate: results are checked at a sample of " +
                         std::to_string(report.checked_elements) + " elements") != std::string::npos);
}

TEST_CASE("the chip's candidates are checked on a sample too") {
    const Op op = ops::make("softmax", {{"m", 256}, {"n", 512}});
    TuneReport report;
    tune(op, chip_machine(sim::Config::load("small")), CpuTarget::host(),
         {.trials = 2, .threads = 1, .longest_reference = 1e-9}, &report);
    CHECK(report.failures.empty());
    CHECK(report.checked_elements >= 30);
}

TEST_CASE("integers that come of divisions are checked within their bounds") {
    const Op op = ops::make("quantise", {{"n", 10000}});
    for (const double longest : {10.0, 1e-9}) {
        TuneReport report;
        tune(op, Machine::host(), CpuTarget::host(),
             {.trials = 3, .threads = 1, .trial_seconds = 0.01, .final_seconds = 0, .longest_reference = longest},
             &report);
        CHECK(report.failures.empty());
        CHECK(!report.exact);
    }
}

TEST_CASE("tuning finds the vectors, keeps what it measured, and resumes") {
    Op op = ops::matmul(Float(32), 64, 64, 64);
    auto space = blocks(op);
    TuneOptions options;
    options.trials = 6;
    options.space = space.get();
    options.threads = 1;
    options.database = fresh_file("tune.db");
    options.trial_seconds = 0.02;
    options.final_seconds = 0.05;
    std::ostringstream log;
    options.progress = &log;
    TuneReport report;
    tune(op, Machine::host(), CpuTarget::host(), options, &report);
    CHECK(report.measured == 6);
    CHECK(report.known == 0);
    CHECK(report.exact);
    CHECK(report.used_up.empty());
    CHECK(log.str().find("tuning matmul") != std::string::npos);
    CHECK(log.str().find("GFLOP/s") != std::string::npos);

    options.trials = 60;
    Record best_record = tune(op, Machine::host(), CpuTarget::host(), options, &report);
    CHECK(report.known == 6);
    CHECK(report.used_up.starts_with("nothing else in its space is legal and not known yet ("));
    CHECK(report.measured == 18); // 24 of the 32 points are legal
    CHECK(report.failures["illegal: too wide"] >= report.rejected);
    CHECK((*best_record.parameters)["vector"] == true);
    CHECK(best_record.final_seconds);
    CHECK(report.default_seconds > best_record.seconds());
    CHECK(best_record.schedule(op).directives().size() == 4);

    options.trials = 24;
    Record again = tune(op, Machine::host(), CpuTarget::host(), options, &report);
    CHECK(report.measured == 0);
    CHECK(again.schedule_hash == best_record.schedule_hash);
    auto found = best(op, Machine::host(), options.database, {.threads = 1});
    REQUIRE(found);
    CHECK(found->schedule_hash == best_record.schedule_hash);
}

TEST_CASE("of two comparisons the later decides, and the winner of the earlier is in it") {
    Op op = ops::matmul(Float(32), 64, 64, 64);
    auto space = blocks(op);
    for (const double pace : {1e-3, 1e3}) { // as if the earlier hour had been faster, or slower
        TuneOptions options = quick(8, fresh_file("twice.db"));
        options.space = space.get();
        const Record first = tune(op, Machine::host(), CpuTarget::host(), options);
        REQUIRE(first.final_seconds);
        const auto compared = [&] {
            std::vector<Record> all =
                Database(options.database, Database::Mode::Read).records(first.key, Machine::host());
            std::erase_if(all, [](const Record &r) { return !r.final_seconds; });
            return all;
        };
        for (const Record &r : compared())
            Database(options.database).set_final(r.key, r.schedule_hash, *r.final_seconds * pace);
        options.trials = 24;
        const Record second = tune(op, Machine::host(), CpuTarget::host(), options);
        bool again = false;
        for (const Record &r : compared()) {
            again = again || r.schedule_hash == first.schedule_hash;
            CHECK(*r.final_seconds > 0.01 * *first.final_seconds);
            CHECK(*r.final_seconds < 500 * *first.final_seconds);
            CHECK(*r.final_seconds >= second.seconds());
        }
        CHECK(again);
        CHECK(best(op, Machine::host(), options.database, {.threads = 1})->schedule_hash == second.schedule_hash);
    }
}

TEST_CASE("of a comparison all times are kept, or none") {
    const Op op = ops::matmul(Float(32), 64, 64, 64);
    const auto space = blocks(op);
    TuneOptions options = quick(8, fresh_file("whole.db"));
    options.space = space.get();
    options.final_seconds = 0;
    tune(op, Machine::host(), CpuTarget::host(), options);
    {
        Connection c;
        c.path = options.database;
        REQUIRE(sqlite3_open(c.path.c_str(), &c.handle) == SQLITE_OK);
        c.run("CREATE TABLE noted (id INTEGER)");
        c.run("CREATE TRIGGER third BEFORE UPDATE OF final_seconds ON records WHEN (SELECT count(*) FROM noted) = 2 "
              "BEGIN SELECT RAISE(ABORT, 'no third one'); END");
        c.run("CREATE TRIGGER note AFTER UPDATE OF final_seconds ON records BEGIN INSERT INTO noted VALUES (OLD.id); "
              "END");
    }
    options.final_seconds = 0.05;
    options.trials = 12;
    CHECK_THROWS_WITH_AS(tune(op, Machine::host(), CpuTarget::host(), options), doctest::Contains("no third one"),
                         UserError);
    const Database kept(options.database, Database::Mode::Read);
    const auto all = kept.records(task_key(op, Machine::host(), {.threads = 1}), Machine::host());
    CHECK(all.size() >= 12);
    for (const Record &r : all) CHECK(!r.final_seconds);
}

TEST_CASE("the best schedule of another shape is tried early") {
    const Op first = ops::matmul(Float(32), 64, 64, 64), second = ops::matmul(Float(32), 64, 96, 64);
    const auto space = blocks(first), other = blocks(second);
    TuneOptions options = quick(24, fresh_file("hints.db"));
    options.space = space.get();
    const Record best_record = tune(first, Machine::host(), CpuTarget::host(), options);
    options.trials = 2;
    options.space = other.get();
    TuneReport report;
    tune(second, Machine::host(), CpuTarget::host(), options, &report);
    REQUIRE(report.records.size() == 2);
    CHECK_EQ(report.records[0].origin, "default");
    CHECK_EQ(report.records[1].origin, "hint");
    CHECK_EQ(report.records[1].parameters, best_record.parameters);
}

TEST_CASE("cold caches are another machine's times") {
    const Op op = ops::make("add", {{"n", 40000}});
    TuneOptions options;
    options.threads = 1;
    options.database = fresh_file("cold.db");
    options.trial_seconds = 0.02;
    options.trials = 1;
    const Record warm = tune(op, Machine::host(), CpuTarget::host(), options);
    options.cold = true;
    TuneReport report;
    const Record cold = tune(op, Machine::host(), CpuTarget::host(), options, &report);
    CHECK(report.known == 0);
    CHECK(cold.key.machine != warm.key.machine);
    BestOptions wanted{.threads = 1, .cold = true};
    CHECK(best(op, Machine::host(), options.database, wanted)->seconds() == cold.seconds());
    wanted.cold = false;
    CHECK(best(op, Machine::host(), options.database, wanted)->seconds() == warm.seconds());
}

TEST_CASE("kernels that take weights packed ahead are tuned, and kept, apart from those that pack") {
    const Op op = ops::make("conv2d", {{"c", 16}, {"h", 7}, {"w", 7}, {"o", 32}, {"padding", 1}});
    TuneOptions options = quick(4, fresh_file("ahead.db"));
    const auto packs = [&](const Record &r) { return lower(r.schedule(op)).packs.size(); };
    const Record within = tune(op, Machine::host(), CpuTarget::host(), options);
    CHECK(packs(within) == 0);
    options.ahead = true;
    TuneReport report;
    const Record ahead = tune(op, Machine::host(), CpuTarget::host(), options, &report);
    CHECK(report.known == 0);
    CHECK(report.measured == 4);
    for (const Record &r : report.records) {
        CHECK(packs(r) == 1);
        CHECK_EQ(r.reason, "");
        CHECK_EQ(r.parameters->at("weights"), "ahead");
    }
    CHECK(report.failures.empty());
    CHECK(best(op, Machine::host(), options.database, {.threads = 1})->schedule_hash == within.schedule_hash);
    CHECK(best(op, Machine::host(), options.database, {.threads = 1, .ahead = true})->schedule_hash ==
          ahead.schedule_hash);
    // The best of the kernels that pack is worth a trial, but only if the caller does not pack.
    Record other = report.records[3];
    REQUIRE(other.schedule_hash != report.records[0].schedule_hash);
    other.key = within.key;
    (*other.parameters)["weights"] = "copied";
    other.timing.least = other.timing.median = 1e-9;
    other.final_seconds.reset();
    options.database = fresh_file("ahead_hints.db");
    Database(options.database).add(op, other);
    options.trials = 2;
    tune(op, Machine::host(), CpuTarget::host(), options, &report);
    REQUIRE(report.records.size() == 2);
    CHECK_EQ(report.records[1].origin, "hint");
    CHECK_EQ(report.records[1].schedule_hash, other.schedule_hash);
    options.database.clear();
    // Cold: the packed array is out of the caches as well.
    options.cold = true;
    options.trials = 1;
    CHECK(tune(op, Machine::host(), CpuTarget::host(), options).seconds() > 0);
    options.spaces = SpaceKind::Auto;
    CHECK_THROWS_WITH_AS(tune(op, Machine::host(), CpuTarget::host(), options),
                         doctest::Contains("spaces made from formulas pack no operand ahead"), Unsupported);
    options.spaces = SpaceKind::Fitting;
    CHECK_THROWS_WITH_AS(
        tune(ops::make("softmax", {{"m", 4}, {"n", 8}}), Machine::host(), CpuTarget::host(), options),
        doctest::Contains("no schedule of the library has the caller pack an operand of op \"softmax\" ahead of time"),
        Unsupported);
}

TEST_CASE("a hint is used unchanged, except for the packing of operands") {
    const Op op = ops::matmul(Float(32), 64, 64, 64);
    const auto space = blocks(op), of_rows = blocks(op, {1}, {8, 16, 32});
    TuneOptions options = quick(2, fresh_file("whole_hints.db"));
    options.space = space.get();
    TuneReport report;
    Record other = tune(op, Machine::host(), CpuTarget::host(), options, &report);
    other.key.machine = "far-1";
    for (const int rows : {1, 2}) {
        options.database = fresh_file("whole_hints.db");
        (*other.parameters)["rows"] = rows;
        (*other.parameters)["columns"] = 32;
        Database(options.database).add(op, other);
        options.space = of_rows.get();
        tune(op, Machine::host(), CpuTarget::host(), options, &report);
        REQUIRE(report.records.size() == 2);
        CHECK((report.records[1].origin == "hint") == (rows == 1));
    }
}

TEST_CASE("names of inputs may exceed the measurer's limit") {
    const std::string name(260, 'b');
    const Axis i("i", 24), j("j", 32), k("k", 16);
    const Tensor a = input("A", Float(32), {i, k}), b = input(name, Float(32), {k, j});
    const Op op("product", {a, b}, {compute("C", {i, j}, sum(a(i, k) * b(k, j), k))});
    TuneOptions options = quick(2);
    options.ahead = true;
    TuneReport report;
    CHECK_EQ(tune(op, Machine::host(), CpuTarget::host(), options, &report).parameters->at("pack_b"), "ahead");
    CHECK(report.failures.empty());
}

TEST_CASE("of several tasks some take weights packed ahead") {
    const Op op = ops::matmul(Float(32), 24, 32, 16);
    const auto found = tune_all({{.op = op}, {.op = op, .ahead = true}}, Machine::host(), CpuTarget::host(), quick(2));
    REQUIRE(found.size() == 2);
    CHECK(found[0]->parameters->at("pack_b") != "ahead");
    CHECK(found[1]->parameters->at("pack_b") == "ahead");
}

TEST_CASE("a session ends on request, with the best so far") {
    Op op = ops::matmul(Float(32), 32, 32, 32);
    auto space = blocks(op);
    std::atomic<bool> interrupt = true;
    TuneOptions options;
    options.space = space.get();
    options.threads = 1;
    options.seconds = 1e-3; // shorter than one measurement: the default is measured all the same
    TuneReport report;
    Record r = tune(op, Machine::host(), CpuTarget::host(), options, &report);
    CHECK(report.measured == 1);
    CHECK((*r.parameters)["rows"] == 1);
    CHECK(!r.final_seconds); // no time to compare
    CHECK(report.default_seconds == r.seconds());
    options.seconds = 0;
    // Interrupted in the middle: nothing is compared any more, though there is time.
    struct Telling : std::stringbuf {
        std::atomic<bool> &interrupt;
        explicit Telling(std::atomic<bool> &i) : interrupt(i) {}
        std::streamsize xsputn(const char *text, std::streamsize size) override {
            if (std::string_view(text, static_cast<size_t>(size)).find("best ") != std::string_view::npos)
                interrupt = true;
            return std::stringbuf::xsputn(text, size);
        }
    } telling(interrupt);
    std::ostream progress(&telling);
    interrupt = false;
    options.interrupt = &interrupt;
    options.progress = &progress;
    options.style = ProgressStyle::Bar;
    options.final_seconds = 600;
    r = tune(op, Machine::host(), CpuTarget::host(), options, &report);
    CHECK(report.interrupted);
    CHECK(report.measured < 24);
    CHECK(!r.final_seconds);
    CHECK(report.seconds < 300);
    CHECK_THROWS_AS(tune(op, Machine::host(), CpuTarget::host(), options, &report), UserError);
    CHECK(report.interrupted);
}

TEST_CASE("sizes are bound for tuning") {
    Size n("n");
    Op op = ops::matmul(Float(32), n, 32, 32);
    auto space = blocks(op);
    TuneOptions options;
    options.trials = 3;
    options.space = space.get();
    options.sizes = {{"n", 48}};
    options.threads = 1;
    Record r = tune(op, Machine::host(), CpuTarget::host(), options);
    CHECK(r.key.sizes == Sizes{{"n", 48}});
    CHECK(r.outcome == Outcome::Ok);
}

TEST_CASE("records hold features, the estimate and where they came from; random search asks no model") {
    Op op = ops::matmul(Float(32), 16, 64, 16);
    TuneOptions options;
    options.trials = 12;
    options.threads = 1;
    options.trial_seconds = 0.01;
    options.final_seconds = 0;
    TuneReport report;
    tune(op, Machine::host(), CpuTarget::host(), options, &report);
    REQUIRE(report.records.size() == 12);
    CHECK(report.records[0].origin == "default");
    for (const Record &r : report.records) {
        CHECK(r.features.version == features_version);
        CHECK(r.features.values.size() == feature_names().size());
        CHECK(r.estimated_seconds > 0);
    }
    CHECK(report.records[1].predicted);
    CHECK(report.search_seconds > 0);
    options.search = SearchMethod::Random;
    tune(op, Machine::host(), CpuTarget::host(), options, &report);
    for (const Record &r : report.records) CHECK(!r.predicted);

    // Rejected candidates have an origin too.
    const Op large = ops::matmul(Float(32), 64, 64, 64);
    const auto space = blocks(large);
    options.space = space.get();
    options.trials = 20;
    for (const SearchMethod search : {SearchMethod::Model, SearchMethod::Evolution, SearchMethod::Random}) {
        options.search = search;
        tune(large, Machine::host(), CpuTarget::host(), options, &report);
        CHECK(!report.rejections.empty());
        for (const Record &r : report.rejections) CHECK(!r.origin.empty());
        if (search == SearchMethod::Model) CHECK(report.rejections.back().origin == "pool");
    }
}

TEST_CASE("a seed finds the same candidates again") {
    // Measurements differ from run to run; proposals before the first measurement must not.
    Op op = ops::matmul(Float(32), 48, 64, 40);
    TuneOptions options;
    options.trials = 4;
    options.threads = 1;
    options.trial_seconds = 0.01;
    options.final_seconds = 0;
    TuneReport first, second;
    tune(op, Machine::host(), CpuTarget::host(), options, &first);
    tune(op, Machine::host(), CpuTarget::host(), options, &second);
    for (size_t i = 0; i < 4; i++) CHECK(first.records[i].schedule_hash == second.records[i].schedule_hash);
}

TEST_CASE("a space in which no schedule is legal is left for the next") {
    // No block divides it, and the last one would end beyond the range of an index.
    const Axis i("i", 2147483647);
    const Tensor X = input("X", u8, {i}, {.strides = {0}});
    const Op op("ones", {X}, {compute("s", {}, sum(cast<int64_t>(X(i)), i))});
    const auto [name, space] = space_for(op, Machine::host(), SpaceKind::Fitting);
    CHECK_EQ(name, "stages");
    CHECK(can_be_lowered(*space, space->default_point()));
    CHECK_EQ(space_for(ops::matmul(Float(32), 8, 8, 16), Machine::host(), SpaceKind::Fitting).first, "matmul");
}
