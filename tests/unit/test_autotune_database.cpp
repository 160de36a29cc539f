// The database: round trips, files of the older format, two concurrent sessions, and a killed
// session.
#include "autotune/database_format.h"
#include "autotune/tune.h"
#include "ops/matmul.h"
#include "schedules/primitive.h"
#include "tests/database_help.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace kumiko;
using kumiko::testing::fresh_file;
using kumiko::testing::record_of;

namespace {

void run_sql(const std::string &file, const std::vector<std::string> &statements) {
    Connection c;
    c.path = file;
    REQUIRE(sqlite3_open(file.c_str(), &c.handle) == SQLITE_OK);
    for (const std::string &sql : statements) c.run(sql.c_str());
}

int64_t version_of(const std::string &file) {
    Connection c;
    c.path = file;
    REQUIRE(sqlite3_open(file.c_str(), &c.handle) == SQLITE_OK);
    return c.integer("PRAGMA user_version");
}

// A file in the format of version 1, with two records.
std::string file_of_version_1(const std::string &name, const Op &op) {
    const std::string file = fresh_file(name);
    {
        Database db(file);
        db.add(op, record_of(op, 2, 3e-6));
        db.add(op, record_of(op, 4, 2e-6));
    }
    run_sql(file, {"ALTER TABLE records DROP COLUMN origin", "ALTER TABLE records DROP COLUMN predicted",
                   "ALTER TABLE records DROP COLUMN estimated_seconds", "UPDATE records SET features_version = 0",
                   "PRAGMA user_version = 1"});
    return file;
}

} // namespace

TEST_CASE("records round-trip") {
    Op op = ops::matmul(Float(32), 8, 8, 8);
    const std::string file = fresh_file("back.db");
    {
        Database db(file);
        db.add(op, record_of(op, 2, 3e-6));
        db.add(op, record_of(op, 4, 2e-6));
        Record bad = record_of(op, 8, 0);
        bad.outcome = Outcome::Crashed;
        bad.reason = "it accessed unmapped memory (SIGSEGV)";
        db.add(op, bad);
    }
    auto found = best(op, Machine::host(), file, {.threads = 1});
    REQUIRE(found);
    CHECK(found->parameters.dump() == R"({"factor":4})");
    CHECK(found->timing.least == 2e-6);
    CHECK(found->timing.samples == 12);
    CHECK(found->schedule(op).directives().size() == 1);
    CHECK(found->library_template == "demo");
    CHECK(found->created.size() == 20);
    Database db(file);
    // A paired comparison counts for more than a single measurement.
    db.set_final(found->key, "hash2", 2.5e-6);
    CHECK(db.best(found->key, Machine::host())->schedule_hash == "hash2");
    auto all = db.records(found->key, Machine::host());
    REQUIRE(all.size() == 3);
    CHECK(all[2].outcome == Outcome::Crashed);
    CHECK(all[2].reason == "it accessed unmapped memory (SIGSEGV)");
    REQUIRE(db.tasks().size() == 1);
    CHECK(db.tasks()[0].records == 3);
    CHECK(db.tasks()[0].ok == 2);
    CHECK(db.tasks()[0].key.op == op.name());
}

TEST_CASE("training data round-trips") {
    Op op = ops::matmul(Float(32), 8, 8, 8);
    const std::string file = fresh_file("features.db");
    Record r = record_of(op, 2, 3e-6);
    r.features = {features_version, {0.1f, -3e-30f, 0, 7e8f}};
    r.estimated_seconds = 4e-6;
    r.predicted = -0.25;
    r.origin = "model";
    {
        Database db(file);
        db.add(op, r);
        db.add(op, record_of(op, 4, 2e-6));
    }
    int seen = 0;
    Database(file, Database::Mode::Read).for_each([&](const Database::TaskSummary &task, const Record &found) {
        CHECK(task.key.op_hash == op.hash());
        CHECK(task.records == 2);
        if (seen++ == 0) {
            CHECK(found.features.version == features_version);
            CHECK(found.features.values == r.features.values);
            CHECK(found.estimated_seconds == 4e-6);
            CHECK(found.predicted == -0.25);
            CHECK(found.origin == "model");
        } else {
            CHECK(found.features.version == 0);
            CHECK(found.features.values.empty());
            CHECK(found.estimated_seconds == 0);
            CHECK(!found.predicted);
        }
    });
    CHECK(seen == 2);
}

