// Internal to autotune: SQLite statements that throw.
#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <sqlite3.h>
#include <string>

namespace kumiko {

// Converts the connection's last error to a UserError about the file.
[[noreturn]] void throw_sqlite(sqlite3 *connection, int code, const std::string &path, double lock_timeout);

struct Connection {
    sqlite3 *handle = nullptr;
    std::string path;
    double lock_timeout = 10;

    Connection() = default;
    Connection(const Connection &) = delete;
    ~Connection() { sqlite3_close_v2(handle); }

    void run(const char *sql);
    // For statements that SQLite rejects immediately if another connection has a lock, without its
    // busy time-out: changing the journal mode.
    void run_patiently(const char *sql);
    void check(int code) {
        if (code != SQLITE_OK && code != SQLITE_ROW && code != SQLITE_DONE)
            throw_sqlite(handle, code, path, lock_timeout);
    }
    // Runs the query. Returns the first column of its first row; 0 if there is no row.
    int64_t integer(const char *sql);
};

// A prepared statement; parameters are bound in order.
class Statement {
public:
    Statement(Connection &connection, const char *sql) : connection_(connection) {
        connection.check(sqlite3_prepare_v2(connection.handle, sql, -1, &handle_, nullptr));
    }
    Statement(const Statement &) = delete;
    ~Statement() { sqlite3_finalize(handle_); }

    Statement &bind(const std::string &text) {
        connection_.check(
            sqlite3_bind_text(handle_, ++bound_, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT));
        return *this;
    }
    Statement &bind(int64_t value) {
        connection_.check(sqlite3_bind_int64(handle_, ++bound_, value));
        return *this;
    }
    Statement &bind(double value) {
        connection_.check(sqlite3_bind_double(handle_, ++bound_, value));
        return *this;
    }
    Statement &bind(std::nullopt_t) {
        connection_.check(sqlite3_bind_null(handle_, ++bound_));
        return *this;
    }

    Statement &bind_bytes(const void *bytes, size_t size) {
        connection_.check(sqlite3_bind_blob(handle_, ++bound_, bytes, static_cast<int>(size), SQLITE_TRANSIENT));
        return *this;
    }
    Statement &bind(const std::optional<double> &value) { return value ? bind(*value) : bind(std::nullopt); }

    // Advances to the next row; false if there is none.
    bool next() {
        const int code = sqlite3_step(handle_);
        connection_.check(code);
        return code == SQLITE_ROW;
    }
    bool null(int column) const { return sqlite3_column_type(handle_, column) == SQLITE_NULL; }
    int64_t integer(int column) const { return sqlite3_column_int64(handle_, column); }
    double real(int column) const { return sqlite3_column_double(handle_, column); }
    std::string text(int column) const {
        const auto *t = reinterpret_cast<const char *>(sqlite3_column_text(handle_, column));
        return t ? std::string(t, sqlite3_column_bytes(handle_, column)) : "";
    }
    std::string bytes(int column) const {
        const auto *b = static_cast<const char *>(sqlite3_column_blob(handle_, column));
        return b ? std::string(b, sqlite3_column_bytes(handle_, column)) : "";
    }

private:
    Connection &connection_;
    sqlite3_stmt *handle_ = nullptr;
    int bound_ = 0;
};

} // namespace kumiko
