// A database in trouble: damaged, locked, killed, shared, without space, without permission,
// changed by a newer program. Each case is a UserError that names the file, and no written record
// is lost. One file, because the cases share the ways to fill, damage and query a database.
#include "autotune/database_care.h"
#include "autotune/database_lines.h"
#include "autotune/report.h"
#include "autotune/sqlite.h"
#include "autotune/tune.h"
#include "ops/matmul.h"
#include "support/random.h"
#include "tests/database_help.h"
#include "tests/unit/blocks_space.h"
#include "tests/unit/refusal.h"

#include <doctest/doctest.h>

#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace kumiko;
using kumiko::testing::folder;
using kumiko::testing::fresh_file;
using kumiko::testing::remove_database;

namespace {

// For files that are created hundreds of times: in memory if possible, since databases wait for
// disks.
class QuickFile {
public:
    explicit QuickFile(const std::string &name) {
        std::error_code error;
        const bool memory = std::filesystem::is_directory("/dev/shm", error) && access("/dev/shm", W_OK) == 0;
        path = (memory ? std::filesystem::path("/dev/shm") : folder()).string() + "/kumiko-" +
               std::to_string(getpid()) + "-" + name;
    }
    ~QuickFile() { remove_database(path); }
    std::string path;
};

bool has(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

const Op &small() {
    static const Op op = ops::matmul(Float(32), 8, 8, 8);
    return op;
}

Record record_of(int64_t n) {
    Record r = testing::record_of(small(), n, 1e-6 * static_cast<double>(n));
    r.features = {features_version, std::vector<float>(feature_names().size(), 0.5f)};
    r.origin = n == 1 ? "default" : "random";
    return r;
}

std::string filled(const std::string &name, int records) {
    const std::string file = fresh_file(name);
    Database db(file);
    for (int n = 1; n <= records; n++) db.add(small(), record_of(n));
    return file;
}

int records_in(const std::string &file) {
    int n = 0;
    Database(file, Database::Mode::Read).for_each([&](const auto &, const Record &) { n++; });
    return n;
}

void run_sql(const std::string &file, const std::string &sql) {
    Connection c;
    c.path = file;
    REQUIRE(sqlite3_open(file.c_str(), &c.handle) == SQLITE_OK);
    c.run(sql.c_str());
}

// Runs every request on a database. Returns the error messages; fails on any exception other than
// UserError.
std::string ask_everything(const std::string &file, bool write) {
    std::string said;
    const auto ask = [&](auto f) {
        try {
            f();
        } catch (const UserError &e) {
            said += std::string(e.what()) + "\n";
        } catch (const std::exception &e) {
            FAIL_CHECK("not a UserError: ", e.what());
        }
    };
    const auto nothing = std::make_shared<CostModel>();
    ask([&] {
        Database db(file, write ? Database::Mode::ReadWrite : Database::Mode::Read);
        ask([&] { db.tasks(); });
        ask([&] { db.best(task_key(small(), Machine::host(), {.threads = 1}), Machine::host()); });
        ask([&] { database_stats(db).json(); });
        ask([&] {
            std::ostringstream out;
            write_lines(db, out);
        });
        ask([&] { report_page(report_tasks(db), {.model = nothing}); });
        if (!write) return;
        ask([&] { db.add(small(), record_of(1000)); });
        ask([&] {
            Database copy(":memory:");
            merge(copy, db);
        });
        ask([&] { prune(db, {.keep = 3, .failed = true}); });
    });
    return said;
}

// 48 candidates of a small product.
std::unique_ptr<Space> blocks(const Op &op) { return kumiko::testing::blocks(op, {1, 2, 3, 4, 6, 8}, {4, 8, 16, 32}); }

// Tunes in the database with few seconds of measuring.
TuneReport tune_small(const std::string &file, int trials, uint64_t seed) {
    const Op op = ops::matmul(Float(32), 32, 32, 32);
    const auto space = blocks(op);
    TuneOptions o;
    o.space = space.get();
    o.threads = 1;
    o.trials = trials;
    o.seed = seed;
    o.search = SearchMethod::Evolution;
    o.trial_seconds = 0.01;
    o.final_seconds = 0;
    o.database = file;
    TuneReport report;
    tune(op, Machine::host(), CpuTarget::host(), o, &report);
    return report;
}

template<typename F>
pid_t in_child(F f) {
    const pid_t child = fork();
    if (child != 0) return child;
    int status = 1;
    try {
        status = f();
    } catch (const std::exception &e) {
        std::fprintf(stderr, "%s\n", e.what());
        status = 99;
    }
    _exit(status);
}

int status_of(pid_t child) {
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

std::set<std::string> hashes_in(const std::string &file) {
    std::set<std::string> all;
    Database(file, Database::Mode::Read).for_each([&](const auto &, const Record &r) {
        CHECK(all.insert(r.schedule_hash).second); // no duplicates
    });
    return all;
}

} // namespace

TEST_CASE("damaged bytes are an error of the file, or have no effect") {
    const std::string good = filled("good.db", 40);
    const QuickFile quick("bytes.db");
    const std::string &file = quick.path;
    std::ostringstream bytes;
    bytes << std::ifstream(good, std::ios::binary).rdbuf();
    const std::string original = bytes.str();
    REQUIRE(original.size() > 20000);
    int complaints = 0;
    for (uint64_t seed = 1; seed <= 150; seed++) {
        Random random(seed);
        std::string damaged = original;
        const auto any = [&](size_t n) { return static_cast<size_t>(random.real() * static_cast<double>(n)); };
        switch (seed % 3) {
        case 0: // a stretch of noise
            for (size_t at = any(damaged.size()), n = 1 + any(64); n > 0 && at < damaged.size(); n--)
                damaged[at++] = static_cast<char>(any(256));
            break;
        case 1: // cut off
            damaged.resize(any(damaged.size()));
            break;
        default: // a page of nothing
            const size_t page = any(damaged.size() / 4096) * 4096;
            std::fill_n(damaged.begin() + static_cast<long>(page), 4096, '\0');
        }
        for (const bool write : {false, true}) {
            remove_database(file);
            std::ofstream(file, std::ios::binary) << damaged;
            INFO("seed ", seed, write ? ", written" : ", read");
            const std::string said = ask_everything(file, write);
            complaints += !said.empty();
            if (!said.empty()) CHECK(has(said, "bytes.db"));
        }
    }
    CHECK(complaints > 100);
}

TEST_CASE("values that no Kumiko wrote are an error that names the file") {
    const std::string good = filled("sound.db", 3);
    const QuickFile quick("values.db");
    const std::string &file = quick.path;
    const std::vector<std::string> columns = {
        "tasks.op",          "tasks.sizes",           "tasks.machine",    "tasks.threads",
        "tasks.formula",     "tasks.tensors",         "records.template", "records.parameters",
        "records.schedule",  "records.outcome",       "records.reason",   "records.least",
        "records.median",    "records.features",      "records.created",  "records.features_version",
        "records.predicted", "records.final_seconds", "records.origin",   "records.estimated_seconds"};
    for (const std::string &column : columns) {
        for (const std::string value :
             {"''", "'x'", "'[]'", "'{}'", "'5'", "'null'", "'[1,{\"name\":3,\"shape\":7}]'", "'{\"n\":\"m\"}'", "-1",
              "1e300", "CAST(x'ff00fe' AS TEXT)", "x'ff'",
              "'{\"kumiko\":\"schedule\",\"version\":1,\"directives\":[3]}'",
              "'{\"kumiko\":\"schedule\",\"version\":1,\"directives\":[{\"primitive\":\"split\",\"stage\":4}]}'"}) {
            remove_database(file);
            std::filesystem::copy_file(good, file);
            const size_t dot = column.find('.');
            run_sql(file, "UPDATE " + column.substr(0, dot) + " SET " + column.substr(dot + 1) + " = " + value);
            INFO(column, " = ", value);
            const std::string said = ask_everything(file, false);
            if (!said.empty()) CHECK(has(said, "values.db"));
        }
    }
}

TEST_CASE("files that are no databases, of every kind") {
    for (const bool write : {false, true}) {
        for (const std::string &bytes :
             {std::string("x"), std::string(100, '\0'), std::string("SQLite format 3\0", 16),
              std::string("SQLite format 3\0", 16) + std::string(5000, 'y'), std::string(70000, 'z')}) {
            const std::string file = fresh_file("other.db");
            std::ofstream(file, std::ios::binary) << bytes;
            const std::string said = ask_everything(file, write);
            INFO(bytes.size(), " bytes of ", bytes[0], ": ", said);
            CHECK(has(said, "other.db"));
        }
        CHECK(has(ask_everything("/dev/null", write), "/dev/null"));
        CHECK(has(ask_everything(folder().string(), write), "is a folder, not a tuning database"));
    }
}

TEST_CASE("a lock is waited for, and an error when it lasts") {
    const std::string file = filled("locked.db", 3);
    int ready[2];
    REQUIRE(pipe(ready) == 0);
    const pid_t child = in_child([&] {
        Connection c;
        c.path = file;
        sqlite3_open(file.c_str(), &c.handle);
        c.run("BEGIN IMMEDIATE");
        if (write(ready[1], "x", 1) != 1) return 1;
        usleep(700'000);
        c.run("ROLLBACK");
        return 0;
    });
    char x;
    REQUIRE(read(ready[0], &x, 1) == 1);
    CHECK(has(refusal([&] { Database(file, Database::Mode::ReadWrite, 0.1).add(small(), record_of(9)); }),
              "locked.db is locked: another program has held it for more than 100 ms; end that program, or try again "
              "when it is done"));
    CHECK(records_in(file) == 3); // readers go on
    Database(file, Database::Mode::ReadWrite, 30).add(small(), record_of(9));
    CHECK(records_in(file) == 4);
    CHECK(status_of(child) == 0);
    close(ready[0]);
    close(ready[1]);
}

TEST_CASE("a killed session resumes: no stored record is lost, and none is measured twice") {
    const std::string file = fresh_file("killed.db");
    size_t before = 0;
    for (const int enough : {3, 9}) {
        const pid_t child = in_child([&] {
            tune_small(file, 40, 1);
            return 0;
        });
        for (int i = 0; i < 3000; i++) {
            usleep(10'000);
            if (std::filesystem::exists(file) &&
                refusal([&] { before = static_cast<size_t>(records_in(file)); }) == "no error" &&
                before >= static_cast<size_t>(enough))
                break;
        }
        kill(child, SIGKILL);
        CHECK(status_of(child) == -SIGKILL);
        CHECK(before >= static_cast<size_t>(enough));
        before = hashes_in(file).size();
    }
    const std::set<std::string> kept = hashes_in(file);
    const auto trials = static_cast<int>(kept.size()) + 4;
    const TuneReport resumed = tune_small(file, trials, 1);
    CHECK(resumed.known == static_cast<int>(kept.size()));
    CHECK(resumed.measured == 4);
    const std::set<std::string> after = hashes_in(file);
    CHECK(after.size() == static_cast<size_t>(trials));
    for (const std::string &hash : kept) CHECK(after.count(hash) == 1);
}

TEST_CASE("sessions that make a file at the same moment wait for each other") {
    for (int round = 0; round < 60; round++) {
        const std::string file = fresh_file("made.db");
        std::vector<pid_t> children;
        for (int n = 1; n <= 6; n++) {
            children.push_back(in_child([&] {
                Database(file, Database::Mode::ReadWrite, 60).add(small(), record_of(n));
                return 0;
            }));
        }
        for (const pid_t child : children) CHECK(status_of(child) == 0);
        CHECK(records_in(file) == 6);
    }
}

TEST_CASE("a file that is removed or replaced while a session writes to it is an error, not a loss without a word") {
    for (const bool replaced : {false, true}) {
        const std::string file = filled("gone.db", 2), other = filled("other.db", 1);
        Database db(file);
        db.add(small(), record_of(3));
        remove_database(file);
        if (replaced) std::filesystem::copy_file(other, file);
        CHECK(has(refusal([&] { db.add(small(), record_of(4)); }),
                  "gone.db was removed or replaced by another while it was in use"));
        CHECK(has(refusal([&] { db.set_final(record_of(3).key, "hash3", 1); }), "gone.db was removed or replaced"));
        if (replaced) CHECK(records_in(file) == 1);
        Database anew(file);
        anew.add(small(), record_of(4));
        CHECK(records_in(file) == (replaced ? 2 : 1));
    }
}

TEST_CASE("two sessions of one task at once share a file") {
    const std::string file = fresh_file("two.db");
    const pid_t a = in_child([&] { return tune_small(file, 12, 1).measured == 0; });
    const pid_t b = in_child([&] { return tune_small(file, 12, 2).measured == 0; });
    CHECK(status_of(a) == 0);
    CHECK(status_of(b) == 0);
    const size_t records = hashes_in(file).size();
    CHECK(records >= 12);
    CHECK(records <= 24);
    CHECK(Database(file, Database::Mode::Read).tasks().size() == 1);
    CHECK(tune_small(file, 12, 3).measured == 0);
}

TEST_CASE("a newer program that takes the file over stops the session, and what it wrote is not touched") {
    const std::string file = filled("newer.db", 3);
    Database ours(file);
    run_sql(file, "PRAGMA user_version = 3");
    CHECK(has(refusal([&] { ours.add(small(), record_of(9)); }),
              "newer.db has format version 3, newer than 2, the newest that this Kumiko reads"));
    CHECK(has(refusal([&] { ours.remove(record_of(1)); }), "newer.db has format version 3"));
    for (const auto mode : {Database::Mode::Read, Database::Mode::ReadWrite})
        CHECK(has(refusal([&] { Database db(file, mode); }), "newer.db has format version 3"));
    run_sql(file, "PRAGMA user_version = 2");
    CHECK(records_in(file) == 3);
}

TEST_CASE("an import without room leaves the database as it was") {
    const std::string file = filled("room.db", 3);
    Database big(":memory:");
    for (int n = 1; n <= 600; n++) big.add(small(), record_of(n));
    std::ostringstream lines;
    write_lines(big, lines);
    const int status = status_of(in_child([&] { // simulates a full disk
        std::signal(SIGXFSZ, SIG_IGN);
        rlimit limit{400000, 400000};
        setrlimit(RLIMIT_FSIZE, &limit);
        Database db(file);
        std::istringstream in(lines.str());
        const std::string said = refusal([&] { merge_lines(db, in, "x.jsonl"); });
        return has(said, "room.db cannot grow") || has(said, "the disk is full") ? 7 : 1;
    }));
    CHECK(status == 7);
    CHECK(records_in(file) == 3);
    std::istringstream in(lines.str());
    Database db(file);
    CHECK(merge_lines(db, in, "x.jsonl").added == 597);
}

TEST_CASE("a full disk is an error; the session resumes when space is free") {
    // Requires the right to mount a file system of 300 KiB for this process.
    const std::filesystem::path disk = folder() / "disk";
    std::filesystem::create_directories(disk);
    const int status = status_of(in_child([&] {
        if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
            mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=300k") != 0)
            return 77;
        const std::string file = (disk / "full.db").string(), filler = (disk / "filler").string();
        std::ofstream(filler) << std::string(100'000, 'f');
        Database db(file);
        int kept = 0;
        const std::string said = refusal([&] {
            for (; kept < 2000; kept++) db.add(small(), record_of(kept + 1));
        });
        if (kept == 0 || kept == 2000) return 1;
        if (!has(said, "full.db cannot grow") && !has(said, "the disk is full")) return 2;
        if (!has(said, "earlier results are still there")) return 3;
        if (records_in(file) != kept) return 4;
        std::filesystem::remove(filler);
        db.add(small(), record_of(kept + 1));
        if (records_in(file) != kept + 1) return 5;
        {
            Database other((disk / "other.db").string());
            const std::string merged = refusal([&] { merge(other, db); });
            if (merged == "no error" || !other.tasks().empty()) return 6; // all or nothing
        }
        remove_database((disk / "other.db").string());
        const PruneCount pruned = prune(db, {.keep = 5});
        if (pruned.left != 5) return 8;
        if (records_in(file) != 5) return 9;
        return 0;
    }));
    if (status == 77) {
        MESSAGE("left out: no right to mount a file system");
        return;
    }
    CHECK(status == 0);
}

TEST_CASE("a file and a folder that may not be written can be read") {
    const std::filesystem::path shut = folder() / "shut";
    std::filesystem::remove_all(shut);
    std::filesystem::create_directories(shut);
    const std::string good = filled("open.db", 3), file = (shut / "shut.db").string();
    std::filesystem::copy_file(good, file);
    chmod(file.c_str(), 0444);
    chmod(shut.c_str(), 0555);
    const int status = status_of(in_child([&] { // permissions bind no superuser
        if (geteuid() == 0 && setuid(65534) != 0) return 77;
        if (access(file.c_str(), R_OK) != 0) return 77;
        if (records_in(file) != 3) return 1;
        const std::string there = refusal([&] { Database db(file); });
        if (!has(there, "shut.db is read-only: results cannot be stored in it") && !has(there, "cannot be opened"))
            return 2;
        const std::string fresh = refusal([&] { Database db((shut / "new.db").string()); });
        if (!has(fresh, "new.db cannot be opened")) return 3;
        // before anything is measured
        const std::string tuned = refusal([&] { tune_small(file, 3, 1); });
        return has(tuned, "shut.db") ? 0 : 4;
    }));
    chmod(shut.c_str(), 0755);
    if (status == 77) {
        MESSAGE("left out: the folder cannot be reached as another user");
        return;
    }
    CHECK(status == 0);
}
