// Chip spaces derived from a formula: see auto_space.h.
#pragma once

#include "schedules/library/space.h"

namespace kumiko {

// Throws Unsupported if the op is neither a chain nor a product on the chip.
std::unique_ptr<Space> chip_space(const Op &op, const Machine &machine);

} // namespace kumiko
