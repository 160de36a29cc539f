// The tuning database: a single SQLite file that any number of sessions can use concurrently. A
// session can be killed at any time.
//
// Every candidate is a row of `records` and belongs to a task (formula, sizes, machine, threads).
// Each row is written in its own transaction, in SQLite's write-ahead log, so an interrupted
// session loses at most the candidate being measured.
//
// The file identifies itself (application_id) and its format (user_version). A file of an older
// format is migrated in one transaction when it is opened for writing; opened for reading, it is
// read as it is. Errors are UserErrors with the file and the cause: not a database, another
// program's database, a newer format, locked by another session beyond the time-out, read-only,
// corrupt, disk full.
#pragma once

#include "autotune/record.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace kumiko {

// A task as stored in the database; the op itself is not stored.
struct DatabaseTask {
    TaskKey key;
    std::string formula; // for display
    Boxed<Json> tensors; // name, type and shape of inputs and outputs
};

// A tuning database file, opened for reading, or for reading and writing.
class Database {
public:
    static constexpr int format_version = 2;

    enum class Mode {
        ReadWrite, // created if it does not exist
        Read,      // must exist
    };
    // `lock_timeout`: seconds to wait for another session's lock. ":memory:" is a private database.
    explicit Database(const std::string &path, Mode mode = Mode::ReadWrite, double lock_timeout = 10);
    ~Database();
    Database(Database &&) noexcept;
    Database &operator=(Database &&) noexcept;

    // Adds a record. If there is one for the same task and schedule, stores their merged() record
    // (database_merge.h).
    void add(const Op &op, const Record &record);
    void add(const DatabaseTask &task, const Record &record);
    // The same, but replaces an existing record unconditionally.
    void replace(const Op &op, const Record &record);
    void replace(const DatabaseTask &task, const Record &record);
    static DatabaseTask task_of(const Op &op, const TaskKey &key);
    // Stores the result of the last comparison; nullopt for a candidate that was not compared.
    void set_final(const TaskKey &key, const std::string &schedule_hash, std::optional<double> seconds);

    // Removes a record, and its task if it was the last one.
    void remove(const Record &record);
    // Runs f in one transaction: if f throws, nothing is written.
    void in_transaction(const std::function<void()> &f);
    // Runs f on a consistent snapshot, regardless of concurrent writers. f must not write.
    void with_snapshot(const std::function<void()> &f) const;
    // Returns the space of removed records to the disk. Not inside in_transaction().
    void compact();

    // All records of a task, oldest first. `machine` is set in the records, because the database
    // stores only its id.
    std::vector<Record> records(const TaskKey &key, const Machine &machine) const;
    // Records written or rewritten after row `row`, which is advanced to the last one; 0 for all.
    // Changes by set_final() are not reported.
    std::vector<Record> records_since(int64_t &row, const TaskKey &key, const Machine &machine) const;
    // The best of the records that were compared side by side; if there are none, the best single
    // measurement.
    std::optional<Record> best(const TaskKey &key, const Machine &machine) const;

    // The record for the same task and schedule.
    std::optional<Record> find(const Record &like) const;

    struct TaskSummary : DatabaseTask {
        int records = 0, ok = 0;
        double best_seconds = 0; // 0: none
    };
    std::vector<TaskSummary> tasks() const;
    // Visits everything, task by task, oldest first, with one record in memory at a time. Records
    // have an empty machine, except for the id in the key.
    void for_each(const std::function<void(const TaskSummary &, const Record &)> &f) const;

    const std::string &path() const;
    // The format of the file; less than format_version if an older file was opened for reading.
    int version() const;

private:
    struct Contents;
    std::unique_ptr<Contents> contents_;
};

} // namespace kumiko
