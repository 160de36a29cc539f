// Spaces of the chip made from the structure of a formula: see auto_space.h.
#pragma once

#include "schedules/library/space.h"

namespace kumiko {

// Throws Unsupported for an op of which the chip makes no chain and no product.
std::unique_ptr<Space> chip_space(const Op &op, const Machine &machine);

} // namespace kumiko
