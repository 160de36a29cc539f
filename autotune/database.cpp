#include "autotune/database.h"

#include "autotune/sqlite.h"

#include <ctime>
#include <filesystem>

namespace kumiko {

namespace {

constexpr int64_t application_id = 0x4b756d6b; // "Kumk"

const char *const schema = R"(
CREATE TABLE tasks (
    id       INTEGER PRIMARY KEY,
    op       TEXT NOT NULL,
    op_hash  TEXT NOT NULL,
    sizes    TEXT NOT NULL,   -- JSON: the symbolic sizes as bound
    machine  TEXT NOT NULL,   -- Machine::id()
    threads  INTEGER NOT NULL,
    formula  TEXT NOT NULL,   -- for people
    tensors  TEXT NOT NULL,   -- JSON: name, type and shape of inputs and outputs
    UNIQUE (op_hash, sizes, machine, threads)
);
CREATE TABLE records (
    id            INTEGER PRIMARY KEY,
    task          INTEGER NOT NULL REFERENCES tasks (id),
    template      TEXT NOT NULL,
    parameters    TEXT NOT NULL,   -- JSON
    schedule_hash TEXT NOT NULL,
    schedule      TEXT NOT NULL,   -- JSON, the saved schedule; 'null' when there is none
    outcome       TEXT NOT NULL,
    reason        TEXT NOT NULL,
    least         REAL,            -- seconds
    median        REAL,
    spread        REAL,
    samples       INTEGER,
    final_seconds REAL,
    build_seconds REAL NOT NULL,
    features_version INTEGER NOT NULL DEFAULT 0,
    features      BLOB,
    seed          INTEGER NOT NULL,
    created       TEXT NOT NULL,
    UNIQUE (task, schedule_hash)
);
)";

std::string sizes_text(const Sizes &sizes) { return nlohmann::json(sizes).dump(); }

std::string now_text() {
    const std::time_t now = std::time(nullptr);
    std::tm utc{};
    gmtime_r(&now, &utc);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
    return text;
}

std::string tensors_text(const Op &op, const Sizes &sizes) {
    nlohmann::json tensors = nlohmann::json::array();
    for (const Input &input : op.inputs()) {
        tensors.push_back(
            {{"name", input.name}, {"type", type_name(input.type)}, {"shape", evaluate_extents(input.axes, sizes)}});
    }
    for (const std::string &output : op.outputs()) {
        const Buffer<> b = make_output(op, output, sizes);
        tensors.push_back({{"name", output}, {"type", type_name(b.type())}, {"shape", b.extents()}});
    }
    return tensors.dump();
}

// A record that could not even be scheduled has no schedule; its parameters tell it from others.
std::string hash_of(const Record &record) {
    return record.schedule_hash.empty() ? "parameters:" + record.parameters.dump() : record.schedule_hash;
}

nlohmann::json parse(const Connection &c, const std::string &text) {
    try {
        return nlohmann::json::parse(text);
    } catch (const nlohmann::json::exception &e) {
        throw UserError("the tuning database " + c.path + " holds a record that is not JSON: " + e.what());
    }
}

void bind_key(Statement &s, const TaskKey &key) {
    s.bind(key.op_hash).bind(sizes_text(key.sizes)).bind(key.machine).bind(static_cast<int64_t>(key.threads));
}

const char *const columns = "r.template, r.parameters, r.schedule_hash, r.schedule, r.outcome, r.reason, r.least, "
                            "r.median, r.spread, r.samples, "
                            "r.final_seconds, r.build_seconds, r.seed, r.created";

Record read_record(const Connection &c, const Statement &s, const TaskKey &key, const Machine &machine) {
    Record r;
    r.key = key;
    r.machine = machine;
    r.library_template = s.text(0);
    r.parameters = Json(parse(c, s.text(1)));
    r.schedule_hash = s.text(2);
    r.saved_schedule = parse(c, s.text(3));
    if (r.saved_schedule.is_null()) r.schedule_hash.clear();
    r.outcome = outcome_from_name(s.text(4));
    r.reason = s.text(5);
    r.timing = {s.real(6), s.real(7), s.real(8), static_cast<int>(s.integer(9))};
    if (!s.null(10)) r.final_seconds = s.real(10);
    r.build_seconds = s.real(11);
    r.seed = static_cast<uint64_t>(s.integer(12));
    r.created = s.text(13);
    return r;
}

} // namespace

