#include "autotune/database_lines.h"

#include "autotune/features/feature_sets.h"
#include "schedules/saved_text.h"
#include "support/json.h"

#include <cmath>
#include <istream>
#include <ostream>

namespace kumiko {

namespace {

const char *const mark = "tuning records";

// The shortest decimal number that gives the same float; null if it is not finite.
Json float_json(float f) {
    if (!std::isfinite(f)) return nullptr;
    char text[32];
    std::snprintf(text, sizeof text, "%.7g", static_cast<double>(f));
    const double shorter = std::strtod(text, nullptr);
    return static_cast<float>(shorter) == f ? shorter : static_cast<double>(f);
}

Json optional_json(const std::optional<double> &value) { return value ? Json(*value) : Json(nullptr); }

Json line_of(const DatabaseTask &task, const Record &r) {
    const bool ok = r.outcome == Outcome::Ok;
    const auto timed = [&](double value) { return ok ? Json(value) : Json(nullptr); };
    Json j = {{"op", task.key.op},
              {"op_hash", task.key.op_hash},
              {"sizes", task.key.sizes},
              {"machine", task.key.machine},
              {"threads", task.key.threads},
              {"formula", task.formula},
              {"tensors", *task.tensors},
              {"template", r.library_template},
              {"parameters", *r.parameters},
              {"schedule_hash", r.schedule_hash},
              {"schedule", Json(*r.saved_schedule)},
              {"outcome", outcome_name(r.outcome)},
              {"reason", r.reason},
              {"least", timed(r.timing.least)},
              {"median", timed(r.timing.median)},
              {"spread", timed(r.timing.spread)},
              {"samples", ok ? Json(r.timing.samples) : Json(nullptr)},
              {"final_seconds", optional_json(r.final_seconds)},
              {"build_seconds", r.build_seconds},
              {"seed", r.seed},
              {"created", r.created},
              {"features_version", r.features.version},
              {"features", nullptr},
              {"estimated_seconds", r.estimated_seconds},
              {"predicted", optional_json(r.predicted)},
              {"origin", r.origin}};
    if (r.features.version > 0) {
        Json values = Json::array();
        for (float f : r.features.values) values.push_back(float_json(f));
        j["features"] = std::move(values);
    }
    return j;
}

// On one line. Invalid UTF-8, in a compiler's or system's message, becomes the replacement
// character.
std::string text_of_line(const Json &line) { return line.dump(-1, ' ', false, Json::error_handler_t::replace); }

// A number >= 0; JSON has no infinity.
double seconds_of(const JsonView &v) {
    if (v.number() < 0) v.fail("expected a time, found " + v.raw().dump());
    return v.number();
}

std::optional<double> optional_of(const JsonView &v) { return v.is_null() ? std::nullopt : std::optional(v.number()); }

Features features_of(const JsonView &line) {
    Features f;
    f.version = static_cast<int>(line["features_version"].integer(0, 1000000));
    if (f.version == 0) return f;
    for (const JsonView &value : line["features"].elements())
        f.values.push_back(value.is_null() ? std::nanf("") : static_cast<float>(value.number()));
    if (const std::string wrong = wrong_length(f); !wrong.empty()) line["features"].fail(wrong);
    return f;
}

std::pair<DatabaseTask, Record> record_of_line(const JsonView &line) {
    line.allow_only({"op",
                     "op_hash",
                     "sizes",
                     "machine",
                     "threads",
                     "formula",
                     "tensors",
                     "template",
                     "parameters",
                     "schedule_hash",
                     "schedule",
                     "outcome",
                     "reason",
                     "least",
                     "median",
                     "spread",
                     "samples",
                     "final_seconds",
                     "build_seconds",
                     "seed",
                     "created",
                     "origin",
                     "features",
                     "features_version",
                     "estimated_seconds",
                     "predicted"});
    DatabaseTask task;
    task.key = {line["op"].string(), line["op_hash"].string(), {}, line["machine"].string(), 1};
    task.key.threads = static_cast<int>(line["threads"].integer(1, 1000000));
    for (const std::string &size : line["sizes"].keys()) task.key.sizes[size] = line["sizes"][size].integer();
    task.formula = line["formula"].string();
    task.tensors = line["tensors"].raw();
    Record r;
    r.key = task.key;
    r.library_template = line["template"].string();
    r.parameters = line["parameters"].raw();
    r.schedule_hash = line["schedule_hash"].string();
    r.saved_schedule = nlohmann::json(line["schedule"].raw());
    const JsonView outcome = line["outcome"];
    try {
        r.outcome = outcome_from_name(outcome.string());
    } catch (const UserError &e) {
        outcome.fail(e.what());
    }
    r.reason = line["reason"].string();
    if (r.outcome == Outcome::Ok)
        r.timing = {seconds_of(line["least"]), seconds_of(line["median"]), seconds_of(line["spread"]),
                    static_cast<int>(line["samples"].integer(0, 1 << 30))};
    r.final_seconds = optional_of(line["final_seconds"]);
    const auto above_zero = [&](const char *name, double seconds) {
        if (!(seconds > 0)) line[name].fail("the time of a kernel must be above 0");
    };
    if (r.outcome == Outcome::Ok) above_zero("least", r.timing.least), above_zero("median", r.timing.median);
    if (r.final_seconds) above_zero("final_seconds", *r.final_seconds);
    r.build_seconds = seconds_of(line["build_seconds"]);
    if (const JsonView seed = line["seed"]; seed.raw().is_number_unsigned())
        r.seed = seed.raw().get<uint64_t>();
    else
        r.seed = static_cast<uint64_t>(seed.integer());
    r.created = line["created"].string();
    r.features = features_of(line);
    r.estimated_seconds = seconds_of(line["estimated_seconds"]);
    r.predicted = optional_of(line["predicted"]);
    r.origin = line["origin"].string();
    if (r.saved_schedule->is_null()) {
        if (r.outcome == Outcome::Ok) line["schedule"].fail("the record of a good candidate must have a schedule");
        return {std::move(task), std::move(r)};
    }
    try {
        require_saved_schedule(r.saved_schedule);
    } catch (const UserError &e) {
        line["schedule"].fail(e.what());
    }
    if (r.saved_schedule->value("hash", "") != task.key.op_hash)
        line["schedule"].fail("it belongs to another formula, with hash " + r.saved_schedule->value("hash", ""));
    return {std::move(task), std::move(r)};
}

// Reads lines and counts them.
class Lines {
public:
    Lines(std::istream &in, const std::string &document) : in_(in), document_(document) {}

