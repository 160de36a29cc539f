// A tuning database as JSON lines: a header, {"kumiko": "tuning records", "version": 2, "records": 120}, then one record
// a line with everything that the database knows of it and of its task.
#pragma once

#include "autotune/database_merge.h"

#include <iosfwd>

namespace kumiko {

// Every record of one moment, task by task, oldest first.
void write_lines(const Database &from, std::ostream &out);

// Merges the records of the lines into the database, all or nothing. `document` names the text in messages. Throws
// UserError with line and cause: no header, one of a newer version, a line that is no record of this version, a schedule
// of a newer version, fewer or more lines than the header says (a header may leave the number out).
MergeCount merge_lines(Database &into, std::istream &in, const std::string &document);

} // namespace kumiko
