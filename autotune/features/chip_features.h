// Features of a candidate for the chip, counted on its program (targets/chip/count.h), and an
// analytical estimate of its time.
//
// The estimate is a roofline with latency: the steps of the busiest unit, the DRAM cycles, and the
// latency of the data path. Features are fractions of that estimate, or relative to the minimum
// work of the op on that chip, so that a model generalises over shapes and chips.
#pragma once

#include "autotune/features/features.h"
#include "targets/chip/count.h"

namespace kumiko {

// Versions start at 1001. Versions of nest features (features_version) start at 1, so no number is
// used twice.
inline constexpr int chip_features_version = 1001;

// The name of each value, "unit.mau".
const std::vector<std::string> &chip_feature_names();

// `expected`: cycles predicted by the space (Space::estimate); 0: none.
NestCost chip_cost_of(const ChipCounts &counts, double expected = 0);
// For a schedule whose machine is a chip. Throws as compile_chip does.
NestCost chip_cost_of(const Schedule &schedule, double expected = 0);

} // namespace kumiko
