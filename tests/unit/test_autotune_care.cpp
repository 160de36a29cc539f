// Maintenance of a database: statistics, JSON lines and back, merging, pruning, and records of
// other machines.
#include "autotune/database_care.h"
#include "autotune/database_lines.h"
#include "autotune/hints.h"
#include "ops/matmul.h"
#include "schedules/primitive.h"
#include "support/json.h"
#include "tests/database_help.h"
#include "tests/unit/refusal.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <limits>
#include <sstream>
#include <thread>

using namespace kumiko;
using kumiko::testing::fresh_file;
using kumiko::testing::record_of;

namespace {

const Op &small() {
    static const Op op = ops::matmul(Float(32), 8, 8, 8);
    return op;
}

Record failed(const Op &op, int64_t factor, Outcome outcome) {
    Record r = record_of(op, factor, 0);
    r.outcome = outcome;
    r.reason = "it <said> \"no\" — \n twice";
    r.timing = {};
    return r;
}

// Records of every kind, of two formulas, machines and numbers of threads.
void fill(Database &db) {
    Record full = record_of(small(), 2, 3.1e-6);
    full.features = {features_version, {0.1f, -3e-30f, 0, 7e8f, 1.f / 3, 16777217.f, 1e-42f}};
    full.features.values.resize(feature_names().size(), -0.25f);
    full.estimated_seconds = 1.0 / 3e5;
    full.predicted = -0.1234567890123;
    full.origin = "model";
    full.final_seconds = 2.9e-6;
    full.seed = ~uint64_t{0} - 5;
    full.build_seconds = 0.0123;
    db.add(small(), full);
    db.add(small(), record_of(small(), 4, 2e-6));
    db.add(small(), failed(small(), 8, Outcome::Crashed));
    Record illegal = failed(small(), 16, Outcome::Illegal);
    illegal.saved_schedule = nullptr;
    illegal.schedule_hash.clear();
    db.add(small(), illegal);
    Record elsewhere = record_of(small(), 4, 5e-7);
    elsewhere.key.machine = "other_processor-0123456789ab";
    elsewhere.key.threads = 3;
    db.add(small(), elsewhere);
    Size n("n");
    const Op symbolic = ops::matmul(Float(32), n, 8, 8);
    Record sized = record_of(ops::matmul(Float(32), 8, 8, 16), 4, 1e-5);
    sized.key = task_key(symbolic, Machine::host(), {.threads = 2, .sizes = {{"n", 7}}});
    sized.saved_schedule = Schedule(symbolic).to_json();
    db.add(symbolic, sized);
}

std::string lines_of(const Database &db) {
    std::ostringstream out;
    write_lines(db, out);
    return out.str();
}

} // namespace

TEST_CASE("export, then import, gives an equal database") {
    const std::string file = fresh_file("from.db"), copy = fresh_file("to.db");
    Database from(file), to(copy);
    fill(from);
    const std::string lines = lines_of(from);
    CHECK(lines.starts_with("{\"kumiko\":\"tuning records\",\"version\":2,\"records\":6}\n"));
    CHECK(std::count(lines.begin(), lines.end(), '\n') == 7);
    std::istringstream in(lines);
    const MergeCount count = merge_lines(to, in, "x.jsonl");
    CHECK(count.added == 6);
    CHECK(count.all() == 6);
    CHECK(lines_of(to) == lines);
    const TaskKey key = task_key(small(), Machine::host(), {.threads = 1});
    const auto a = from.records(key, Machine::host()), b = to.records(key, Machine::host());
    REQUIRE(a.size() == 4);
    REQUIRE(b.size() == 4);
    CHECK(b[0].features.values == a[0].features.values);
    CHECK(b[0].predicted == a[0].predicted);
    CHECK(b[0].seed == a[0].seed);
    CHECK(b[0].estimated_seconds == a[0].estimated_seconds);
    CHECK(b[0].final_seconds == a[0].final_seconds);
    CHECK(b[0].schedule(small()).directives().size() == 1);
    CHECK(b[2].outcome == Outcome::Crashed);
    CHECK(b[2].reason == a[2].reason);
    CHECK(to.tasks()[0].tensors == from.tasks()[0].tensors);
    CHECK(to.tasks()[0].formula == from.tasks()[0].formula);

    std::istringstream again(lines);
    CHECK(merge_lines(to, again, "x.jsonl").same == 6);
}

