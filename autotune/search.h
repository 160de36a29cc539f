// Proposes the points of a space to try next: the default first, then an evolutionary search. Each
// round builds a pool of new points (random samples, mutations of the best known points, crossovers
// of two of them), filters it with a model of the parameter values of measured points, drops points
// whose schedule is already known, asks a filter for scores of the rest, and proposes the best of
// them plus a few random ones. Towards the end it does a local search from the best point. For a
// given seed, the proposals depend only on the reported results and the scores.
#pragma once

#include "autotune/parameter_model.h"
#include "autotune/search_method.h"
#include "schedules/library/space.h"

#include <map>
#include <set>
#include <string>

namespace kumiko {

// Examines and scores points before they are measured.
class PointFilter {
public:
    virtual ~PointFilter() = default;
    // A key that is equal for points with equal schedules; "" for an illegal point. `origin`: how
    // the search proposed it. "pool": a point from a pool of which only the best are proposed.
    virtual std::string schedule_of(const Point &point, const char *origin) = 0;
    // Higher is better. NaN for a point that must not be measured.
    virtual std::vector<float> scores(const std::vector<Point> &points, const char *origin) = 0;
    // Whether to stop proposing; polled between slow steps.
    virtual bool over() const { return false; }
};

struct Proposal {
    Point point;
    std::string origin; // "default", "hint", "random", "model", "evolution", "explore", "descent"
};

class Search {
public:
    // Without a filter, Model behaves like Evolution. Both must outlive the search.
    Search(const Space &space, uint64_t seed, SearchMethod method = SearchMethod::Evolution,
           PointFilter *filter = nullptr);

    // Up to n points that were neither proposed nor reported before; fewer if the space seems
    // exhausted. `left`: how many will be proposed in total from now on; 0: unknown.
    std::vector<Proposal> propose(size_t n, size_t left = 0);
    // Proposes this point right after the default: one of the space's starting points, or a point
    // that did well elsewhere.
    void suggest(const Point &point) { suggested_.push_back(point); }
    // Reports the result of a point: seconds, or infinity. `schedule`: the filter's key, so that
    // no other point with that schedule is proposed. Returns whether this is the first result for
    // the point.
    bool tell(const Point &point, double seconds, const std::string &schedule = "");

    size_t told() const { return told_.size(); }

private:
    std::vector<Point> pool(size_t n, bool descend);
    void sort(std::vector<Point> &points, size_t n);
    std::vector<Point> new_schedules(const std::vector<Point> &points, size_t n);
    void propose_by_evolution(size_t n, std::vector<Proposal> &proposals);
    void propose_by_model(size_t n, bool descend, std::vector<Proposal> &proposals);
    void propose_random(size_t n, const char *origin, std::vector<Proposal> &proposals);

    bool compares_schedules() const { return method_ == SearchMethod::Model && filter_; }
    bool fresh(const Point &point) const { return !seen_.count(point) && space_.reason_against(point).empty(); }
    // Proposes the point unless it is known or its schedule was proposed before.
    bool take(const Point &point, const char *origin, std::vector<Proposal> &proposals);
    Point step(const Point &from);
    Point changed(Point point, int parameters);
    Point cross(const Point &a, const Point &b);
    const Point &parent();

    const Space &space_;
    Random random_;
    const SearchMethod method_;
    PointFilter *filter_;
    ParameterModel parameters_;
    std::vector<Point> suggested_;
    std::set<Point> seen_;
    std::set<std::string> seen_schedules_;
    std::map<Point, double> told_;
    std::vector<std::pair<double, Point>> best_; // ascending
};

} // namespace kumiko
