#include "autotune/report/numbers.h"

#include "autotune/failure.h"
#include "autotune/features/feature_sets.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kumiko::report {

namespace {

constexpr double never = std::numeric_limits<double>::infinity(), unknown = std::numeric_limits<double>::quiet_NaN();
constexpr int enough_samples = 4;

bool is_good(const Record &r) { return r.outcome == Outcome::Ok && r.timing.least > 0; }
double seconds_once(const Record &r) { return is_good(r) ? r.timing.least : never; }

} // namespace

ChanceCurve chance_curve(const std::vector<Record> &records) {
    ChanceCurve curve;
    std::vector<double> sampled;
    double first = never;
    for (const char *origin : {"random", "explore"}) { // a random search has more samples
        for (const Record &r : records) {
            if (r.tried() && r.origin == origin) sampled.push_back(seconds_once(r));
        }
        curve.session = origin == std::string("random") && sampled.size() >= enough_samples;
        if (curve.session) break;
    }
    for (const Record &r : records) {
        if (r.origin == "default") first = std::min(first, seconds_once(r));
    }
    const size_t n = sampled.size();
    std::sort(sampled.begin(), sampled.end());
    if (n < enough_samples || !std::isfinite(sampled[0])) return curve;
    curve.samples = static_cast<int>(n);
    const bool default_record = std::isfinite(first);
    if (default_record) curve.seconds.push_back(first);
    // The k-th best is the minimum of d draws if it is drawn, none of the k better ones is, and the
    // rest come from the worse ones: C(n-k-1, d-1) of C(n, d) draws. Without a default to fall back
    // on, draws of only failures are excluded.
    for (size_t d = 1; d <= n; d++) {
        double share = static_cast<double>(d) / static_cast<double>(n), sum = 0, seen = 0;
        for (size_t k = 0; k + d <= n; k++) {
            const double s = std::min(sampled[k], first);
            if (std::isfinite(s)) {
                sum += share * s;
                seen += share;
            }
            const auto behind = static_cast<double>(n - k - 1);
            if (behind > 0) share *= (behind - static_cast<double>(d) + 1) / behind;
        }
        if (seen > 0) curve.seconds.push_back(sum / seen);
    }
    return curve;
}

bool applies_to(const CostModel &model, const Features &features) {
    return !model.empty() && features.version == model.version() && is_current(features);
}

Numbers numbers_of(std::vector<Record> records, const CostModel &model) {
    Numbers n;
    std::stable_sort(records.begin(), records.end(),
                     [](const Record &a, const Record &b) { return a.created < b.created; });
    n.chance = chance_curve(records);
    const bool all_by_chance = std::all_of(records.begin(), records.end(), [](const Record &r) {
        return r.origin == "random" || r.origin == "default" || !r.tried();
    });
    double best = never;
    for (const Record &r : records) {
        if (!r.tried()) {
            n.rejected++;
            Failures &f = n.rejections[failure_kind(r)];
            if (f.count++ == 0) f.example = r;
            continue;
        }
        if (is_good(r)) {
            n.good++;
            const auto rank = [](const Record &x) { return std::pair(!x.final_seconds.has_value(), x.seconds()); };
            if (!n.best || rank(r) < rank(*n.best)) n.best = r;
            if (r.origin == "default") n.default_record = r;
            n.good_records.push_back(r);
        } else {
            n.failed++;
            Failures &f = n.failures[failure_kind(r)];
            if (f.count++ == 0) f.example = r;
        }
        if (r.origin == "random" && !all_by_chance) {
            n.by_chance++;
            continue;
        }
        best = std::min(best, seconds_once(r));
        n.trials.push_back(r);
        n.best_so_far.push_back(best);
    }
    std::vector<Features> features;
    for (const Record &r : n.good_records) {
        n.seconds.push_back(r.timing.least);
        n.predicted.push_back(r.predicted.value_or(unknown));
        n.estimated.push_back(r.estimated_seconds > 0 ? r.estimated_seconds : unknown);
        n.scored.push_back(unknown);
        if (applies_to(model, r.features)) features.push_back(r.features);
    }
    if (features.empty()) return n;
    const std::vector<float> scores = model.score(features);
    for (size_t i = 0, k = 0; i < n.good_records.size(); i++) {
        if (applies_to(model, n.good_records[i].features)) n.scored[i] = scores[k++];
    }
    return n;
}

PairAccuracy pair_accuracy(const std::vector<double> &scores, const std::vector<double> &seconds) {
    std::vector<double> s, t;
    for (size_t i = 0; i < scores.size(); i++) {
        if (std::isnan(scores[i])) continue;
        s.push_back(scores[i]);
        t.push_back(seconds[i]);
    }
    return {static_cast<int>(s.size()), s.size() < 2 ? 0 : accuracy(s, t).pairs};
}

std::vector<Contribution> contributions_of(const CostModel &model, const Features &best, const Features &other) {
    std::map<std::string, Contribution> all;
    for (const auto &[name, part] : model.contributions(best)) all[name].part = part;
    for (const auto &[name, part] : model.contributions(other)) all[name].other_part = part;
    std::vector<Contribution> sorted;
    const FeatureSet *set = find_features(best.version);
    const std::vector<std::string> names = set ? set->names : std::vector<std::string>();
    for (size_t i = 0; i < names.size() && i < best.values.size() && i < other.values.size(); i++) {
        const auto found = all.find(names[i]);
        if (found == all.end()) continue;
        Contribution c = found->second;
        c.feature = names[i];
        c.value = best.values[i];
        c.other_value = other.values[i];
        sorted.push_back(c);
    }
    std::stable_sort(sorted.begin(), sorted.end(), [](const Contribution &a, const Contribution &b) {
        return std::abs(a.part - a.other_part) > std::abs(b.part - b.other_part);
    });
    return sorted;
}

} // namespace kumiko::report
