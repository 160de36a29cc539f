#include "autotune/alternatives.h"

#include "support/error.h"

#include <algorithm>

namespace kumiko {

std::vector<Alternative> alternatives(const Space &space, const Point &point, const CostModel &model, int threads,
                                      const Sizes &sizes) {
    std::vector<Point> points = space.neighbours(point);
    points.insert(points.begin(), point);
    std::vector<Candidate> made;
    std::vector<Features> features;
    std::vector<size_t> described; // positions in `made`
    for (const Point &p : points) {
        auto [candidate, schedule] = make_with_schedule(space, p);
        if (schedule) {
            describe(candidate, *schedule, space, threads, sizes);
            // The model was trained on differences from the default; here the point itself takes
            // that role.
            if (candidate.features.version == features_version)
                set_beside(candidate.features, Features(made.empty() ? candidate.features : made[0].features));
            if (candidate.outcome == Outcome::Ok) {
                described.push_back(made.size());
                features.push_back(candidate.features);
            }
        }
        made.push_back(std::move(candidate));
    }
    std::vector<float> scores(features.size(), 0);
    if (!model.empty() && !features.empty()) scores = model.score(features);
    if (described.empty() || described[0] != 0)
        throw UserError("the point has no schedule that can be counted: " + made[0].reason);
    const double own = made[0].estimated_seconds;
    std::vector<Alternative> all;
    size_t next = 1;
    for (size_t n = 1; n < points.size(); n++) {
        Alternative a{space.difference(point, points[n]), 0, 0, made[n].reason};
        if (next < described.size() && described[next] == n) {
            a.relative = own > 0 ? made[n].estimated_seconds / own : 0;
            a.score = double(scores[next]) - double(scores[0]);
            a.against.clear();
            next++;
        }
        all.push_back(std::move(a));
    }
    std::stable_sort(all.begin(), all.end(), [](const Alternative &a, const Alternative &b) {
        if (a.against.empty() != b.against.empty()) return a.against.empty();
        return a.score > b.score;
    });
    return all;
}

} // namespace kumiko
