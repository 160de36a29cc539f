// Statistics of a tuning database, and pruning.
#pragma once

#include "autotune/database.h"

#include <map>

namespace kumiko {

struct DatabaseStats {
    int version = 0;
    int64_t bytes = 0; // of the file and its log
    std::vector<Database::TaskSummary> tasks;
    std::map<std::string, int> machines; // id → records
    std::map<std::string, int> outcomes; // name → records
    // "model" → records; "" for records from before origins were stored.
    std::map<std::string, int> origins;
    int records = 0, trials = 0; // trials: records that were built and measured
    int with_features = 0;       // with current feature versions, usable to train cost models
    std::string oldest, newest;  // creation times; "" if there are no records

    Json json() const;
};

// Formats DatabaseTask::tensors: "A: f32 64 × 64, B: …".
std::string tensors_text(const Json &tensors);

DatabaseStats database_stats(const Database &database);

struct PruneOptions {
    // Selects records: those that match both filters.
    // Id, for all its records, or KeyMachine::text(); empty: every machine.
    std::string machine;
    double older_than_days = 0; // 0: any age
    // Which of them to remove. If neither is set, all.
    // Removes all but this number of the fastest per task; failed records are not counted and stay.
    std::optional<int> keep;
    bool failed = false; // removes failed records

    bool dry_run = false; // only counts
    std::string now;      // "2026-11-21T09:30:00Z"; empty: the current time
};

struct PruneCount {
    int removed = 0, left = 0;
    int tasks_removed = 0;     // tasks without remaining records
    std::string not_compacted; // why the file could not be compacted; new records reuse the space
};

// Removes records, all or none, and compacts the file. Throws UserError if the options select
// nothing specific (that would remove everything), or a machine that is not in the database.
PruneCount prune(Database &database, const PruneOptions &options);

} // namespace kumiko
