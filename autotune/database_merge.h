// Merges records of one database into another.
#pragma once

#include "autotune/database.h"

namespace kumiko {

struct MergeCount {
    int added = 0;  // new candidates
    int better = 0; // candidates with new or better information
    int same = 0;   // nothing new

    int all() const { return added + better + same; }
    MergeCount &operator+=(const MergeCount &other);
};

// Merges two records of one candidate. A good record wins over a failed one, unless the failed one
// is later and reports wrong results. A comparison side by side wins over a single measurement,
// then the faster one. Of two failures, the later one wins. Fields that the winner lacks (features,
// estimate, score, origin) come from the other.
Record merged(const Record &a, const Record &b);

// Adds the record, or merges it with the existing one.
MergeCount merge(Database &into, const DatabaseTask &task, const Record &record);
// Merges all records in one transaction, all or none. Also throws UserError if both are the same
// file.
MergeCount merge(Database &into, const Database &from);

} // namespace kumiko
