// Internal to autotune: rows of the database's tables as structs.
#pragma once

#include "autotune/database.h"
#include "autotune/database_format.h"

#include <string>

namespace kumiko {

std::string sizes_text(const Sizes &sizes);
// The key of a record within its task: the hash of its schedule, or its parameters if it has none.
std::string row_hash(const Record &record);

// op_hash, sizes, machine, threads
void bind_key(Statement &s, const TaskKey &key);
// features_version, features
void bind_features(Statement &s, const Features &features);

// Reads the columns of record_columns(). Throws UserError for values that Kumiko does not write.
Record read_record(const Connection &c, const Statement &s, const TaskKey &key, const Machine &machine);

inline const char *const task_columns = "t.op, t.op_hash, t.sizes, t.machine, t.threads, t.formula, t.tensors";
// Reads these columns.
DatabaseTask read_task(const Connection &c, const Statement &s);

} // namespace kumiko
