#include "autotune/queue_format.h"

#include <cmath>

namespace kumiko {

namespace queue {

namespace {
// The version changes when an older program would misread the data.
const std::string prefix = "kumiko:3:";
} // namespace

std::string workers() { return prefix + "workers"; }
std::string worker(const std::string &worker) { return prefix + "worker:" + worker; }
std::string held(const std::string &worker) { return prefix + "held:" + worker; }
std::string sessions(const std::string &machine, int threads) {
    return prefix + "sessions:" + machine + ":" + std::to_string(threads);
}
std::string of_session(const std::string &what, const std::string &session) { return prefix + what + ":" + session; }

std::string item_name(const std::string &session, int64_t number) { return session + "/" + std::to_string(number); }

std::pair<std::string, int64_t> parse_item_name(const std::string &name) {
    const size_t slash = name.rfind('/');
    const std::string digits = slash == std::string::npos ? "" : name.substr(slash + 1);
    if (digits.empty() || digits.size() > 18 || digits.find_first_not_of("0123456789") != std::string::npos)
        throw UserError("the queue holds \"" + name + "\", which is not the name of a candidate");
    return {name.substr(0, slash), std::stoll(digits)};
}

} // namespace queue

namespace {

// Parses data from other programs; any error becomes a UserError.
template<typename F>
auto read_queued(const std::string &text, const char *what, F f) {
    try {
        const Json json = Json::parse(text);
        return f(json);
    } catch (const nlohmann::json::exception &e) {
        throw UserError(std::string("the queue holds ") + what +
                        " that does not come from this version of Kumiko: " + e.what());
    }
}

// JSON has no infinity or NaN.
double finite(double x) { return std::isfinite(x) ? x : 0; }

Json measured_json(const Measured &m) {
    Json j = {{"outcome", outcome_name(m.outcome)}, {"reason", m.reason}, {"timings", Json::array()}};
    for (const Timing &t : m.timings)
        j["timings"].push_back({{"least", finite(t.least)},
                                {"median", finite(t.median)},
                                {"spread", finite(t.spread)},
                                {"samples", t.samples},
                                {"ratio", finite(t.ratio)},
                                {"ratio_error", finite(t.ratio_error)}});
    if (m.no_room) j["no_room"] = true;
    return j;
}

Measured measured_of(const Json &j) {
    Measured m{outcome_from_name(j.at("outcome").get<std::string>()), j.at("reason").get<std::string>(), {}, 0};
    m.no_room = j.value("no_room", false);
    for (const Json &t : j.at("timings"))
        m.timings.push_back({t.at("least").get<double>(), t.at("median").get<double>(), t.at("spread").get<double>(),
                             t.at("samples").get<int>(), t.at("ratio").get<double>(),
                             t.at("ratio_error").get<double>()});
    return m;
}

} // namespace

std::string WorkerOffer::to_json() const { return Json{{"machine", machine}, {"threads", threads}}.dump(); }

WorkerOffer WorkerOffer::from_json(const std::string &text) {
    return read_queued(text, "a worker", [](const Json &j) {
        return WorkerOffer{j.at("machine").get<std::string>(), j.at("threads").get<int>()};
    });
}

std::string QueueTask::to_json() const {
    return Json{{"op", recipe.name},
                {"parameters", recipe.parameters},
                {"op_hash", op_hash},
                {"sizes", sizes},
                {"machine", wanted.machine},
                {"threads", wanted.threads},
                {"cpu", cpu.to_json()},
                {"trial_seconds", trial_seconds},
                {"timeout", timeout},
                {"build_timeout", build_timeout},
                {"memory_mib", memory_mib},
                {"longest_reference", longest_reference},
                {"cold", cold}}
        .dump();
}

QueueTask QueueTask::from_json(const std::string &text) {
    return read_queued(text, "a task", [](const Json &j) {
        QueueTask t;
        t.recipe = {j.at("op").get<std::string>(), j.at("parameters")};
        t.op_hash = j.at("op_hash").get<std::string>();
        t.sizes = j.at("sizes").get<Sizes>();
        t.wanted = {j.at("machine").get<std::string>(), j.at("threads").get<int>()};
        t.cpu = CpuTarget::from_json(j.at("cpu").get<std::string>());
        t.trial_seconds = j.at("trial_seconds").get<double>();
        t.timeout = j.at("timeout").get<double>();
        t.build_timeout = j.value("build_timeout", t.build_timeout);
        t.memory_mib = j.at("memory_mib").get<int64_t>();
        t.longest_reference = j.value("longest_reference", kumiko::longest_reference);
        t.cold = j.value("cold", false);
        return t;
    });
}

std::string QueueItem::to_json() const {
    Json j;
    j["schedules"] = Json::array();
    for (const nlohmann::json &s : schedules) j["schedules"].push_back(Json(s));
    if (compare_seconds > 0) j["compare_seconds"] = compare_seconds;
    if (std::isfinite(best)) j["best"] = best;
    if (!anchor.schedule.is_null())
        j["anchor"] = {{"schedule", Json(anchor.schedule)}, {"least", anchor.least}, {"median", anchor.median}};
    return j.dump();
}

QueueItem QueueItem::from_json(const std::string &text) {
    return read_queued(text, "a candidate", [](const Json &j) {
        QueueItem item;
        for (const Json &s : j.at("schedules")) item.schedules.push_back(nlohmann::json(s));
        item.compare_seconds = j.value("compare_seconds", 0.0);
        item.best = j.value("best", std::numeric_limits<double>::infinity());
        if (j.contains("anchor")) {
            const Json &a = j.at("anchor");
            item.anchor = {nlohmann::json(a.at("schedule")), a.at("least").get<double>(), a.at("median").get<double>()};
        }
        if (item.schedules.empty() || (item.schedules.size() > 1 && item.compare_seconds <= 0))
            throw UserError("the queue holds a candidate with " + std::to_string(item.schedules.size()) + " schedules");
        return item;
    });
}

std::string QueueAnswer::to_json() const {
    Json j = {{"number", number},
              {"worker", worker},
              {"measured", measured_json(measured)},
              {"build_seconds", build_seconds},
              {"compared", Json::array()},
              {"facts",
               {{"reference_seconds", facts.reference_seconds},
                {"exact", facts.exact},
                {"clock_hz", facts.clock_hz},
                {"sampled", facts.sampled}}}};
    for (const Measured &m : compared) j["compared"].push_back(measured_json(m));
    // A reason may contain invalid UTF-8.
    return j.dump(-1, ' ', false, Json::error_handler_t::replace);
}

QueueAnswer QueueAnswer::from_json(const std::string &text) {
    return read_queued(text, "an answer", [](const Json &j) {
        QueueAnswer a;
        a.number = j.at("number").get<int64_t>();
        a.worker = j.at("worker").get<std::string>();
        a.measured = measured_of(j.at("measured"));
        a.build_seconds = j.at("build_seconds").get<double>();
        for (const Json &m : j.at("compared")) a.compared.push_back(measured_of(m));
        if (a.measured.outcome == Outcome::Ok && a.measured.timings.empty() && a.compared.empty())
            throw UserError("the queue holds an answer without a time");
        const Json &f = j.at("facts");
        a.facts = {f.at("reference_seconds").get<double>(), f.at("exact").get<bool>(), f.at("clock_hz").get<double>(),
                   f.value("sampled", int64_t(0))};
        return a;
    });
}

} // namespace kumiko
