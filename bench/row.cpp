// Rows of reports as JSON.
#include "bench/suite.h"

#include <cmath>

namespace kumiko::bench {

Json BenchRow::json() const {
    Json j = {{"suite", suite}, {"case", name}, {"threads", threads}, {"ours", ours}, {"unit", unit}, {"peers", peers}};
    j["best_peer"] = best_peer.empty() ? Json(nullptr) : Json(best_peer);
    j["ratio"] = ratio > 0 ? Json(ratio) : Json(nullptr);
    j["fast_ratio"] = fast_ratio > 0 ? Json(fast_ratio) : Json(nullptr);
    j["peak"] = peak > 0 ? Json(peak) : Json(nullptr);
    j["of_peak"] = peak > 0 ? Json(of_peak) : Json(nullptr);
    j["spread"] = spread;
    j["tuned"] = tuned;
    j["untuned"] = untuned;
    j["seconds"] = seconds;
    if (!ways.empty()) j["way"] = way, j["ways"] = ways;
    if (error != 0) j["error"] = std::isnan(error) ? Json(nullptr) : Json(error);
    if (default_ratio > 0) j["default_ratio"] = default_ratio;
    if (given_ratio > 0) j["given_ratio"] = given_ratio;
    j["notes"] = peer_notes;
    j["remarks"] = remarks;
    if (!failure.empty()) j["failure"] = failure;
    if (!wrong.empty()) j["wrong"] = wrong;
    return j;
}

BenchRow BenchRow::from_json(const Json &j) {
    const auto number = [&](const char *name) { return j.at(name).is_null() ? 0.0 : j.at(name).get<double>(); };
    BenchRow r;
    r.suite = j.at("suite").get<std::string>(), r.name = j.at("case").get<std::string>();
    r.threads = j.at("threads").get<int>(), r.unit = j.at("unit").get<std::string>();
    r.ours = number("ours"), r.untuned = number("untuned"), r.seconds = number("seconds");
    r.ratio = number("ratio"), r.peak = number("peak"), r.of_peak = number("of_peak"), r.spread = number("spread");
    r.tuned = j.at("tuned").get<bool>();
    for (const auto &[name, rate] : j.at("peers").items()) r.peers[name] = rate.get<double>();
    for (const auto &[name, note] : j.at("notes").items()) r.peer_notes[name] = note.get<std::string>();
    if (!j.at("best_peer").is_null()) r.best_peer = j.at("best_peer").get<std::string>();
    for (const Json &remark : j.at("remarks")) r.remarks.push_back(remark.get<std::string>());
    // Rows of older reports have none.
    if (j.contains("fast_ratio")) r.fast_ratio = number("fast_ratio");
    if (j.contains("error")) r.error = j.at("error").is_null() ? NAN : j.at("error").get<double>();
    r.given_ratio = j.value("given_ratio", 0.0), r.default_ratio = j.value("default_ratio", 0.0);
    r.way = j.value("way", "");
    if (j.contains("ways")) {
        for (const auto &[way, rate] : j.at("ways").items()) r.ways[way] = rate.get<double>();
    } else if (j.contains("direct")) { // rows of older reports: ours uses Winograd
        r.ways = {{"direct", j.at("direct").get<double>()}, {"Winograd", r.ours}};
    }
    r.failure = j.value("failure", ""), r.wrong = j.value("wrong", "");
    return r;
}

} // namespace kumiko::bench
