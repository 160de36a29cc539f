// Records of one database into another.
#pragma once

#include "autotune/database.h"

namespace kumiko {

struct MergeCount {
    int added = 0;  // candidates that it did not have
    int better = 0; // candidates that it had, of which more or better is now known
    int same = 0;   // nothing to learn

    int all() const { return added + better + same; }
    MergeCount &operator+=(const MergeCount &other);
};

// Of two records of one candidate, what both know. A good one wins over one that failed, unless that one is the later
// and says that results are wrong; one that was compared side by side wins over one that was measured once; then the
// faster; of two that failed, the later. What the winner does not know (features, estimate, score, origin) is the
// other's.
Record merged(const Record &a, const Record &b);

// Adds the record, or merges it with the one that is there.
MergeCount merge(Database &into, const DatabaseTask &task, const Record &record);
// All records, in one transaction: all or nothing. Throws UserError also when both are the same file.
MergeCount merge(Database &into, const Database &from);

} // namespace kumiko
