// What else a space offers beside a point, and what that is expected to cost.
#pragma once

#include "autotune/build.h"
#include "autotune/model/cost_model.h"

namespace kumiko {

struct Alternative {
    std::string change;  // "e.at = root"
    double relative = 0; // counted time, the point's own is 1; 0: not known
    double score = 0;    // of the cost model, less the point's own: above 0 is faster
    std::string against; // why there is no schedule
};

// The neighbours of the point in the space (Space::neighbours): one step of an ordered parameter,
// or another value of another one. The best by the model first, those without a schedule last. Each
// is lowered as far as counting needs, which takes some milliseconds. Throws UserError unless
// `sizes` binds all sizes of the op, or if the point itself has no schedule.
std::vector<Alternative> alternatives(const Space &space, const Point &point, const CostModel &model, int threads,
                                      const Sizes &sizes);

} // namespace kumiko
