// What a tuning database holds, in numbers, and how it is kept small.
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
    std::map<std::string, int> origins;  // "model" → records; "" for those of before it was kept
    int records = 0, trials = 0;         // trials: those that were built and measured
    int with_features = 0;               // of this Kumiko's versions: what cost models learn from
    std::string oldest, newest;          // when records were made; empty: there are none

    Json json() const;
};

// Of DatabaseTask::tensors: "A: f32 64 × 64, B: …".
std::string tensors_text(const Json &tensors);

DatabaseStats database_stats(const Database &database);

struct PruneOptions {
    // Which records it is about: all that fit both.
    std::string machine;        // id, for all that it measured, or KeyMachine::text(); empty: every machine
    double older_than_days = 0; // 0: any age
    // Which of them go. With neither, all of them.
    std::optional<int>
        keep; // those that are not among the fastest so many of their task; failed ones are not counted, and stay
    bool failed = false; // those that failed

    bool dry_run = false; // only count
    std::string now;      // "2026-11-21T09:30:00Z"; empty: by the clock
};

struct PruneCount {
    int removed = 0, left = 0;
    int tasks_removed = 0; // of which no record is left
    std::string as_large;  // why the file could not be made smaller; new records use the room
};

// Removes records, all or nothing, and makes the file smaller. Throws UserError when the options name nothing (which
// would be everything), or a machine that the database does not know.
PruneCount prune(Database &database, const PruneOptions &options);

} // namespace kumiko
