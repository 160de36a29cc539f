#include "autotune/parameter_model.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kumiko {

namespace {

constexpr size_t max_columns_each = 12; // for the values of one unordered parameter

} // namespace

void ParameterModel::tell(const Point &point, double seconds) {
    points_.push_back(point);
    seconds_.push_back(seconds);
}

// One column per ordered parameter; otherwise one column per value (one-hot).
std::vector<float> ParameterModel::row(const Point &point) const {
    std::vector<float> values;
    for (size_t i = 0; i < point.size(); i++) {
        const ParameterInfo &p = space_.parameters()[i];
        if (p.ordered || p.values.size() > max_columns_each) {
            values.push_back(static_cast<float>(point[i]));
        } else {
            for (size_t v = 0; v < p.values.size(); v++) values.push_back(point[i] == v ? 1.f : 0.f);
        }
    }
    values.push_back(0); // a space may have no parameters
    return values;
}

std::vector<float> ParameterModel::score(const std::vector<Point> &points) {
    if (!useful()) return std::vector<float>(points.size(), 0.f);
    if (learned_ != points_.size()) {
        double best = std::numeric_limits<double>::infinity();
        for (double s : seconds_) best = std::min(best, s);
        Rows rows;
        std::vector<float> targets;
        for (size_t i = 0; i < points_.size(); i++) {
            rows.add(row(points_[i]));
            const double behind = std::isfinite(seconds_[i]) ? std::log2(seconds_[i] / best) : 5;
            targets.push_back(static_cast<float>(-std::min(4.0, behind)));
        }
        TreeOptions o;
        o.rounds = 40;
        o.depth = 4;
        o.rate = 0.2;
        trees_ = BoostedTrees();
        trees_.fit(rows, targets, o);
        learned_ = points_.size();
    }
    Rows rows;
    for (const Point &p : points) rows.add(row(p));
    return trees_.predict(rows);
}

} // namespace kumiko
