// Stages over the same elements in one loop nest, so that these elements are read once.
#pragma once

#include "schedules/schedule.h"

namespace kumiko::library {

// Computes stages that read a common tensor in one nest (compute_with), if their loops are alike,
// no other stage is needed between them, and their accumulators fit the registers together. Takes a
// schedule whose loops are complete. Stages in `left_out` are unchanged; their loops may be
// incomplete.
void share_nests(Schedule &schedule, const std::set<std::string> &left_out = {});

// Computes a pointwise stage in the loops of a reduction over the same elements, if both read a
// common tensor. The reduction must have its loops already, the stage none yet. Returns false and
// changes nothing if there is no such reduction, or if one of the two reads the other.
bool join_partial_sums(Schedule &schedule, const Stage &stage);

} // namespace kumiko::library