TEST_CASE("merging keeps the better of two records, and fields that only the other has") {
    Record measured = record_of(small(), 2, 3e-6), compared = record_of(small(), 2, 4e-6);
    compared.final_seconds = 3.5e-6;
    compared.origin = "descent";
    measured.features = {features_version, {1, 2, 3}};
    measured.estimated_seconds = 5e-6;
    for (const Record &r : {merged(measured, compared), merged(compared, measured)}) {
        CHECK(r.final_seconds == 3.5e-6);
        CHECK(r.timing.least == 4e-6);
        CHECK(r.features.values.size() == 3);
        CHECK(r.estimated_seconds == 5e-6);
        CHECK(r.origin == "descent");
    }
    const Record timed_out = failed(small(), 2, Outcome::TimedOut);
    CHECK(merged(timed_out, measured).outcome == Outcome::Ok);
    CHECK(merged(measured, timed_out).outcome == Outcome::Ok);
    Record wrong = failed(small(), 2, Outcome::Wrong);
    wrong.created = "2026-11-19T10:00:00Z";
    CHECK(merged(wrong, measured).outcome == Outcome::Ok); // good since
    wrong.created = measured.created;
    CHECK(merged(wrong, measured).outcome == Outcome::Wrong); // in the same second
    wrong.created = "2026-11-21T10:00:00Z";
    CHECK(merged(wrong, measured).outcome == Outcome::Wrong); // it was found out since
    CHECK(merged(measured, wrong).outcome == Outcome::Wrong);
    CHECK(merged(record_of(small(), 2, 2e-6), measured).timing.least == 2e-6);

    Database into(":memory:"), from(":memory:");
    into.add(small(), record_of(small(), 2, 3e-6));
    into.add(small(), record_of(small(), 4, 3e-6));
    into.add(small(), record_of(small(), 8, 1e-6));
    from.add(small(), compared);
    from.add(small(), record_of(small(), 4, 3e-6));
    from.add(small(), record_of(small(), 8, 2e-6));
    from.add(small(), record_of(small(), 16, 2e-6));
    const MergeCount count = merge(into, from);
    CHECK(count.added == 1);
    CHECK(count.better == 1);
    CHECK(count.same == 2);
    CHECK(into.tasks().at(0).records == 4);
    CHECK(into.find(record_of(small(), 2, 0))->final_seconds == 3.5e-6);
    CHECK(into.find(record_of(small(), 8, 0))->timing.least == 1e-6);
    const std::string file = fresh_file("self.db");
    Database self(file);
    CHECK(refusal([&] { merge(self, Database(file, Database::Mode::Read)); }) ==
          file + " cannot be merged into itself");
}

TEST_CASE("of two sessions that add a candidate at once the better record stays, as merging would have it") {
    const std::string file = fresh_file("both.db");
    Database ours(file), theirs(file);
    const Record good = record_of(small(), 2, 3e-6);
    ours.add(small(), good);
    theirs.add(small(), failed(small(), 2, Outcome::TimedOut));
    CHECK(ours.find(good)->outcome == Outcome::Ok);
    theirs.add(small(), record_of(small(), 2, 4e-6));
    CHECK(ours.find(good)->timing.least == 3e-6);
    theirs.add(small(), record_of(small(), 2, 2e-6));
    CHECK(ours.find(good)->timing.least == 2e-6);
    ours.set_final(good.key, good.schedule_hash, 5e-6);
    theirs.add(small(), record_of(small(), 2, 1e-6));
    CHECK(ours.find(good)->final_seconds == 5e-6);
    Record wrong = failed(small(), 2, Outcome::Wrong);
    wrong.created.clear(); // now
    theirs.add(small(), wrong);
    CHECK(ours.find(good)->outcome == Outcome::Wrong);
    theirs.replace(small(), good);
    CHECK(ours.find(good)->outcome == Outcome::Ok);
    wrong.created = good.created; // one of them in the same second
    theirs.add(small(), wrong);
    CHECK(ours.find(good)->outcome == Outcome::Wrong);
    theirs.add(small(), good);
    CHECK(ours.find(good)->outcome == Outcome::Wrong);
    theirs.replace(small(), good);
    CHECK(ours.tasks().at(0).records == 1);
}

