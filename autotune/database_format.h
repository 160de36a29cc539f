// Private to autotune: what stands in the file of a tuning database, and how a file of an older format becomes one of today's.
#pragma once

#include "autotune/sqlite.h"

#include <string>
#include <vector>

namespace kumiko {

inline constexpr int64_t database_application_id = 0x4b756d6b; // "Kumk"
inline constexpr int database_format_version = 2;

// Makes the tables of a new file, in one transaction of the caller's.
void create_tables(Connection &c);

// The statements that lead from this version to the next, the last of which states it. Run in one transaction: a session that
// dies between two of them leaves the file as it was.
std::vector<std::string> migration_from(int version);

// The columns of `records r` in the order that read_record() takes, so many; those that a file of this version lacks are NULL.
std::string record_columns(int version);
inline constexpr int record_column_count = 19;

} // namespace kumiko