    // Advances to the next line that is not blank; false at the end.
    bool next() {
        while (std::getline(in_, text_)) {
            number_++;
            if (text_.find_first_not_of(" \t\r") != std::string::npos) return true;
        }
        if (in_.bad()) throw UserError(document_ + " cannot be read further than line " + std::to_string(number_));
        return false;
    }
    std::string where() const { return document_ + ":" + std::to_string(number_); }
    Json json() const {
        try {
            return parse_json(text_, where());
        } catch (const UserError &e) { // the message says "line 1" for the single line
            std::string text = e.what();
            const std::string front = where() + ":";
            if (text.starts_with(front + "1:")) text.erase(front.size(), 2);
            throw UserError(text);
        }
    }

private:
    std::istream &in_;
    std::string document_, text_;
    size_t number_ = 0;
};

// The number of records in the header, or -1.
int64_t read_header(const Lines &lines) {
    const Json json = lines.json();
    const JsonView header(json, lines.where());
    if (!header.is_object() || header.raw().value("kumiko", Json()) != mark)
        throw UserError(lines.where() + ": this is not an export of a tuning database, which begins with a header, " +
                        Json{{"kumiko", mark}, {"version", Database::format_version}}.dump());
    const int64_t version = header["version"].integer();
    if (version > Database::format_version)
        throw UserError(lines.where() + ": the records have format version " + std::to_string(version) +
                        ", newer than " + std::to_string(Database::format_version) +
                        ", the newest that this Kumiko reads; use a newer Kumiko");
    if (version < 2) header["version"].fail("there is no format version " + std::to_string(version) + " of such files");
    header.allow_only({"kumiko", "version", "records"});
    return header.integer_or("records", -1);
}

} // namespace

void write_lines(const Database &from, std::ostream &out) {
    from.with_snapshot([&] { // consistent with the header's count
        int64_t records = 0;
        for (const auto &task : from.tasks()) records += task.records;
        out << Json{{"kumiko", mark}, {"version", Database::format_version}, {"records", records}}.dump() << "\n";
        from.for_each([&](const auto &task, const Record &r) { out << text_of_line(line_of(task, r)) << "\n"; });
    });
}

MergeCount merge_lines(Database &into, std::istream &in, const std::string &document) {
    Lines lines(in, document);
    if (!lines.next()) throw UserError(document + " is empty: it has no header and no records");
    const int64_t stated = read_header(lines);
    MergeCount count;
    into.in_transaction([&] {
        while (lines.next()) {
            const Json json = lines.json();
            const auto [task, record] = record_of_line(JsonView(json, lines.where()));
            count += merge(into, task, record);
        }
        if (stated >= 0 && stated != count.all())
            throw UserError(document + ": its header states " + std::to_string(stated) + " records, and " +
                            std::to_string(count.all()) +
                            " follow: it may be cut off; take \"records\" out of the header to import what is there");
    });
    return count;
}

} // namespace kumiko
