// Which points of a space to try next: the default first, then a mixture of random samples, steps from the best points
// to their neighbours, and crosses of two of them. For a seed, what is proposed depends only on what was told.
#pragma once

#include "schedules/library/space.h"

#include <map>
#include <set>

namespace kumiko {

class Search {
public:
    Search(const Space &space, uint64_t seed) : space_(space), random_(seed) {}

    // Up to n points that were not proposed or told before; fewer when the space seems used up.
    std::vector<Point> propose(size_t n);
    // What became of a point: seconds, or infinity.
    void tell(const Point &point, double seconds);

    size_t told() const { return told_.size(); }

private:
    bool take(const Point &point, std::vector<Point> &proposal);
    Point step(const Point &from);
    Point cross(const Point &a, const Point &b);

    const Space &space_;
    Random random_;
    std::set<Point> seen_;
    std::map<Point, double> told_;
    std::vector<std::pair<double, Point>> best_; // ascending
};

} // namespace kumiko