TEST_CASE("a file of version 1 is read as it is, and changed when it is written") {
    Op op = ops::matmul(Float(32), 8, 8, 8);
    const std::string file = file_of_version_1("old.db", op);
    const TaskKey key = task_key(op, Machine::host(), {.threads = 1});
    {
        Database db(file, Database::Mode::Read);
        auto all = db.records(key, Machine::host());
        REQUIRE(all.size() == 2);
        CHECK(all[1].timing.least == 2e-6);
        CHECK(all[1].features.version == 0);
        CHECK(all[1].origin.empty());
        CHECK(version_of(file) == 1);
        Database writer(file);
        CHECK(version_of(file) == 2);
        CHECK(db.best(key, Machine::host())->schedule_hash == "hash4"); // who reads goes on
        Record r = record_of(op, 8, 1e-6);
        r.origin = "descent";
        writer.add(op, r);
    }
    Database db(file);
    auto all = db.records(key, Machine::host());
    REQUIRE(all.size() == 3);
    CHECK(all[0].timing.least == 3e-6);
    CHECK(all[2].origin == "descent");
}

TEST_CASE("a migration that is interrupted anywhere leaves the file as it was") {
    Op op = ops::matmul(Float(32), 8, 8, 8);
    const auto statements = migration_from(1);
    for (size_t done = 1; done <= statements.size(); done++) {
        const std::string file = file_of_version_1("interrupted.db", op);
        const pid_t child = fork();
        if (child == 0) {
            Connection c;
            sqlite3_open(file.c_str(), &c.handle);
            c.run("BEGIN IMMEDIATE");
            for (size_t i = 0; i < done; i++) c.run(statements[i].c_str());
            kill(getpid(), SIGKILL);
        }
        int status = 0;
        waitpid(child, &status, 0);
        CHECK(WIFSIGNALED(status));
        CHECK(version_of(file) == 1);
        Database db(file);
        CHECK(version_of(file) == 2);
        CHECK(db.tasks().at(0).records == 2);
    }
}

TEST_CASE("shapes, machines and threads are kept apart") {
    Op op = ops::matmul(Float(32), 8, 8, 8), other = ops::matmul(Float(32), 8, 8, 16);
    const std::string file = fresh_file("apart.db");
    Database(file).add(op, record_of(op, 2, 3e-6));
    CHECK(best(op, Machine::host(), file, {.threads = 1}));
    CHECK(!best(op, Machine::host(), file, {.threads = 2}));
    CHECK(!best(other, Machine::host(), file, {.threads = 1}));
    Machine elsewhere = Machine::host();
    elsewhere.vector_registers = 7;
    CHECK(!best(op, elsewhere, file, {.threads = 1}));
}

TEST_CASE("two sessions write at once") {
    Op op = ops::matmul(Float(32), 8, 8, 8);
    const std::string file = fresh_file("two.db");
    Database ours(file);
    const pid_t child = fork();
    if (child == 0) {
        Database theirs(file);
        for (int i = 0; i < 50; i++) theirs.add(op, record_of(op, 1000 + i, 1e-6));
        _exit(0);
    }
    for (int i = 0; i < 50; i++) ours.add(op, record_of(op, 1 + i, 1e-6));
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(status == 0);
    CHECK(ours.tasks()[0].records == 100);
}

TEST_CASE("a session killed at any moment loses no record that it had stored") {
    Op op = ops::matmul(Float(32), 8, 8, 8);
    for (int round = 0; round < 5; round++) {
        const std::string file = fresh_file("killed.db");
        int pipe_ends[2];
        REQUIRE(pipe(pipe_ends) == 0);
        const pid_t child = fork();
        if (child == 0) {
            Database db(file);
            for (int i = 0;; i++) {
                db.add(op, record_of(op, 1 + i, 1e-6));
                if (write(pipe_ends[1], "x", 1) != 1) _exit(1);
            }
        }
        close(pipe_ends[1]);
        char x;
        int written = 0;
        while (written < 20 + 7 * round && read(pipe_ends[0], &x, 1) == 1) written++;
        kill(child, SIGKILL);
        waitpid(child, nullptr, 0);
        while (read(pipe_ends[0], &x, 1) == 1) written++;
        close(pipe_ends[0]);
        Database db(file);
        CHECK(db.tasks()[0].records >= written);
        CHECK(db.tasks()[0].records <= written + 1);
        db.add(op, record_of(op, 100000, 1e-6));
    }
}
