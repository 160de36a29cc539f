// The directives of a chain with a given distribution.
#pragma once

#include "autotune/spaces/chip_distribution.h"
#include "schedules/schedule.h"

namespace kumiko {

// Throws as the directives do.
Schedule schedule_chain(const Op &op, const Machine &machine, const ChipFormula &formula,
                        const ChipDistribution &distribution, const Decisions &decisions);

} // namespace kumiko
