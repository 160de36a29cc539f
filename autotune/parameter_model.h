// What the parameters' values of measured points say of others, without a look at their nests: it costs microseconds a point, so
// it thins thousands before the nests of a few are made.
#pragma once

#include "autotune/model/boosted_trees.h"
#include "schedules/library/space.h"

namespace kumiko {

class ParameterModel {
public:
    explicit ParameterModel(const Space &space) : space_(space) {}

    void tell(const Point &point, double seconds); // infinite for one that failed
    // Whether enough was told to say anything.
    bool useful() const { return points_.size() >= 10; }
    // Greater is faster.
    std::vector<float> score(const std::vector<Point> &points);

private:
    std::vector<float> row(const Point &point) const;

    const Space &space_;
    std::vector<Point> points_;
    std::vector<double> seconds_;
    BoostedTrees trees_;
    size_t learnt_ = 0;
};

} // namespace kumiko
