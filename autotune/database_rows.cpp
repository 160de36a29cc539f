#include "autotune/database_rows.h"

#include <bit>
#include <cstring>

namespace kumiko {

namespace {

template<typename J>
J parse(const Connection &c, const std::string &text) {
    try {
        return J::parse(text);
    } catch (const nlohmann::json::exception &e) {
        throw UserError("the tuning database " + c.path + " holds a record that is not JSON: " + e.what());
    }
}

Sizes parse_sizes(const Connection &c, const std::string &text) {
    try {
        return parse<nlohmann::json>(c, text).get<Sizes>();
    } catch (const nlohmann::json::exception &e) {
        throw UserError("the tuning database " + c.path + " holds sizes that are not numbers: " + e.what());
    }
}

Outcome parse_outcome(const Connection &c, const std::string &name) {
    try {
        return outcome_from_name(name);
    } catch (const UserError &e) {
        throw UserError("the tuning database " + c.path + " is damaged: " + e.what());
    }
}

static_assert(std::endian::native == std::endian::little, "features are kept in little endian");

Features read_features(const Connection &c, const Statement &s, int version, int bytes) {
    Features f;
    const std::string stored = s.bytes(bytes);
    if (stored.size() % sizeof(float) != 0)
        throw UserError("the tuning database " + c.path + " is damaged: features of " + std::to_string(stored.size()) +
                        " bytes are not a list of numbers");
    if (stored.empty()) return f;
    f.version = static_cast<int>(s.integer(version));
    f.values.resize(stored.size() / sizeof(float));
    std::memcpy(f.values.data(), stored.data(), stored.size());
    return f;
}

} // namespace

std::string sizes_text(const Sizes &sizes) { return nlohmann::json(sizes).dump(); }

std::string row_hash(const Record &record) {
    return record.schedule_hash.empty() ? "parameters:" + record.parameters->dump() : record.schedule_hash;
}

void bind_key(Statement &s, const TaskKey &key) {
    s.bind(key.op_hash).bind(sizes_text(key.sizes)).bind(key.machine).bind(static_cast<int64_t>(key.threads));
}

void bind_features(Statement &s, const Features &f) {
    s.bind(static_cast<int64_t>(f.version));
    if (f.version == 0)
        s.bind(std::nullopt);
    else
        s.bind_bytes(f.values.data(), f.values.size() * sizeof(float));
}

Record read_record(const Connection &c, const Statement &s, const TaskKey &key, const Machine &machine) {
    Record r;
    r.key = key;
    r.machine = machine;
    r.library_template = s.text(0);
    r.parameters = parse<Json>(c, s.text(1));
    r.schedule_hash = s.text(2);
    r.saved_schedule = parse<nlohmann::json>(c, s.text(3));
    if (r.saved_schedule->is_null()) r.schedule_hash.clear();
    r.outcome = parse_outcome(c, s.text(4));
    r.reason = s.text(5);
    r.timing = {s.real(6), s.real(7), s.real(8), static_cast<int>(s.integer(9))};
    if (!s.null(10)) r.final_seconds = s.real(10);
    r.build_seconds = s.real(11);
    r.seed = static_cast<uint64_t>(s.integer(12));
    r.created = s.text(13);
    r.features = read_features(c, s, 14, 15);
    r.estimated_seconds = s.real(16);
    if (!s.null(17)) r.predicted = s.real(17);
    r.origin = s.text(18);
    return r;
}

DatabaseTask read_task(const Connection &c, const Statement &s) {
    DatabaseTask t;
    t.key = {s.text(0), s.text(1), parse_sizes(c, s.text(2)), s.text(3), static_cast<int>(s.integer(4))};
    if (t.key.threads < 1)
        throw UserError("the tuning database " + c.path + " is damaged: a task of \"" + s.text(4) + "\" threads");
    t.formula = s.text(5);
    t.tensors = parse<Json>(c, s.text(6));
    return t;
}

} // namespace kumiko
