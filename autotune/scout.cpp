#include "autotune/scout.h"

#include "support/duration.h"

#include <cmath>
#include <limits>

namespace kumiko {

Scout::Scout(const Space &space, int threads, const Sizes &sizes, std::shared_ptr<const CostModel> before)
    : space_(space), threads_(threads), sizes_(sizes), model_(std::move(before)) {}

std::vector<float> Scout::scores(const std::vector<Point> &points) {
    const Stopwatch watch;
    std::vector<Features> features;
    std::vector<double> estimates;
    std::vector<size_t> which;
    std::vector<float> all(points.size(), std::numeric_limits<float>::quiet_NaN());
    for (size_t i = 0; i < points.size(); i++) {
        Candidate c = describe_candidate(space_, points[i], threads_, sizes_);
        if (c.outcome == Outcome::Ok && c.features.version == 0) { // of the chip: what the schedule's own estimate says
            const double estimate = space_.estimate(points[i]);
            all[i] = estimate > 0 ? static_cast<float>(-std::log2(estimate)) : 0.f;
            seen_.insert_or_assign(points[i], std::move(c));
        } else if (c.outcome == Outcome::Ok) {
            features.push_back(c.features);
            estimates.push_back(c.estimated_seconds);
            which.push_back(i);
            seen_.insert_or_assign(points[i], std::move(c));
        } else {
            rejected_.push_back(std::move(c));
        }
    }
    if (!features.empty()) {
        const std::vector<float> scores = model_.score(features, estimates);
        for (size_t i = 0; i < which.size(); i++) {
            all[which[i]] = scores[i];
            seen_.at(points[which[i]]).predicted = scores[i];
        }
    }
    seconds_ += watch.seconds();
    return all;
}

Candidate Scout::candidate(const Point &point) {
    const auto found = seen_.find(point);
    if (found != seen_.end()) {
        Candidate c = std::move(found->second);
        seen_.erase(found);
        return c;
    }
    const Stopwatch watch;
    Candidate c = describe_candidate(space_, point, threads_, sizes_);
    seconds_ += watch.seconds();
    return c;
}

std::vector<Candidate> Scout::take_rejected() { return std::exchange(rejected_, {}); }

} // namespace kumiko
