// Tuning's error messages for impossible requests and unusable databases.
#include "autotune/sqlite.h"
#include "autotune/tune.h"
#include "ops/matmul.h"
#include "schedules/library/space.h"
#include "support/json.h"
#include "tests/database_help.h"
#include "tests/unit/refusal.h"

#include <doctest/doctest.h>

#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace kumiko;
using kumiko::testing::folder;
using kumiko::testing::fresh_file;

namespace {

// Without the folder of the test's files.
template<typename F>
std::string told(F f) {
    std::string text = refusal(f);
    for (size_t at; (at = text.find(folder().string() + "/")) != std::string::npos;)
        text.erase(at, folder().string().size() + 1);
    return text;
}

void run_sql(const std::string &file, const char *sql) {
    Connection c;
    c.path = file;
    REQUIRE(sqlite3_open(file.c_str(), &c.handle) == SQLITE_OK);
    c.run(sql);
}

Op op() { return ops::matmul(Float(32), 8, 8, 8); }

struct None {
    BOOST_HANA_DEFINE_STRUCT(None, (Tile, rows));
};

} // namespace

TEST_CASE("a file that is not a database") {
    const std::string file = fresh_file("text.db");
    std::ofstream(file) << "These are a few lines of text that fill more than the sixteen bytes of a magic number.\n";
    CHECK(told([&] { Database db(file); }) ==
          file.substr(folder().string().size() + 1) +
              " is not a tuning database: it is not an SQLite file; name another, or remove it");
    CHECK(told([&] { Database db(folder().string()); }) == folder().string() + " is a folder, not a tuning database");
}

TEST_CASE("another program's database") {
    const std::string file = fresh_file("other.db");
    run_sql(file, "CREATE TABLE music (title TEXT)");
    CHECK(told([&] { Database db(file); }) ==
          "other.db is not a tuning database: it is another program's SQLite file; name another");
}

TEST_CASE("a database of a newer format") {
    const std::string file = fresh_file("newer.db");
    { Database db(file); }
    run_sql(file, "PRAGMA user_version = 9");
    CHECK(told([&] { Database db(file); }) ==
          "the tuning database newer.db has format version 9, newer than 2, the newest that this Kumiko "
          "reads; use a newer Kumiko, or another database");
}

TEST_CASE("a database that is locked") {
    const std::string file = fresh_file("locked.db");
    { Database db(file); }
    Connection other;
    other.path = file;
    REQUIRE(sqlite3_open(file.c_str(), &other.handle) == SQLITE_OK);
    other.run("BEGIN IMMEDIATE");
    CHECK(told([&] { Database db(file, Database::Mode::ReadWrite, 0.2); }) ==
          "the tuning database locked.db is locked: another program has held it for more than 200 ms; end that "
          "program, or try again when it is done");
    // Reading continues meanwhile.
    CHECK(!best(op(), Machine::host(), file));
}

TEST_CASE("a database that is read-only") {
    const std::string file = fresh_file("readonly.db");
    { Database db(file); }
    Database reader(file, Database::Mode::Read);
    Record r;
    r.key = task_key(op(), Machine::host(), {.threads = 1});
    CHECK(told([&] { reader.add(op(), r); }) ==
          "the tuning database readonly.db is open for reading only, so it cannot store results");

    // Permissions do not apply to root, so the test switches user for a moment.
    const bool root = geteuid() == 0;
    if (root && seteuid(65534) != 0) return;
    const bool reachable = faccessat(AT_FDCWD, folder().c_str(), X_OK, AT_EACCESS) == 0;
    if (root) REQUIRE(seteuid(0) == 0);
    if (!reachable) return;
    chmod(file.c_str(), 0444);
    if (root) REQUIRE(seteuid(65534) == 0);
    const std::string text = told([&] { Database db(file); });
    if (root) REQUIRE(seteuid(0) == 0);
    chmod(file.c_str(), 0644);
    CHECK(text.find("readonly.db is read-only: results cannot be stored in it") != std::string::npos);
    CHECK(text.find("make it and its folder writable, or name another") != std::string::npos);
}

TEST_CASE("a database that is not there") {
    const std::string file = fresh_file("none.db");
    CHECK(told([&] { best(op(), Machine::host(), file); }) == "there is no tuning database none.db; tuning makes one");
    CHECK(told([&] { Database db((folder() / "no/such/folder.db").string()); }).find("cannot be opened") !=
          std::string::npos);
}