TEST_CASE("a session sees what others have written since it last looked") {
    const std::string file = fresh_file("since.db");
    Database ours(file), theirs(file);
    const TaskKey key = record_of(small(), 2, 1).key;
    int64_t row = 0;
    const auto seen = [&] {
        std::vector<int64_t> factors;
        for (const Record &r : ours.records_since(row, key, Machine::host()))
            factors.push_back((*r.parameters)["factor"].get<int64_t>());
        return factors;
    };
    CHECK(seen().empty());
    theirs.add(small(), record_of(small(), 2, 3e-6));
    theirs.add(small(), record_of(small(), 4, 3e-6));
    CHECK(seen() == std::vector<int64_t>{2, 4});
    CHECK(seen().empty());
    theirs.add(small(), record_of(small(), 2, 2e-6)); // anew
    const Op other = ops::matmul(Float(32), 8, 8, 16);
    theirs.add(other, record_of(other, 16, 2e-6));
    theirs.add(small(), record_of(small(), 8, 2e-6));
    CHECK(seen() == std::vector<int64_t>{2, 8});
}

TEST_CASE("lines that cannot be imported are errors with file, line and cause, and no record is stored") {
    Database from(":memory:"), to(":memory:");
    fill(from);
    const std::string good = lines_of(from);
    const auto import = [&](const std::string &text) {
        std::istringstream in(text);
        const std::string said = refusal([&] { merge_lines(to, in, "x.jsonl"); });
        CHECK(to.tasks().empty());
        return said;
    };
    size_t line_4 = 0;
    for (int i = 0; i < 3; i++) line_4 = good.find('\n', line_4) + 1;
    const auto changed = [&](const std::string &what, const std::string &by) {
        std::string text = good;
        const size_t at = text.find(what, line_4);
        REQUIRE(at != std::string::npos);
        return text.replace(at, what.size(), by);
    };
    CHECK(import("") == "x.jsonl is empty: it has no header and no records");
    CHECK(import("{\"a\":1}\n") == "x.jsonl:1: this is not an export of a tuning database, which begins with a header, "
                                   "{\"kumiko\":\"tuning records\",\"version\":2}");
    CHECK(import("SQLite format 3\n").starts_with("x.jsonl:1:1: this is not JSON here"));
    CHECK(import("{\"kumiko\":\"tuning records\",\"version\":3}\n") ==
          "x.jsonl:1: the records have format version 3, newer than 2, the newest that this Kumiko reads; use a newer "
          "Kumiko");
    CHECK(import("{\"kumiko\":\"tuning records\",\"version\":1}\n") ==
          "x.jsonl:1: /version: there is no format version 1 of such files");
    std::string cut = good.substr(0, good.size() - 300);
    CHECK(import(cut).starts_with("x.jsonl:7:"));
    CHECK(import(cut).ends_with("the text ends early; it may be truncated"));
    cut = cut.substr(0, cut.rfind('\n') + 1);
    CHECK(import(cut) == "x.jsonl: its header states 6 records, and 5 follow: it may be cut off; take \"records\" out "
                         "of the header to import what is there");
    CHECK(import(changed("\"crashed\"", "\"crushed\"")).starts_with("x.jsonl:4: /outcome: "));
    CHECK(import(changed("\"build_seconds\":0.0,", "\"build_seconds\":\"long\",")) ==
          "x.jsonl:4: /build_seconds: expected a number, found \"long\"");
    CHECK(import(changed("\"build_seconds\":0.0,", "")).starts_with("x.jsonl:4: "));
    CHECK(import(changed("\"build_seconds\":0.0,", "\"build_seconds\":-1,")) ==
          "x.jsonl:4: /build_seconds: expected a time, found -1");
    std::string longer = good; // the first record is the one with features
    longer.insert(longer.find("\"features\":[") + 12, "1,");
    CHECK(import(longer).starts_with(
        fmt::format("x.jsonl:2: /features: {} values, but features of version {}, of nests, are {}",
                    feature_names().size() + 1, features_version, feature_names().size())));
    CHECK(import(changed("\"reason\":", "\"raeson\":")).starts_with("x.jsonl:4: "));
    CHECK(import(changed("\"version\":1", "\"version\":2"))
              .find("/schedule: the saved schedule has format version 2, newer than 1") != std::string::npos);
    CHECK(import(changed("\"hash\":\"", "\"hash\":\"x")).find("it belongs to another formula, with hash x") !=
          std::string::npos);
    CHECK(import(changed("\"threads\":1", "\"threads\":0")).starts_with("x.jsonl:4: /threads: "));

    // Without the number, lines may be selected; an empty selection has none.
    std::string some = good;
    some.replace(0, some.find('\n'), "{\"kumiko\":\"tuning records\",\"version\":2}\r\n\n");
    some = some.substr(0, some.rfind("{\"op\""));
    std::istringstream in(some);
    CHECK(merge_lines(to, in, "x.jsonl").added == 5);
}

