// Prior knowledge of a session: the database's results for its task and for similar ones.
#include "autotune/build.h"
#include "autotune/session.h"

#include <algorithm>
#include <limits>

namespace kumiko {

namespace {

constexpr size_t max_hints = 4;

// The point of the record. A parameter that the record lacks takes its first value, which disables
// that decision. Throws UserError if the point is illegal or produces another schedule.
Point point_of(const Record &r, const Space &space) {
    Json parameters = r.parameters;
    for (const ParameterInfo &p : space.parameters()) {
        if (!parameters.contains(p.name)) parameters[p.name] = p.values.front();
    }
    const Point point = space.from_json(parameters);
    if (parameters.size() > r.parameters->size() && make_candidate(space, point).schedule_hash != r.schedule_hash)
        throw UserError("the record's parameters now describe another schedule");
    return point;
}

} // namespace

// Results of other sessions, earlier or concurrent, count as if they were measured here. Later
// calls read what was written since, including this session's own records.
void Session::recall() {
    if (!database_ || options_.fresh) return;
    for (Record &r : database_->records_since(seen_row_, key_, space_->machine())) {
        if (r.library_template != template_name_) continue;
        const double seconds = r.outcome == Outcome::Ok ? r.seconds() : std::numeric_limits<double>::infinity();
        bool news = false;
        try {
            news = search_.tell(point_of(r, *space_), seconds, r.schedule_hash);
        } catch (const UserError &) {
            continue; // the space has changed since
        }
        const auto known = records_.find(r.schedule_hash);
        if (known != records_.end()) {
            const bool same = known->second.outcome == r.outcome && known->second.timing.least == r.timing.least;
            if (same) continue;
            known->second = r; // measured or refuted by another session too
            choose_best();
            continue;
        }
        if (r.schedule_hash.empty() && !news) continue; // illegal, detected by this session
        if (r.outcome != Outcome::Ok) count_failure(r);
        if (!r.schedule_hash.empty()) records_[r.schedule_hash] = r;
        if (!r.tried()) continue;
        filter_.model().tell(r.features, seconds);
        trials_++;
        report_.known++;
        if (r.origin == "default" && r.outcome == Outcome::Ok) report_.default_seconds = r.seconds();
        if (r.outcome == Outcome::Ok && (!best_ || r.ranks_before(*best_))) best_ = r;
    }
}

// The best results for this op on other machines, and for other ops of the same name, are tried if
// they are legal here: as hints, not as measurements.
void Session::take_hints() {
    if (!database_ || options_.fresh) return;
    std::vector<Record> all;
    for (const Database::TaskSummary &t : database_->tasks()) {
        const bool here = t.key.op_hash == key_.op_hash && t.key.sizes == key_.sizes && t.key.machine == key_.machine &&
                          t.key.threads == key_.threads;
        if (t.key.op != key_.op || here || t.ok == 0) continue;
        auto record = database_->best(t.key, machine_);
        if (record && record->library_template == template_name_) all.push_back(std::move(*record));
    }
    std::stable_partition(all.begin(), all.end(), [&](const Record &r) { return r.key.op_hash == key_.op_hash; });
    size_t hints = 0;
    for (const Record &r : all) {
        if (hints == max_hints) break;
        try {
            Json parameters = r.parameters;
            // Not a choice if the caller packs (PackedBy).
            for (const ParameterInfo &p : space_->parameters()) {
                if (options_.ahead && p.values.size() == 1 && parameters.contains(p.name))
                    parameters[p.name] = p.values[0];
            }
            const Point point = space_->from_json(parameters);
            if (!space_->reason_against(point).empty()) continue;
            search_.suggest(point);
            hints++;
        } catch (const UserError &) {
        } // illegal here
    }
}

} // namespace kumiko
