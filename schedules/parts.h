// What region divides: which stage computes which box of a tensor.
#pragma once

#include "schedules/frame.h"

namespace kumiko {

struct Piece {
    const StageState *stage;
    Region box;
};

// The box that a stage covers, with the regions in it: the whole domain, or its part.
Region box_of(const ScheduleState &state, const StageState &stage);
// The stages that compute `box` of a stage, in the order of their first indices: it itself, and between that its regions.
std::vector<Piece> pieces_of(const ScheduleState &state, const StageState &stage, const Region &box);
// The boxes that a stage computes itself.
std::vector<Region> own_boxes(const ScheduleState &state, const StageState &stage);
// The regions of a stage, by their first index.
std::vector<const StageState *> regions_of(const ScheduleState &state, const std::string &stage);

} // namespace kumiko
