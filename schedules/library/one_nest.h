// Stages over the same elements in one loop nest, so that these are read once.
#pragma once

#include "schedules/schedule.h"

namespace kumiko::library {

// Computes stages that read a tensor in common in one nest (compute_with), where their loops are
// alike, no other is needed between, and their accumulators fit the registers together. Takes a
// schedule whose loops are complete. Stages in `left_out` stay as they are; their loops may be
// incomplete.
void share_nests(Schedule &schedule, const std::set<std::string> &left_out = {});

// Computes a pointwise stage in the loops of a reduction over the same elements, if both read a
// tensor in common. The reduction has its loops, and the stage has none yet. Returns false and
// changes nothing if there is no such reduction, or if one of the two needs the other.
bool join_partial_sums(Schedule &schedule, const Stage &stage);

} // namespace kumiko::library
