#include "autotune/sqlite.h"

#include "support/duration.h"
#include "support/error.h"

#include <chrono>
#include <filesystem>
#include <thread>

namespace kumiko {

void throw_sqlite(sqlite3 *connection, int code, const std::string &path, double lock_timeout) {
    const std::string file = "the tuning database " + path,
                      detail = connection ? sqlite3_errmsg(connection) : sqlite3_errstr(code);
    switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        throw UserError(file + " is locked: another program has held it for more than " + duration_text(lock_timeout) +
                        "; end that program, or try again when it is done");
    case SQLITE_READONLY:
        throw UserError(file + " is read-only: results cannot be stored in it (" + detail +
                        "); make it and its folder writable, or name another");
    case SQLITE_NOTADB:
        throw UserError(path + " is not a tuning database: it is not an SQLite file; name another, or remove it");
    case SQLITE_CORRUPT:
        throw UserError(file + " is damaged (" + detail + "); restore a copy of it, or remove it and tune again");
    // SQLite distinguishes a full disk from a file size limit only by the system's error.
    case SQLITE_IOERR:
        switch (code) {
        case SQLITE_IOERR_WRITE:
        case SQLITE_IOERR_FSYNC:
        case SQLITE_IOERR_TRUNCATE:
        case SQLITE_IOERR_SHMSIZE:
            throw UserError(file + " cannot grow (" + detail +
                            "): the disk may be full, or files be limited in size; earlier results are still there");
        default:
            throw UserError(file + " cannot be read or written (" + detail + ")");
        }
    case SQLITE_FULL:
        throw UserError("the disk is full: " + file + " cannot grow; earlier results are still there");
    case SQLITE_CANTOPEN:
        if (std::error_code error; std::filesystem::exists(path, error))
            throw UserError(file + " is there, but cannot be opened (" + detail +
                            "): no permission, or its file system is read-only; name another file for results");
        throw UserError(file + " cannot be opened (" + detail +
                        "); there may be no such file or folder, or no permission");
    case SQLITE_PERM:
    case SQLITE_AUTH:
        throw UserError(file + " cannot be opened: no permission (" + detail + ")");
    default:
        throw UserError(file + ": " + detail);
    }
}

void Connection::run(const char *sql) {
    const int code = sqlite3_exec(handle, sql, nullptr, nullptr, nullptr);
    if (code != SQLITE_OK) throw_sqlite(handle, code, path, lock_timeout);
}

void Connection::run_patiently(const char *sql) {
    const Stopwatch watch;
    while (true) {
        const int code = sqlite3_exec(handle, sql, nullptr, nullptr, nullptr);
        if (code == SQLITE_OK) return;
        if ((code & 0xff) != SQLITE_BUSY || watch.seconds() >= lock_timeout)
            throw_sqlite(handle, code, path, lock_timeout);
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
}

int64_t Connection::integer(const char *sql) {
    Statement s(*this, sql);
    return s.next() ? s.integer(0) : 0;
}

} // namespace kumiko
