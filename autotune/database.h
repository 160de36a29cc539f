// The tuning database: one SQLite file that any number of sessions may use at once, and any of them be killed at any
// moment.
//
// Every candidate is a row of `records`, of a task (formula, sizes, machine, threads). A row is written in a
// transaction of its own in SQLite's write-ahead log, so an interrupted session loses at most the candidate that it was
// measuring.
//
// The file states whose it is (application_id) and of which format (user_version). A file of an older format is changed to
// today's, in one transaction, when it is opened for writing; opened for reading, it is read as it is. Errors are UserErrors that name the
// file and the cause: not a database, another program's database, of a newer format, locked by another session for
// longer than the time-out, read-only, damaged, disk full.
#pragma once

#include "autotune/record.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace kumiko {

// A task as the database describes it: the op itself is not kept.
struct DatabaseTask {
    TaskKey key;
    std::string formula; // for people
    Boxed<Json> tensors; // name, type and shape of inputs and outputs
};

class Database {
public:
    static constexpr int format_version = 2;

    enum class Mode {
        ReadWrite, // made if it does not exist
        Read,      // must exist
    };
    // `lock_timeout`: seconds to wait for another session's lock. ":memory:" is a database of this object alone.
    explicit Database(const std::string &path, Mode mode = Mode::ReadWrite, double lock_timeout = 10);
    ~Database();
    Database(Database &&) noexcept;
    Database &operator=(Database &&) noexcept;

    // Adds the record, or, where there is one of the same task and schedule, what merged() makes of the two (database_merge.h).
    void add(const Op &op, const Record &record);
    void add(const DatabaseTask &task, const Record &record);
    // The same, but an older record goes, whatever it says.
    void replace(const Op &op, const Record &record);
    void replace(const DatabaseTask &task, const Record &record);
    static DatabaseTask task_of(const Op &op, const TaskKey &key);
    // Notes the result of the last comparison; nothing for what took no part in it.
    void set_final(const TaskKey &key, const std::string &schedule_hash, std::optional<double> seconds);

    // Takes a record away, and its task with the last one.
    void remove(const Record &record);
    // What f writes to this database becomes one transaction: nothing of it is kept when f throws.
    void all_or_nothing(const std::function<void()> &f);
    // What f reads of this database is of one moment, whatever other sessions write meanwhile. f must not write to it.
    void at_one_moment(const std::function<void()> &f) const;
    // Gives room that removed records left back to the disk. Not within all_or_nothing().
    void compact();

    // All records of a task, oldest first. `machine` is given to the records: the database knows only its id.
    std::vector<Record> records(const TaskKey &key, const Machine &machine) const;
    // Those that were written, or written anew, since `row`, which becomes the last one; 0 before any was seen. What set_final() notes is no
    // news.
    std::vector<Record> records_since(int64_t &row, const TaskKey &key, const Machine &machine) const;
    // The best of those that were compared side by side, else the best measured once.
    std::optional<Record> best(const TaskKey &key, const Machine &machine) const;

    // The record of the same task and schedule.
    std::optional<Record> find(const Record &like) const;

    struct TaskSummary : DatabaseTask {
        int records = 0, ok = 0;
        double best_seconds = 0; // 0: none
    };
    std::vector<TaskSummary> tasks() const;
    // Everything, task by task, oldest first, one record in memory at a time. Their machine is empty but for the id in the key.
    void for_each(const std::function<void(const TaskSummary &, const Record &)> &f) const;

    const std::string &path() const;
    // The format of the file: less than format_version when an older file was opened for reading.
    int version() const;

private:
    struct Contents;
    std::unique_ptr<Contents> contents_;
};

} // namespace kumiko
