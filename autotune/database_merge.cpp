#include "autotune/database_merge.h"

#include <filesystem>

namespace kumiko {

namespace {

// Timestamps are texts that sort by time.
bool later(const Record &a, const Record &b) { return a.created > b.created; }

bool wins(const Record &a, const Record &b) {
    const bool good = a.outcome == Outcome::Ok, other_good = b.outcome == Outcome::Ok;
    if (good != other_good) {
        const Record &bad = good ? b : a, &ok = good ? a : b;
        // Also if in the same second.
        const bool distrusted = bad.outcome == Outcome::Wrong && !later(ok, bad);
        return good != distrusted;
    }
    if (!good) return !later(b, a);
    return !b.ranks_before(a);
}

bool same_features(const Features &a, const Features &b) { return a.version == b.version && a.values == b.values; }

bool same(const Record &a, const Record &b) {
    return a.outcome == b.outcome && a.reason == b.reason && a.timing.least == b.timing.least &&
           a.timing.median == b.timing.median && a.timing.spread == b.timing.spread &&
           a.timing.samples == b.timing.samples && a.final_seconds == b.final_seconds && a.created == b.created &&
           a.origin == b.origin && a.predicted == b.predicted && a.estimated_seconds == b.estimated_seconds &&
           a.build_seconds == b.build_seconds && a.seed == b.seed && a.parameters == b.parameters &&
           a.library_template == b.library_template && a.saved_schedule == b.saved_schedule &&
           same_features(a.features, b.features);
}

} // namespace

MergeCount &MergeCount::operator+=(const MergeCount &other) {
    added += other.added;
    better += other.better;
    same += other.same;
    return *this;
}

Record merged(const Record &a, const Record &b) {
    const bool first = wins(a, b);
    Record r = first ? a : b;
    const Record &other = first ? b : a;
    if (r.features.version < other.features.version) r.features = other.features;
    if (r.estimated_seconds == 0) r.estimated_seconds = other.estimated_seconds;
    if (!r.predicted && r.origin.empty()) r.predicted = other.predicted;
    if (r.origin.empty()) r.origin = other.origin;
    return r;
}

MergeCount merge(Database &into, const DatabaseTask &task, const Record &record) {
    MergeCount count;
    const auto known = into.find(record);
    const Record r = known ? merged(*known, record) : record;
    if (known && same(*known, r)) {
        count.same = 1;
        return count;
    }
    (known ? count.better : count.added) = 1;
    into.replace(task, r);
    return count;
}

MergeCount merge(Database &into, const Database &from) {
    std::error_code error;
    if (std::filesystem::equivalent(into.path(), from.path(), error))
        throw UserError(from.path() + " cannot be merged into itself");
    MergeCount count;
    into.in_transaction([&] {
        from.with_snapshot(
            [&] { from.for_each([&](const auto &task, const Record &r) { count += merge(into, task, r); }); });
    });
    return count;
}

} // namespace kumiko
