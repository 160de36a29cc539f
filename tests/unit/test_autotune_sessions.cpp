// Tuning sessions: when they end, which record they call best, and what they exclude.
#include "autotune/build.h"
#include "autotune/session.h"
#include "autotune/tune.h"
#include "ops/matmul.h"
#include "ops/registry.h"
#include "schedules/library/table.h"
#include "support/json.h"
#include "support/random.h"
#include "targets/chip/compile.h"
#include "tests/database_help.h"
#include "tests/unit/blocks_space.h"

#include <doctest/doctest.h>

#include <set>

using namespace kumiko;
using kumiko::testing::blocks;
using kumiko::testing::fresh_file;

namespace {

// Wraps a space and runs a function before one of its schedules is made.
class Watched : public Space {
public:
    Watched(std::unique_ptr<Space> inner, std::function<void(const Point &)> before)
        : Space(inner->op(), inner->machine()), inner_(std::move(inner)), before_(std::move(before)) {
        set_parameters(inner_->parameters());
    }
    Point default_point() const override { return inner_->default_point(); }
    Schedule schedule(const Point &point) const override {
        before_(point);
        return inner_->schedule(point);
    }

private:
    std::unique_ptr<Space> inner_;
    std::function<void(const Point &)> before_;
};

// A space whose candidates can be built and measured; verifying them succeeds only if `right` says
// so.
std::unique_ptr<Space> faulty(const Op &op, std::function<bool(const Point &)> right) {
    auto made = std::make_shared<std::set<Point>>();
    return std::make_unique<Watched>(blocks(op), [made, right](const Point &p) {
        if (!made->insert(p).second && !right(p)) throw UserError("the nest is not right");
    });
}

// Short measurements on one thread, kept in a new database.
TuneOptions quick(const Space &space, int trials, const std::string &file) {
    TuneOptions options;
    options.space = &space;
    options.threads = 1;
    options.trial_seconds = 0.01;
    options.final_seconds = 0;
    options.trials = trials;
    options.database = fresh_file(file);
    return options;
}

} // namespace

TEST_CASE("proposing candidates ends when a session is cancelled") {
    const Op op = ops::matmul(Float(32), 32, 32, 32);
    for (const SearchMethod search : {SearchMethod::Model, SearchMethod::Random}) {
        std::atomic<bool> interrupt = false;
        int made = 0;
        const Watched space(blocks(op), [&](const Point &) { interrupt = ++made >= 3; });
        TuneOptions options;
        options.space = &space;
        options.threads = 1;
        options.search = search;
        options.interrupt = &interrupt;
        TuneReport report;
        CHECK_THROWS_AS(tune(op, Machine::host(), CpuTarget::host(), options, &report), UserError);
        CHECK(report.interrupted);
        CHECK(report.measured == 0);
        CHECK(made == 3);
    }
}

TEST_CASE("the best schedule is verified, whatever ended the session") {
    const Op op = ops::matmul(Float(32), 32, 32, 32);
    for (const double final_seconds : {0.0, 0.05}) {
        TuneOptions options;
        options.trials = 10;
        options.threads = 1;
        options.trial_seconds = 0.01;
        options.final_seconds = final_seconds;
        options.database = fresh_file("verified.db");
        TuneReport report;
        // vectors are faster, but wrong
        const auto plain = [](const Point &p) { return p[2] == 0; };
        const auto space = faulty(op, plain);
        options.space = space.get();
        const Record r = tune(op, Machine::host(), CpuTarget::host(), options, &report);
        CHECK((*r.parameters)["vector"] == false);
        CHECK(report.failures["unbuildable: the nest is not right"] > 0);
        for (const Record &told : report.records) // the report calls no wrong candidate good
            CHECK(
                (told.outcome != Outcome::Ok || (*told.parameters)["vector"] == false || told.seconds() > r.seconds()));
        const auto found = best(op, Machine::host(), options.database, {.threads = 1});
        REQUIRE(found);
        CHECK(found->outcome == Outcome::Ok);

        options.database = "";
        const auto wrong = faulty(op, [](const Point &) { return false; });
        options.space = wrong.get();
        CHECK_THROWS_WITH_AS(tune(op, Machine::host(), CpuTarget::host(), options, &report),
                             doctest::Contains("the nest is not right"), UserError);
    }
}

