// The neighbours of a point in its space, with their predicted cost.
#pragma once

#include "autotune/build.h"
#include "autotune/model/cost_model.h"

namespace kumiko {

struct Alternative {
    std::string change;  // "e.at = root"
    double relative = 0; // counted time relative to the point's; 0: unknown
    double score = 0;    // score of the cost model minus the point's: above 0 is predicted faster
    std::string against; // why there is no schedule; "" otherwise
};

// The neighbours of the point (Space::neighbours): one step of an ordered parameter, or another
// value of an unordered one. Sorted by the model's score, those without a schedule last. Each is
// lowered as far as counting needs, which takes a few milliseconds. Throws UserError unless `sizes`
// binds all sizes of the op, or if the point itself has no schedule.
std::vector<Alternative> alternatives(const Space &space, const Point &point, const CostModel &model, int threads,
                                      const Sizes &sizes);

} // namespace kumiko
