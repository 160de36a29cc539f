// Internal to autotune: the schema of a tuning database, and the migration of older formats.
#pragma once

#include "autotune/sqlite.h"

#include <string>
#include <vector>

namespace kumiko {

inline constexpr int64_t database_application_id = 0x4b756d6b; // "Kumk"
inline constexpr int database_format_version = 2;

// Creates the tables of a new file, inside the caller's transaction.
void create_tables(Connection &c);

// The statements that migrate this version to the next; the last one sets the version. Run them in
// one transaction, so that a crash in between leaves the file unchanged.
std::vector<std::string> migration_from(int version);

// The columns of `records r` in the order of read_record(), record_column_count of them. Columns
// that a file of this version lacks are NULL.
std::string record_columns(int version);
inline constexpr int record_column_count = 19;

} // namespace kumiko
