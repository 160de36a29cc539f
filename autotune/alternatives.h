// What else a space offers beside a point, and what that is expected to cost.
#pragma once

#include "autotune/build.h"
#include "autotune/model/cost_model.h"

namespace kumiko {

struct Alternative {
    std::string change;  // "e.at = root"
    double estimate = 0; // the analytical estimate, in that of the point itself; 0: there is no schedule
    double score = 0;    // of the cost model, less that of the point: above 0 it is expected to be faster
    std::string against; // why there is no schedule
};

// All that differs from the point by one step of one parameter, the best by the model first; those without a
// schedule last. Each is lowered as far as counting needs, which takes some milliseconds.
std::vector<Alternative> alternatives(const Space &space, const Point &point, const CostModel &model, int threads,
                                      const Sizes &sizes);

} // namespace kumiko
