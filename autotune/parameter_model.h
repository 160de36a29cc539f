// Predicts times from the parameter values of measured points, without lowering. It costs
// microseconds per point, and so filters thousands of points before a few are lowered.
#pragma once

#include "autotune/model/boosted_trees.h"
#include "schedules/library/space.h"

namespace kumiko {

class ParameterModel {
public:
    explicit ParameterModel(const Space &space) : space_(space) {}

    void tell(const Point &point, double seconds); // infinite if the point failed
    // Whether there are enough measurements.
    bool useful() const { return points_.size() >= 10; }
    // Higher is predicted faster.
    std::vector<float> score(const std::vector<Point> &points);

private:
    std::vector<float> row(const Point &point) const;

    const Space &space_;
    std::vector<Point> points_;
    std::vector<double> seconds_;
    BoostedTrees trees_;
    size_t learned_ = 0;
};

} // namespace kumiko