TEST_CASE("no schedule is measured twice, however many candidates are under way") {
    struct Variants {
        BOOST_HANA_DEFINE_STRUCT(Variants, (Tile, variant), (Tile, idle));
    };
    const Op op = ops::make("reduce", {{"shape", {32, 256}}, {"axes", {1}}});
    const Machine chip = chip_machine(sim::Config::load("small"));
    const std::shared_ptr<Space> library = space_for(op, chip, SpaceKind::Library).second;
    std::map<std::string, Point> different;
    Random random(3);
    for (int n = 0; n < 400 && different.size() < 8; n++) {
        const Candidate c = make_candidate(*library, library->sample(random));
        if (c.outcome == Outcome::Ok) different.emplace(c.schedule_hash, c.point);
    }
    REQUIRE(different.size() == 8);
    std::vector<Point> points;
    for (const auto &[hash, point] : different) points.push_back(point);
    const std::vector<int64_t> variants = {0, 1, 2, 3, 4, 5, 6, 7}, idle = {0, 1, 2, 3};
    const auto space = make_template<Variants>(
                           "variants", "", [](const Op &) { return true; },
                           [&](const Op &, const Machine &) {
                               return Variants{Tile(0, variants), Tile(0, idle)};
                           },
                           [&](const Op &, const Machine &, const Variants &v) {
                               return library->schedule(points[static_cast<size_t>(static_cast<int64_t>(v.variant))]);
                           })
                           .make_space(op, chip);
    for (const SearchMethod search : {SearchMethod::Model, SearchMethod::Random, SearchMethod::Evolution}) {
        TuneOptions options;
        options.space = space.get();
        options.search = search;
        options.trials = 8;
        TuneReport report;
        tune(op, chip, CpuTarget::host(), options, &report);
        std::set<std::string> measured;
        for (const Record &r : report.records) CHECK(measured.insert(r.schedule_hash).second);
        CHECK(measured.size() > 4);
    }
}

TEST_CASE("two sessions of one database share results, and measure no candidate twice") {
    const Op op = ops::matmul(Float(32), 32, 32, 32);
    const Machine machine = Machine::host();
    const CpuTarget cpu = CpuTarget::host();
    const auto space = blocks(op);
    TuneOptions options = quick(*space, 16, "shared.db");
    TuneReport first, second;
    // neither knows anything
    Session a(op, machine, cpu, options, first), b(op, machine, cpu, options, second);
    a.advance(4);
    // each finds four that the other measured, and measures four more
    for (int turn = 0; turn < 2; turn++) {
        b.advance(8);
        a.advance(8);
    }
    CHECK(a.trials() == 16);
    CHECK(first.measured + first.known == 16);
    CHECK(first.known > 0);
    CHECK(second.known > 0);
    std::set<std::string> measured;
    for (const TuneReport *report : {&first, &second}) {
        for (const Record &r : report->records) CHECK(measured.insert(r.schedule_hash).second);
    }
    CHECK(measured.size() == 16);
    REQUIRE(a.best());
    REQUIRE(b.best());
    CHECK(a.finish().schedule_hash == best(op, machine, options.database, {.threads = 1})->schedule_hash);

    // A candidate that one refutes is not the other's best.
    Record refuted = *b.best();
    refuted.outcome = Outcome::Wrong;
    Database(options.database).replace(op, refuted);
    options.trials = 20;
    b.advance(20);
    REQUIRE(b.best());
    CHECK(b.best()->schedule_hash != refuted.schedule_hash);

    // A candidate that the other finds faster becomes the best, though both know it.
    const std::string before = b.best()->schedule_hash;
    const auto slower = std::find_if(second.records.begin(), second.records.end(), [&](const Record &r) {
        return r.outcome == Outcome::Ok && r.schedule_hash != before && r.schedule_hash != refuted.schedule_hash;
    });
    REQUIRE(slower != second.records.end());
    Record faster = *slower;
    faster.timing.least = faster.timing.median = 1e-12;
    Database(options.database).replace(op, faster);
    options.trials = 21;
    b.advance(1);
    CHECK(b.best()->schedule_hash == faster.schedule_hash);
}

TEST_CASE("records from before a space had a parameter are known where they mean the same") {
    const Op op = ops::matmul(Float(32), 32, 64, 32);
    const Machine machine = Machine::host();
    const CpuTarget cpu = CpuTarget::host();
    const auto space = library::space_of(op, machine);
    TuneOptions options = quick(*space, 8, "before.db");
    TuneReport first, second;
    Session(op, machine, cpu, options, first).advance(8);
    int off = 0, on = 0;
    for (Record r : first.records) {
        (r.parameters->at("prefetch_b").get<bool>() ? on : off)++;
        r.parameters->erase("prefetch_b");
        r.parameters->erase("join"); // always false here
        Database(options.database).replace(op, r);
    }
    CHECK(off > 0);
    Session again(op, machine, cpu, options, second);
    again.advance(0);
    CHECK(second.known >= off);
    CHECK(second.known <= off + on);
}