TEST_CASE("an export is of one moment, though another session writes meanwhile") {
    const std::string file = fresh_file("moment.db");
    Database db(file), other(file);
    fill(db);
    struct Meddling : std::stringbuf { // another session's record, at each piece of text
        Database &other;
        int64_t n = 100;
        explicit Meddling(Database &other) : other(other) {}
        std::streamsize xsputn(const char *text, std::streamsize size) override {
            other.add(small(), record_of(small(), ++n, 1e-6));
            return std::stringbuf::xsputn(text, size);
        }
    } meddling(other);
    std::ostream out(&meddling);
    const int before = database_stats(db).records;
    write_lines(db, out);
    CHECK(database_stats(db).records > before + 3);
    Database to(":memory:");
    std::istringstream in(meddling.str());
    CHECK(merge_lines(to, in, "x.jsonl").added == before);
}

TEST_CASE("pruning counts what is there when it begins to write") {
    const std::string file = fresh_file("prune_locked.db");
    Database db(file), other(file);
    for (const int64_t n : {1, 2, 3}) db.add(small(), record_of(small(), n, 1e-6 * static_cast<double>(n)));
    PruneCount count;
    std::thread pruning;
    other.in_transaction([&] {
        other.add(small(), record_of(small(), 4, 5e-7));
        pruning = std::thread([&] { count = prune(db, {.keep = 1}); });
        std::this_thread::sleep_for(std::chrono::milliseconds(300)); // it waits for the lock
    });
    pruning.join();
    CHECK(count.removed == 3);
    CHECK(count.left == 1);
    CHECK(database_stats(other).records == 1);
}

TEST_CASE("an import that fails leaves what was there before") {
    Database from(":memory:"), to(":memory:");
    fill(from);
    to.add(small(), record_of(small(), 32, 1e-6));
    const std::string before = lines_of(to), good = lines_of(from);
    std::istringstream in(good + "{}\n");
    CHECK(refusal([&] { merge_lines(to, in, "x.jsonl"); }).starts_with("x.jsonl:8: "));
    CHECK(lines_of(to) == before);
}

TEST_CASE("a database in numbers") {
    const std::string file = fresh_file("stats.db");
    Database db(file);
    CHECK(database_stats(db).records == 0);
    fill(db);
    const DatabaseStats s = database_stats(db);
    CHECK(s.version == 2);
    CHECK(s.bytes > 1000);
    CHECK(s.records == 6);
    CHECK(s.trials == 5);
    CHECK(s.with_features == 1);
    CHECK(s.tasks.size() == 3);
    CHECK(s.machines.size() == 2);
    CHECK(s.machines.at("other_processor-0123456789ab") == 1);
    CHECK(s.outcomes.at("ok") == 4);
    CHECK(s.outcomes.at("crashed") == 1);
    CHECK(s.origins.at("model") == 1);
    CHECK(s.oldest == "2026-11-20T10:00:00Z");
    CHECK(s.json()["tasks"][0]["best_seconds"] == 2e-6);
    CHECK(s.json()["tasks"][0]["tensors"][0]["shape"] == Json{8, 8});
}

