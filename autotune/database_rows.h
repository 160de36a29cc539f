// Private to autotune: rows of a tuning database's tables, as structs.
#pragma once

#include "autotune/database.h"
#include "autotune/database_format.h"

#include <string>

namespace kumiko {

std::string sizes_text(const Sizes &sizes);
// What tells the record from others of its task: the hash of its schedule, or, when it has none, its parameters.
std::string row_hash(const Record &record);

// op_hash, sizes, machine, threads
void bind_key(Statement &s, const TaskKey &key);
// features_version, features
void bind_features(Statement &s, const Features &features);

// From the columns of record_columns(). Throws UserError for what no Kumiko wrote.
Record read_record(const Connection &c, const Statement &s, const TaskKey &key, const Machine &machine);

inline const char *const task_columns = "t.op, t.op_hash, t.sizes, t.machine, t.threads, t.formula, t.tensors";
// From those columns.
DatabaseTask read_task(const Connection &c, const Statement &s);

} // namespace kumiko
