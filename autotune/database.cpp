#include "autotune/database.h"

#include "autotune/database_merge.h"
#include "autotune/database_rows.h"

#include <ctime>
#include <filesystem>
#include <optional>
#include <sys/stat.h>

namespace kumiko {

namespace {

std::string now_text() {
    const std::time_t now = std::time(nullptr);
    std::tm utc{};
    gmtime_r(&now, &utc);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
    return text;
}

Json describe_tensors(const Op &op, const Sizes &sizes) {
    Json tensors = Json::array();
    for (const Input &input : op.inputs()) {
        tensors.push_back(
            {{"name", input.name}, {"type", type_name(input.type)}, {"shape", evaluate_extents(input.axes, sizes)}});
    }
    for (const std::string &output : op.outputs()) {
        const Stage &s = op.stage(output);
        tensors.push_back({{"name", output}, {"type", type_name(s.type)}, {"shape", evaluate_extents(s.axes, sizes)}});
    }
    return tensors;
}

const char *const of_task = " FROM records r JOIN tasks t ON r.task = t.id WHERE t.op_hash = ? AND t.sizes = ? AND "
                            "t.machine = ? AND t.threads = ? ";

} // namespace

struct Database::Contents {
    mutable Connection connection;
    Mode mode = Mode::ReadWrite;

    int version = database_format_version; // of the file
    bool writing = false, reading = false;
    std::optional<std::pair<dev_t, ino_t>> file; // identity of a file opened for writing
    std::string place;                           // its absolute path

    // Runs f in a transaction that locks the database for writing from the start, so that two
    // sessions wait for each other instead of failing halfway. Inside another transaction, f
    // becomes part of it.
    template<typename F>
    void write(F f) {
        if (mode == Mode::Read)
            throw UserError("the tuning database " + connection.path +
                            " is open for reading only, so it cannot store results");
        if (writing) return f();
        require_in_place();
        connection.run("BEGIN IMMEDIATE");
        writing = true;
        try {
            // A newer program may have migrated the file since it was opened.
            if (const int64_t now = connection.integer("PRAGMA user_version"); now > format_version) throw_newer(now);
            f();
            connection.run("COMMIT");
            writing = false;
        } catch (...) {
            writing = false;
            sqlite3_exec(connection.handle, "ROLLBACK", nullptr, nullptr, nullptr);
            throw;
        }
    }

    // Throws if the file was removed or replaced, because later writes would be lost.
    void require_in_place() const {
        struct stat now {};
        if (file && (stat(place.c_str(), &now) != 0 || std::pair(now.st_dev, now.st_ino) != *file))
            throw UserError("the tuning database " + connection.path +
                            " was removed or replaced by another while it was in use; its records are in the file that "
                            "was moved away, if any, and the same command begins a new database");
    }

    // Inside either kind of transaction, f becomes part of it.
    template<typename F>
    void read(F f) {
        if (writing || reading) return f();
        connection.run("BEGIN");
        reading = true;
        const auto end = [&] { // a read-only transaction has nothing to commit
            reading = false;
            sqlite3_exec(connection.handle, "ROLLBACK", nullptr, nullptr, nullptr);
        };
        try {
            f();
        } catch (...) {
            end();
            throw;
        }
        end();
    }

    [[noreturn]] void throw_newer(int64_t version) const {
        throw UserError("the tuning database " + connection.path + " has format version " + std::to_string(version) +
                        ", newer than " + std::to_string(format_version) +
                        ", the newest that this Kumiko reads; use a newer Kumiko, or another database");
    }

