// Numbers that describe a candidate for a chip, counted of the program that it would become (targets/chip/count.h), and an estimate of its
// time that needs no learning.
//
// The estimate is a roofline with latency: the steps of the busiest unit, the cycles of DRAM, and the steps that data takes on its way if
// there were units enough. Features are shares of that estimate, or relative to what the op has to do at least on that chip, so that what
// is learnt of one shape or chip holds for another.
#pragma once

#include "autotune/features/features.h"
#include "targets/chip/count.h"

namespace kumiko {

// Versions of these count from 1001 on, those of nests (features_version) from 1, so that neither is read as the other.
inline constexpr int chip_features_version = 1001;

// What each value is, "unit.mau".
const std::vector<std::string> &chip_feature_names();

// `expected`: cycles that the space's author expects (Space::estimate), 0: he does not say.
NestCost chip_cost_of(const ChipCounts &counts, double expected = 0);
// Of a schedule, whose machine is a chip. Throws as compile_chip.
NestCost chip_cost_of(const Schedule &schedule, double expected = 0);

} // namespace kumiko