struct Database::Contents {
    mutable Connection connection;
    Mode mode = Mode::ReadWrite;

    // Begins a transaction that will write, so that two sessions wait for each other rather than fail half way.
    template<typename F>
    void write(F f) {
        if (mode == Mode::Read)
            throw UserError("the tuning database " + connection.path +
                            " is open for reading only: results cannot be kept in it");
        connection.run("BEGIN IMMEDIATE");
        try {
            f();
            connection.run("COMMIT");
        } catch (...) {
            sqlite3_exec(connection.handle, "ROLLBACK", nullptr, nullptr, nullptr);
            throw;
        }
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

    // The first read is what finds out that a file is no database, and, in a folder that cannot be written, that the
    // log's companion files cannot be made: a reader then takes the file as it is.
    int64_t id = 0;
    try {
        id = c.integer("PRAGMA application_id");
        c.integer("SELECT count(*) FROM sqlite_schema");
    } catch (const UserError &) {
        const int code = sqlite3_errcode(c.handle) & 0xff;
        if (mode != Mode::Read || (code != SQLITE_CANTOPEN && code != SQLITE_READONLY)) throw;
        sqlite3_close_v2(c.handle);
        c.handle = nullptr;
        const std::string uri = "file:" + path + "?immutable=1";
        c.check(sqlite3_open_v2(uri.c_str(), &c.handle, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI, nullptr));
        id = c.integer("PRAGMA application_id");
    }
    const int64_t tables = c.integer("SELECT count(*) FROM sqlite_schema"), version = c.integer("PRAGMA user_version");
    if (id != application_id && (id != 0 || tables > 0)) {
        throw UserError(path + " is not a tuning database: it is another program's SQLite file; name another");
    }
    if (version > format_version) {
        throw UserError("the tuning database " + path + " has format version " + std::to_string(version) +
                        ", newer than " + std::to_string(format_version) +
                        ", the newest that this Kumiko reads; use a newer Kumiko, or another database");
    }
    if (tables == 0) {
        if (mode == Mode::Read) throw UserError(path + " is not a tuning database: it is empty");
        c.run("PRAGMA journal_mode = WAL");
        contents_->write([&] {
            // Another session may have made the tables meanwhile.
            if (c.integer("SELECT count(*) FROM sqlite_schema") > 0) return;
            c.run(schema);
            c.run(("PRAGMA application_id = " + std::to_string(application_id)).c_str());
            c.run(("PRAGMA user_version = " + std::to_string(format_version)).c_str());
        });
    }
    if (mode == Mode::ReadWrite) {
        c.run("PRAGMA synchronous = NORMAL");
        c.run("PRAGMA foreign_keys = ON");
        // Whether it can be written at all is better known before an hour of measuring than after.
        contents_->write([&] { c.run(("PRAGMA user_version = " + std::to_string(format_version)).c_str()); });
    }
}

Database::~Database() = default;
Database::Database(Database &&) noexcept = default;
Database &Database::operator=(Database &&) noexcept = default;

const std::string &Database::path() const { return contents_->connection.path; }

void Database::add(const Op &op, const Record &r) {
    Connection &c = contents_->connection;
    contents_->write([&] {
        {
            Statement s(c, "INSERT INTO tasks (op_hash, sizes, machine, threads, op, formula, tensors) VALUES (?, ?, "
                           "?, ?, ?, ?, ?) "
                           "ON CONFLICT DO NOTHING");
            bind_key(s, r.key);
            s.bind(op.name()).bind(op.to_string()).bind(tensors_text(op, r.key.sizes)).next();
        }
        Statement find(c, "SELECT id FROM tasks WHERE op_hash = ? AND sizes = ? AND machine = ? AND threads = ?");
        bind_key(find, r.key);
        find.next();
        Statement s(c, "INSERT OR REPLACE INTO records (task, template, parameters, schedule_hash, schedule, outcome, "
                       "reason, least, median, "
                       "spread, samples, final_seconds, build_seconds, seed, created) VALUES (?, ?, ?, ?, ?, ?, ?, ?, "
                       "?, ?, ?, ?, ?, ?, ?)");
        s.bind(find.integer(0))
            .bind(r.library_template)
            .bind(r.parameters.dump())
            .bind(hash_of(r))
            .bind(r.saved_schedule.dump());
        s.bind(outcome_name(r.outcome)).bind(r.reason);
        if (r.outcome == Outcome::Ok) {
            s.bind(r.timing.least)
                .bind(r.timing.median)
                .bind(r.timing.spread)
                .bind(static_cast<int64_t>(r.timing.samples));
        } else {
            for (int i = 0; i < 4; i++) s.bind(std::nullopt);
        }
        if (r.final_seconds)
            s.bind(*r.final_seconds);
        else
            s.bind(std::nullopt);
        s.bind(r.build_seconds)
            .bind(static_cast<int64_t>(r.seed))
            .bind(r.created.empty() ? now_text() : r.created)
            .next();
    });
}

void Database::set_final(const TaskKey &key, const std::string &schedule_hash, double seconds) {
    Connection &c = contents_->connection;
    contents_->write([&] {
        Statement s(c, "UPDATE records SET final_seconds = ? WHERE schedule_hash = ? AND task = "
                       "(SELECT id FROM tasks WHERE op_hash = ? AND sizes = ? AND machine = ? AND threads = ?)");
        s.bind(seconds).bind(schedule_hash);
        bind_key(s, key);
        s.next();
    });
}

std::vector<Record> Database::records(const TaskKey &key, const Machine &machine) const {
    Connection &c = contents_->connection;
    const std::string sql = std::string("SELECT ") + columns +
                            " FROM records r JOIN tasks t ON r.task = t.id WHERE t.op_hash = ? AND t.sizes = ? AND "
                            "t.machine = ? AND t.threads = ? "
                            "ORDER BY r.id";
    Statement s(c, sql.c_str());
    bind_key(s, key);
    std::vector<Record> all;
    while (s.next()) all.push_back(read_record(c, s, key, machine));
    return all;
}

std::optional<Record> Database::best(const TaskKey &key, const Machine &machine) const {
    Connection &c = contents_->connection;
    const std::string sql = std::string("SELECT ") + columns +
                            " FROM records r JOIN tasks t ON r.task = t.id WHERE t.op_hash = ? AND t.sizes = ? AND "
                            "t.machine = ? AND t.threads = ? "
                            "AND r.outcome = 'ok' ORDER BY r.final_seconds IS NULL, r.final_seconds, r.least LIMIT 1";
    Statement s(c, sql.c_str());
    bind_key(s, key);
    if (!s.next()) return std::nullopt;
    return read_record(c, s, key, machine);
}

std::vector<Database::TaskSummary> Database::tasks() const {
    Connection &c = contents_->connection;
    Statement s(c,
                "SELECT t.op, t.op_hash, t.sizes, t.machine, t.threads, t.formula, count(r.id), sum(r.outcome = 'ok'), "
                "min(coalesce(r.final_seconds, r.least)) FROM tasks t LEFT JOIN records r ON r.task = t.id GROUP BY "
                "t.id ORDER BY t.id");
    std::vector<TaskSummary> all;
    while (s.next()) {
        TaskSummary t;
        t.key = {s.text(0), s.text(1), parse(c, s.text(2)).get<Sizes>(), s.text(3), static_cast<int>(s.integer(4))};
        t.formula = s.text(5);
        t.records = static_cast<int>(s.integer(6));
        t.ok = static_cast<int>(s.integer(7));
        t.best_seconds = s.real(8);
        all.push_back(std::move(t));
    }
    return all;
}

} // namespace kumiko