    // Creates the tables of a new file, or migrates an old one, unless another session has already
    // done it. This also detects a file that cannot be written before hours of measuring.
    void make_current() {
        Connection &c = connection;
        write([&] {
            if (c.integer("SELECT count(*) FROM sqlite_schema") == 0) create_tables(c);
            int64_t now = c.integer("PRAGMA user_version");
            for (; now < format_version; now++) {
                for (const std::string &sql : migration_from(static_cast<int>(now))) c.run(sql.c_str());
            }
            c.run(("PRAGMA user_version = " + std::to_string(format_version)).c_str());
        });
        version = format_version;
    }
};

Database::Database(const std::string &path, Mode mode, double lock_timeout) : contents_(std::make_unique<Contents>()) {
    Connection &c = contents_->connection;
    contents_->mode = mode;
    c.path = path;
    c.lock_timeout = lock_timeout;
    std::error_code error;
    if (std::filesystem::is_directory(path, error)) throw UserError(path + " is a folder, not a tuning database");
    if (mode == Mode::Read && path != ":memory:" && !std::filesystem::exists(path, error)) {
        throw UserError("there is no tuning database " + path + "; tuning makes one");
    }
    const int flags = mode == Mode::Read ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    c.check(sqlite3_open_v2(path.c_str(), &c.handle, flags | SQLITE_OPEN_NOMUTEX, nullptr));
    sqlite3_extended_result_codes(c.handle, 1);
    sqlite3_busy_timeout(c.handle, static_cast<int>(lock_timeout * 1000));

    // The first read detects files that are not databases. In a read-only folder it detects that
    // the log's companion files cannot be created: a reader then opens the file as immutable.
    try {
        c.integer("PRAGMA application_id");
        c.integer("SELECT count(*) FROM sqlite_schema");
    } catch (const UserError &) {
        const int code = sqlite3_errcode(c.handle) & 0xff;
        if (mode != Mode::Read || (code != SQLITE_CANTOPEN && code != SQLITE_READONLY)) throw;
        sqlite3_close_v2(c.handle);
        c.handle = nullptr;
        const std::string uri = "file:" + path + "?immutable=1";
        c.check(sqlite3_open_v2(uri.c_str(), &c.handle, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI, nullptr));
        c.integer("PRAGMA application_id");
    }
    c.run("BEGIN"); // consistent snapshot: another session may be creating the file
    const int64_t id = c.integer("PRAGMA application_id"), tables = c.integer("SELECT count(*) FROM sqlite_schema"),
                  version = c.integer("PRAGMA user_version");
    c.run("COMMIT");
    if (id != database_application_id && (id != 0 || tables > 0)) {
        throw UserError(path + " is not a tuning database: it is another program's SQLite file; name another");
    }
    if (version > format_version) contents_->throw_newer(version);
    contents_->version = static_cast<int>(version);
    if (mode == Mode::Read) {
        if (tables == 0) throw UserError(path + " is not a tuning database: it is empty");
        if (version < 1) throw UserError(path + " is not a tuning database: it states no format version");
        return;
    }
    // Another session may do the same.
    if (tables == 0) c.run_patiently("PRAGMA journal_mode = WAL");
    c.run("PRAGMA synchronous = NORMAL");
    c.run("PRAGMA foreign_keys = ON");
    contents_->make_current();
    if (struct stat now{}; path != ":memory:" && stat(path.c_str(), &now) == 0)
        contents_->file = {now.st_dev, now.st_ino}, contents_->place = std::filesystem::absolute(path).string();
}

Database::~Database() = default;
Database::Database(Database &&) noexcept = default;
Database &Database::operator=(Database &&) noexcept = default;

const std::string &Database::path() const { return contents_->connection.path; }
int Database::version() const { return contents_->version; }

void Database::in_transaction(const std::function<void()> &f) { contents_->write(f); }
void Database::with_snapshot(const std::function<void()> &f) const { contents_->read(f); }

DatabaseTask Database::task_of(const Op &op, const TaskKey &key) {
    return {key, op.to_string(), describe_tensors(op, key.sizes)};
}

void Database::add(const Op &op, const Record &r) { add(task_of(op, r.key), r); }

void Database::add(const DatabaseTask &task, const Record &record) {
    Record r = record;
    if (r.created.empty()) r.created = now_text();
    contents_->write([&] {
        const auto known = find(r);
        replace(task, known ? merged(*known, r) : r);
    });
}

void Database::replace(const Op &op, const Record &r) { replace(task_of(op, r.key), r); }

void Database::replace(const DatabaseTask &task, const Record &r) {
    Connection &c = contents_->connection;
    contents_->write([&] {
        {
            Statement s(
                c, "INSERT INTO tasks (op_hash, sizes, machine, threads, op, formula, tensors) VALUES (?, ?, ?, ?, "
                   "?, ?, ?) ON CONFLICT DO NOTHING");
            bind_key(s, task.key);
            s.bind(task.key.op).bind(task.formula).bind(task.tensors->dump()).next();
        }
        Statement find(c, "SELECT id FROM tasks WHERE op_hash = ? AND sizes = ? AND machine = ? AND threads = ?");
        bind_key(find, task.key);
        find.next();
        Statement s(c,
                    "INSERT OR REPLACE INTO records (task, template, parameters, schedule_hash, schedule, outcome, "
                    "reason, least, median, spread, samples, final_seconds, build_seconds, seed, created, "
                    "features_version, features, estimated_seconds, predicted, origin) VALUES (?, ?, ?, ?, ?, ?, ?, ?, "
                    "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
        s.bind(find.integer(0)).bind(r.library_template).bind(r.parameters->dump()).bind(row_hash(r));
        s.bind(r.saved_schedule->dump()).bind(outcome_name(r.outcome)).bind(r.reason);
        if (r.outcome == Outcome::Ok)
            s.bind(r.timing.least).bind(r.timing.median).bind(r.timing.spread).bind(int64_t{r.timing.samples});
        else
            for (int i = 0; i < 4; i++) s.bind(std::nullopt);
        s.bind(r.final_seconds).bind(r.build_seconds).bind(static_cast<int64_t>(r.seed));
        s.bind(r.created.empty() ? now_text() : r.created);
        bind_features(s, r.features);
        s.bind(r.estimated_seconds > 0 ? std::optional(r.estimated_seconds) : std::nullopt);
        s.bind(r.predicted).bind(r.origin).next();
    });
}

void Database::set_final(const TaskKey &key, const std::string &schedule_hash, std::optional<double> seconds) {
    Connection &c = contents_->connection;
    contents_->write([&] {
        Statement s(c, "UPDATE records SET final_seconds = ? WHERE schedule_hash = ? AND task = "
                       "(SELECT id FROM tasks WHERE op_hash = ? AND sizes = ? AND machine = ? AND threads = ?)");
        s.bind(seconds).bind(schedule_hash);
        bind_key(s, key);
        s.next();
    });
}

void Database::remove(const Record &r) {
    Connection &c = contents_->connection;
    contents_->write([&] {
        {
            Statement s(c, "DELETE FROM records WHERE schedule_hash = ? AND task = "
                           "(SELECT id FROM tasks WHERE op_hash = ? AND sizes = ? AND machine = ? AND threads = ?)");
            s.bind(row_hash(r));
            bind_key(s, r.key);
            s.next();
        }
        Statement s(c,
                    "DELETE FROM tasks WHERE op_hash = ? AND sizes = ? AND machine = ? AND threads = ? AND NOT EXISTS "
                    "(SELECT 1 FROM records WHERE task = tasks.id)");
        bind_key(s, r.key);
        s.next();
    });
}

void Database::compact() {
    Connection &c = contents_->connection;
    if (contents_->mode == Mode::Read) contents_->write([] {}); // reports the error
    c.run("VACUUM");
    c.run("PRAGMA wal_checkpoint(TRUNCATE)"); // truncates the log
}

std::vector<Record> Database::records(const TaskKey &key, const Machine &machine) const {
    int64_t row = 0;
    return records_since(row, key, machine);
}

// A replaced row gets a new id, larger than all others.
std::vector<Record> Database::records_since(int64_t &row, const TaskKey &key, const Machine &machine) const {
    Connection &c = contents_->connection;
    const std::string sql =
        "SELECT " + record_columns(contents_->version) + ", r.id" + of_task + "AND r.id > ? ORDER BY r.id";
    Statement s(c, sql.c_str());
    bind_key(s, key);
    s.bind(row);
    std::vector<Record> all;
    while (s.next()) {
        all.push_back(read_record(c, s, key, machine));
        row = s.integer(record_column_count);
    }
    return all;
}

std::optional<Record> Database::find(const Record &like) const {
    Connection &c = contents_->connection;
    const std::string sql = "SELECT " + record_columns(contents_->version) + of_task + "AND r.schedule_hash = ?";
    Statement s(c, sql.c_str());
    bind_key(s, like.key);
    s.bind(row_hash(like));
    if (!s.next()) return std::nullopt;
    return read_record(c, s, like.key, like.machine);
}

std::optional<Record> Database::best(const TaskKey &key, const Machine &machine) const {
    Connection &c = contents_->connection;
    const std::string sql = "SELECT " + record_columns(contents_->version) + of_task +
                            "AND r.outcome = 'ok' ORDER BY r.final_seconds IS NULL, r.final_seconds, r.least LIMIT 1";
    Statement s(c, sql.c_str());
    bind_key(s, key);
    if (!s.next()) return std::nullopt;
    return read_record(c, s, key, machine);
}

void Database::for_each(const std::function<void(const TaskSummary &, const Record &)> &f) const {
    Connection &c = contents_->connection;
    const std::string sql = "SELECT " + record_columns(contents_->version) + of_task + "ORDER BY r.id";
    for (const TaskSummary &task : tasks()) {
        Statement s(c, sql.c_str());
        bind_key(s, task.key);
        while (s.next()) f(task, read_record(c, s, task.key, Machine{}));
    }
}

std::vector<Database::TaskSummary> Database::tasks() const {
    Connection &c = contents_->connection;
    const std::string sql =
        std::string("SELECT ") + task_columns +
        ", count(r.id), sum(r.outcome = 'ok'), min(coalesce(r.final_seconds, r.least)) FROM tasks t "
        "LEFT JOIN records r ON r.task = t.id GROUP BY t.id ORDER BY t.id";
    Statement s(c, sql.c_str());
    std::vector<TaskSummary> all;
    while (s.next()) {
        TaskSummary t{read_task(c, s)};
        t.records = static_cast<int>(s.integer(7));
        t.ok = static_cast<int>(s.integer(8));
        t.best_seconds = s.real(9);
        all.push_back(std::move(t));
    }
    return all;
}

} // namespace kumiko