TEST_CASE("pruning removes the selected records, and the file becomes smaller") {
    const std::string file = fresh_file("prune.db");
    Database db(file);
    for (int64_t i = 1; i <= 200; i++) {
        Record r = record_of(small(), i, 1e-6 * static_cast<double>(i));
        r.features = {features_version, std::vector<float>(100, 1.f)};
        r.created = i % 2 ? "2026-10-01T00:00:00Z" : "2026-11-01T00:00:00Z";
        db.add(small(), r);
    }
    db.add(small(), failed(small(), 300, Outcome::Crashed));
    Record elsewhere = record_of(small(), 4, 5e-7);
    elsewhere.key.machine = "other-1";
    db.add(small(), elsewhere);
    // the best, though slow when measured once
    db.set_final(record_of(small(), 1, 0).key, "hash150", 1e-6);
    const TaskKey key = task_key(small(), Machine::host(), {.threads = 1});
    const std::string best = db.best(key, Machine::host())->schedule_hash;
    const int64_t before = database_stats(db).bytes;

    CHECK(refusal([&] { prune(db, {}); }).starts_with("this would remove every record"));
    CHECK(refusal([&] { prune(db, {.machine = "other-2"}); }) ==
          file + " knows no machine \"other-2\" (did you mean 'other-1'?)");
    const PruneCount dry = prune(db, {.keep = 10, .dry_run = true});
    CHECK(dry.removed == 190);
    CHECK(dry.left == 12);
    CHECK(database_stats(db).records == 202);
    CHECK(prune(db, {.older_than_days = 30, .keep = 10, .now = "2026-11-20T00:00:00Z"}).removed == 95);
    CHECK(prune(db, {.keep = 10}).removed == 95);
    CHECK(db.best(key, Machine::host())->schedule_hash == best);
    CHECK(best == "hash150");
    CHECK(database_stats(db).bytes < before / 2);
    CHECK(database_stats(db).outcomes.at("crashed") == 1);
    const PruneCount of_failed = prune(db, {.failed = true});
    CHECK(of_failed.removed == 1);
    CHECK(of_failed.tasks_removed == 0);
    const PruneCount of_machine = prune(db, {.machine = "other-1"});
    CHECK(of_machine.removed == 1);
    CHECK(of_machine.tasks_removed == 1);
    CHECK(of_machine.left == 10);
    CHECK(db.tasks().size() == 1);
}

TEST_CASE("a machine's id selects its records of all conditions, an id with a condition only those") {
    Database db(fresh_file("prune_ways.db"));
    for (const char *way : {"", ", caches cold", ", weights packed ahead", ", caches cold, weights packed ahead"}) {
        const KeyMachine m = KeyMachine::parse(std::string("other-1") + way);
        CHECK_EQ(m.id, "other-1");
        CHECK_EQ(m.conditions(), way);
        Record r = record_of(small(), 4, 5e-7);
        r.key.machine = m.text();
        db.add(small(), r);
    }
    db.add(small(), record_of(small(), 4, 5e-7));
    CHECK(prune(db, {.machine = "other-1, caches cold", .dry_run = true}).removed == 1);
    CHECK(prune(db, {.machine = "other-1"}).removed == 4);
    CHECK(db.tasks().size() == 1);
}

TEST_CASE("results of other machines are hints") {
    const std::string file = fresh_file("hints.db");
    Database db(file);
    CHECK(hints(small(), Machine::host(), file).empty());
    Record far = record_of(small(), 4, 5e-7), near = record_of(small(), 2, 8e-7);
    far.key.machine = "far-1";
    far.key.threads = 8;
    near.key.machine = "near-1";
    Record newer = record_of(small(), 8, 1e-9);
    newer.key.machine = "newer-1";
    (*newer.saved_schedule)["version"] = 2;
    for (const Record &r : {newer, far, near, record_of(small(), 16, 1e-9)}) db.add(small(), r);
    const auto all = hints(small(), Machine::host(), file, {.threads = 1});
    REQUIRE(all.size() == 3);
    CHECK(all[0].record.key.machine == "near-1");
    CHECK(all[0].unfit.empty());
    CHECK(all[0].record.schedule(small()).directives().size() == 1);
    CHECK(all[1].record.key.machine == "far-1");
    CHECK(all[2].unfit.find("newer than 1") != std::string::npos);
    // Records measured or called in another way do not count.
    Record ahead = record_of(small(), 4, 1e-10);
    ahead.key.machine = "far-1, weights packed ahead";
    db.add(small(), ahead);
    CHECK(hints(small(), Machine::host(), file, {.threads = 1}).size() == 3);
    CHECK(hints(small(), Machine::host(), file, {.threads = 1, .ahead = true}).size() == 1);
    CHECK(hints(small(), Machine::host(), file, {.threads = 1, .cold = true}).empty());
}
