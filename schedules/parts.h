// Results of the directive region: which stage computes which box of a tensor.
#pragma once

#include "schedules/frame.h"

namespace kumiko {

// A box of a tensor, and the stage that computes it.
struct Piece {
    const StageState *stage;
    Region box;
};

// The box covered by a stage together with its regions: the whole domain, or its part.
Region box_of(const ScheduleState &state, const StageState &stage);
// The stages that compute `box`, by first index: the stage itself, interrupted by its regions.
std::vector<Piece> pieces_of(const ScheduleState &state, const StageState &stage, const Region &box);
// The boxes that the stage computes itself: pieces_of() without those of its regions.
std::vector<Region> own_boxes(const ScheduleState &state, const StageState &stage);
// The regions of a stage, by first index.
std::vector<const StageState *> regions_of(const ScheduleState &state, const std::string &stage);

} // namespace kumiko
