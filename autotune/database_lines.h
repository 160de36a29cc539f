// A tuning database as JSON lines: a header, {"kumiko": "tuning records", "version": 2, "records":
// 120}, then one record per line, with everything the database has about it and its task.
#pragma once

#include "autotune/database_merge.h"

#include <iosfwd>

namespace kumiko {

// Writes all records of a consistent snapshot, task by task, oldest first.
void write_lines(const Database &from, std::ostream &out);

// Merges the records of the lines into the database, all or none. `document` names the input in
// messages. Throws UserError with line and cause: missing header, newer version, a line that is not
// a record of this version, a schedule of a newer version, or a number of lines that differs from
// the header (which may omit it).
MergeCount merge_lines(Database &into, std::istream &in, const std::string &document);

} // namespace kumiko
