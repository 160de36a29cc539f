// Which points of a space to try next: the default first, then evolution. Each round makes a pool of unknown points (random
// samples, changes of the best known ones, crosses of two of them), thins it by what the parameters' values of measured
// points tell, leaves out those that are a known schedule under another name, asks an advisor for scores of those that are left,
// and proposes the best of them and a few by chance. Towards the end it walks from the best point to its neighbours. For a seed,
// what is proposed depends only on what was told and on the scores.
#pragma once

#include "autotune/parameter_model.h"
#include "autotune/search_method.h"
#include "schedules/library/space.h"

#include <map>
#include <set>
#include <string>

namespace kumiko {

// Judges points before anything is measured.
class Advisor {
public:
    virtual ~Advisor() = default;
    // Equal for points whose schedules are equal; empty for a point that is not legal. `origin`: how the search came to it; "pool" for those
    // of which it proposes the best.
    virtual std::string schedule_of(const Point &point, const char *origin) = 0;
    // Greater is better. Not a number for a point that is not to be measured.
    virtual std::vector<float> scores(const std::vector<Point> &points, const char *origin) = 0;
    // Whether nothing more is to be proposed; asked between thoughts that take long.
    virtual bool over() const { return false; }
};

struct Proposal {
    Point point;
    std::string origin; // "default", "hint", "random", "model", "evolution", "explore", "descent"
};

class Search {
public:
    // Without an advisor, Model is Evolution. Both must outlive the search.
    Search(const Space &space, uint64_t seed, SearchMethod method = SearchMethod::Evolution,
           Advisor *advisor = nullptr);

    // Up to n points that were not proposed or told before; fewer when the space seems used up. `left`: how many will be proposed
    // in all from here on, 0: unknown.
    std::vector<Proposal> propose(size_t n, size_t left = 0);
    // Proposed right after the default: one of the space's starts, or a point that did well
    // elsewhere.
    void suggest(const Point &point) { suggested_.push_back(point); }
    // What became of a point: seconds, or infinity. `schedule`: as the advisor would name it, so that no other point of that
    // schedule is proposed. Returns whether nothing was told of the point before.
    bool tell(const Point &point, double seconds, const std::string &schedule = "");

    size_t told() const { return told_.size(); }

private:
    std::vector<Point> pool(size_t n, bool descend);
    void sort(std::vector<Point> &points, size_t n);
    std::vector<Point> new_schedules(const std::vector<Point> &points, size_t n);
    void propose_by_evolution(size_t n, std::vector<Proposal> &proposals);
    void propose_by_model(size_t n, bool descend, std::vector<Proposal> &proposals);
    void propose_random(size_t n, const char *origin, std::vector<Proposal> &proposals);

    bool compares_schedules() const { return method_ == SearchMethod::Model && advisor_; }
    bool fresh(const Point &point) const { return !seen_.count(point) && space_.reason_against(point).empty(); }
    // Unless it is known, or its schedule was proposed before.
    bool take(const Point &point, const char *origin, std::vector<Proposal> &proposals);
    Point step(const Point &from);
    Point changed(Point point, int parameters);
    Point cross(const Point &a, const Point &b);
    const Point &parent();

    const Space &space_;
    Random random_;
    const SearchMethod method_;
    Advisor *advisor_;
    ParameterModel parameters_;
    std::vector<Point> suggested_;
    std::set<Point> seen_;
    std::set<std::string> seen_schedules_;
    std::map<Point, double> told_;
    std::vector<std::pair<double, Point>> best_; // ascending
};

} // namespace kumiko
