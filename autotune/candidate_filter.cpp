#include "autotune/candidate_filter.h"

#include "autotune/features/feature_sets.h"

#include <limits>

namespace kumiko {

CandidateFilter::CandidateFilter(const Space &space, int threads, const Sizes &sizes,
                                 std::shared_ptr<const CostModel> before)
    : space_(space), threads_(threads), sizes_(sizes),
      model_(std::move(before), features_for(space.machine()).version) {}

CandidateFilter::Examined &CandidateFilter::examine(const Point &point, const char *origin) {
    const auto found = examined_.find(point);
    if (found != examined_.end()) return found->second;
    auto [candidate, schedule] = make_with_schedule(space_, point);
    candidate.origin = origin;
    return examined_.emplace(point, Examined{std::move(candidate), std::move(schedule)}).first->second;
}

void CandidateFilter::describe(Candidate &candidate, const Schedule &schedule) {
    kumiko::describe(candidate, schedule, space_, threads_, sizes_);
    if (candidate.features.version != features_version) return;
    if (!default_) {
        auto [first, made] = make_with_schedule(space_, space_.default_point());
        if (made) kumiko::describe(first, *made, space_, threads_, sizes_);
        default_ = std::move(first.features);
    }
    set_beside(candidate.features, *default_);
}

std::string CandidateFilter::schedule_of(const Point &point, const char *origin) {
    if (const auto known = hashes_.find(point); known != hashes_.end()) return known->second;
    const Candidate &c = examine(point, origin).candidate;
    if (c.outcome != Outcome::Ok) {
        rejected_.push_back(c);
        examined_.erase(point);
        return hashes_[point] = "";
    }
    return hashes_[point] = c.schedule_hash;
}

const CandidateFilter::Described *CandidateFilter::described(const Point &point, const char *origin) {
    const std::string schedule = schedule_of(point, origin);
    if (schedule.empty()) return nullptr;
    if (const auto known = described_.find(schedule); known != described_.end()) return &known->second;
    auto &[candidate, made] = examine(point, origin);
    describe(candidate, *made);
    if (candidate.outcome != Outcome::Ok) {
        rejected_.push_back(std::move(candidate));
        examined_.erase(point);
        hashes_[point] = "";
        return nullptr;
    }
    return &described_.emplace(schedule, Described{candidate.features, candidate.estimated_seconds, {}}).first->second;
}

std::vector<float> CandidateFilter::scores(const std::vector<Point> &points, const char *origin) {
    std::vector<Features> features;
    std::vector<double> estimates;
    std::vector<size_t> which;
    std::vector<float> all(points.size(), std::numeric_limits<float>::quiet_NaN());
    for (size_t i = 0; i < points.size() && !over(); i++) {
        if (const Described *d = described(points[i], origin)) {
            features.push_back(d->features);
            estimates.push_back(d->estimated_seconds);
            which.push_back(i);
        }
    }
    if (!features.empty()) {
        const std::vector<float> scores = model_.score(features, estimates);
        for (size_t i = 0; i < which.size(); i++) {
            all[which[i]] = scores[i];
            described_.at(hashes_.at(points[which[i]])).predicted = scores[i];
        }
    }
    return all;
}

Candidate CandidateFilter::candidate(const Proposal &proposal) {
    const Point &point = proposal.point;
    auto &[candidate, schedule] = examine(point, proposal.origin.c_str());
    Candidate taken = std::move(candidate);
    taken.origin = proposal.origin;
    taken.made = std::move(schedule);
    examined_.erase(point);
    if (taken.outcome != Outcome::Ok) return taken;
    if (const auto known = described_.find(taken.schedule_hash); known != described_.end()) {
        taken.features = known->second.features;
        taken.estimated_seconds = known->second.estimated_seconds;
        taken.predicted = known->second.predicted;
    } else if (taken.features.version == 0) {
        describe(taken, *taken.made);
    }
    return taken;
}

std::vector<Candidate> CandidateFilter::take_rejected() { return std::exchange(rejected_, {}); }

} // namespace kumiko
