#include "autotune/database_care.h"

#include "autotune/features/feature_sets.h"
#include "support/json.h"
#include "support/names.h"

#include <algorithm>
#include <ctime>
#include <filesystem>

namespace kumiko {

namespace {

std::string utc_text(std::time_t time) {
    std::tm utc{};
    gmtime_r(&time, &utc);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
    return text;
}

std::time_t time_of(const std::string &utc_text) {
    std::tm utc{};
    if (!strptime(utc_text.c_str(), "%Y-%m-%dT%H:%M:%SZ", &utc))
        throw UserError("\"" + utc_text + "\" is not a time, as 2026-11-21T09:30:00Z");
    return timegm(&utc);
}

// The records of one task that are to be removed.
std::vector<Record> superfluous(std::vector<Record> records, const PruneOptions &o, const std::string &before) {
    std::stable_sort(records.begin(), records.end(), [](const Record &a, const Record &b) {
        const bool good = a.outcome == Outcome::Ok, other = b.outcome == Outcome::Ok;
        return good != other ? good : good && a.ranks_before(b);
    });
    std::vector<Record> going;
    int place = 0;
    for (const Record &r : records) {
        const bool good = r.outcome == Outcome::Ok;
        const bool goes = (!o.keep && !o.failed) || (good ? o.keep && place >= *o.keep : o.failed);
        place += good;
        if (goes && (before.empty() || r.created < before)) going.push_back(r);
    }
    return going;
}

} // namespace

Json DatabaseStats::json() const {
    Json all = Json::array();
    for (const Database::TaskSummary &t : tasks) {
        all.push_back({{"op", t.key.op},
                       {"formula_hash", t.key.op_hash},
                       {"sizes", t.key.sizes},
                       {"tensors", t.tensors},
                       {"machine", t.key.machine},
                       {"threads", t.key.threads},
                       {"records", t.records},
                       {"ok", t.ok},
                       {"best_seconds", t.best_seconds > 0 ? Json(t.best_seconds) : Json(nullptr)}});
    }
    return {{"version", version},
            {"bytes", bytes},
            {"records", records},
            {"trials", trials},
            {"with_features", with_features},
            {"machines", machines},
            {"outcomes", outcomes},
            {"origins", origins},
            {"oldest", oldest},
            {"newest", newest},
            {"tasks", all}};
}

std::string tensors_text(const Json &tensors) {
    std::string text;
    if (!tensors.is_array()) return text;
    const auto member = [](const Json &t, const char *name) {
        return t.is_object() && t.contains(name) && t[name].is_string() ? t[name].get<std::string>() : "?";
    };
    for (const Json &t : tensors) {
        std::string shape;
        if (t.is_object() && t.contains("shape")) {
            for (const Json &n : t["shape"]) shape += (shape.empty() ? " " : " × ") + n.dump();
        }
        text += (text.empty() ? "" : ", ") + member(t, "name") + ": " + member(t, "type") + shape;
    }
    return text;
}

DatabaseStats database_stats(const Database &database) {
    DatabaseStats s;
    s.version = database.version();
    for (const char *suffix : {"", "-wal"}) {
        std::error_code error;
        const auto bytes = std::filesystem::file_size(database.path() + suffix, error);
        if (!error) s.bytes += static_cast<int64_t>(bytes);
    }
    s.tasks = database.tasks();
    database.for_each([&](const auto &task, const Record &r) {
        s.records++;
        s.trials += r.tried();
        s.with_features += is_current(r.features);
        s.machines[task.key.machine]++;
        s.outcomes[outcome_name(r.outcome)]++;
        s.origins[r.origin]++;
        if (s.oldest.empty() || r.created < s.oldest) s.oldest = r.created;
        s.newest = std::max(s.newest, r.created);
    });
    return s;
}

PruneCount prune(Database &database, const PruneOptions &o) {
    if (o.machine.empty() && o.older_than_days <= 0 && !o.keep && !o.failed)
        throw UserError("this would remove every record: say which, by their place, age, machine or failure");
    std::string before;
    if (o.older_than_days > 0)
        before = utc_text((o.now.empty() ? std::time(nullptr) : time_of(o.now)) -
                          static_cast<std::time_t>(o.older_than_days * 86400));
    PruneCount count;
    const auto go = [&] {
        const std::vector<Database::TaskSummary> tasks = database.tasks();
        if (!o.machine.empty()) {
            std::vector<std::string> ids;
            for (const auto &t : tasks) {
                for (const std::string &id : {t.key.machine, KeyMachine::parse(t.key.machine).id}) {
                    if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
                }
            }
            if (std::find(ids.begin(), ids.end(), o.machine) == ids.end())
                throw UserError(database.path() + " knows no machine \"" + o.machine + "\"" + suggest(o.machine, ids));
        }
        for (const auto &t : tasks) {
            const bool meant =
                o.machine.empty() || t.key.machine == o.machine || KeyMachine::parse(t.key.machine).id == o.machine;
            const auto going =
                meant ? superfluous(database.records(t.key, Machine{}), o, before) : std::vector<Record>{};
            count.removed += static_cast<int>(going.size());
            count.left += t.records - static_cast<int>(going.size());
            count.tasks_removed += static_cast<int>(going.size()) == t.records;
            if (o.dry_run) continue;
            for (const Record &r : going) database.remove(r);
        }
    };
    if (o.dry_run) {
        database.with_snapshot(go);
        return count;
    }
    database.in_transaction(go);
    try {
        if (count.removed > 0) database.compact();
    } catch (const UserError &e) { // a full disk has no room for the smaller copy either
        count.not_compacted = e.what();
    }
    return count;
}

} // namespace kumiko