TEST_CASE("a damaged database") {
    const std::string file = fresh_file("damaged.db");
    {
        Database db(file);
        Record r;
        r.key = task_key(op(), Machine::host(), {.threads = 1});
        r.parameters = Json::object();
        db.add(op(), r);
    }
    std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(100);
    bytes << std::string(4000, 'x'); // the schema's page
    bytes.close();
    CHECK(told([&] { Database db(file); }).find("damaged.db is damaged") != std::string::npos);
}

TEST_CASE("a full disk: stored records remain, and the session can resume") {
    const std::string file = fresh_file("full.db");
    Database db(file);
    const auto record = [](int n) {
        Record r;
        r.key = task_key(op(), Machine::host(), {.threads = 1});
        r.parameters = {{"n", n}};
        r.saved_schedule = nlohmann::json{{"directives", nlohmann::json::array()}, {"n", n}};
        r.schedule_hash = std::to_string(n);
        return r;
    };
    // A limit on file size simulates a full disk.
    rlimit before{};
    getrlimit(RLIMIT_FSIZE, &before);
    rlimit limit = before;
    limit.rlim_cur = 200000;
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    int kept = 0;
    const std::string text = told([&] {
        for (; kept < 1000; kept++) db.add(op(), record(kept));
    });
    setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, handler);
    CHECK(text.find("the tuning database full.db cannot grow") != std::string::npos);
    CHECK(text.find("disk") != std::string::npos);
    CHECK(text.find("earlier results are still there") != std::string::npos);
    CHECK(kept > 1);
    CHECK(kept < 1000);
    const TaskKey key = task_key(op(), Machine::host(), {.threads = 1});
    CHECK(Database(file).records(key, Machine::host()).size() == static_cast<size_t>(kept));
    db.add(op(), record(kept));
    CHECK(Database(file).records(key, Machine::host()).size() == static_cast<size_t>(kept) + 1);
}

TEST_CASE("a schedule of another op, and a record without one") {
    Record r;
    r.key.op = "matmul";
    r.machine = Machine::host();
    r.saved_schedule = Schedule(ops::matmul(Float(32), 8, 8, 16)).to_json();
    CHECK(told([&] { r.schedule(op()); }).find("is one of op matmul") != std::string::npos);
    r.saved_schedule = nullptr;
    r.outcome = Outcome::Illegal;
    r.reason = "no such loop";
    CHECK(told([&] { r.schedule(op()); }) == "this record of matmul has no schedule: illegal, no such loop");
}

TEST_CASE("ops that cannot be tuned") {
    auto space = make_template<None>(
                     "none", "", [](const Op &) { return true; },
                     [](const Op &, const Machine &) {
                         return None{Tile(4, {1, 2, 4})};
                     },
                     [](const Op &op, const Machine &m, const None &p) -> Schedule {
                         throw UserError("6 registers are too few");
                     })
                     .make_space(op(), Machine::host());
    TuneOptions options;
    options.space = space.get();
    CHECK(told([&] { tune(op(), Machine::host(), CpuTarget::host(), options); }) ==
          "no candidate for matmul is good:\n  3 × illegal: 6 registers are too few");
    options.ahead = true;
    CHECK(told([&] {
              tune(op(), Machine::host(), CpuTarget::host(), options);
          }).starts_with("TuneOptions::space and TuneOptions::ahead exclude each other"));
    options.ahead = false;
    options.trials = 0;
    CHECK(told([&] { tune(op(), Machine::host(), CpuTarget::host(), options); }) ==
          "tuning needs at least one trial, not 0");
    Size n("n");
    Op symbolic = ops::matmul(Float(32), n, 8, 8);
    options.trials = 1;
    CHECK(told([&] { tune(symbolic, Machine::host(), CpuTarget::host(), options); }) ==
          "op matmul is tuned for given sizes: give a value for the size n");
    const Op gaps = ops::matmul(Float(32), 4, 4, 4, {.ldc = Size("ldc")});
    CHECK(told([&] {
              MeasureTask(gaps, {{"ldc", 6}});
          }) ==
          "output C of op matmul has gaps between its rows at these sizes (f32[4, 4] with strides [6, 1]); tune it "
          "where it is dense");
    CHECK_NOTHROW(MeasureTask(gaps, {{"ldc", 4}}));
    MeasureTask task(op(), {});
    CHECK(told([&] { Measurer m(task, {.program = "/nowhere/kumiko_measurer"}); }) ==
          "cannot start the measurer /nowhere/kumiko_measurer: No such file or directory");
    CHECK(told([&] { Measurer m(task, {.program = "/bin/true"}); }) ==
          "cannot use the measurer /bin/true: it does not answer");
}
