// Reductions over windows of images on the chip: max_pool, average_pool. Channels map to lanes, PEs
// and some MABs, rows of the result to the units above. Windows are reduced in time, from a part of
// the image in LM.
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

struct ChipPoolParameters {
    BOOST_HANA_DEFINE_STRUCT(ChipPoolParameters, (Tile, rows), // of the result, per PE at a time
                             (Tile, columns));
};

// Whether the op is one reduction over windows of an input, possibly padded, and at most an
// elementwise stage that consumes it.
bool is_chip_pool(const Op &op);
ChipPoolParameters chip_pool_parameters(const Op &op, const Machine &machine);
Schedule schedule_chip_pool(const Op &op, const Machine &machine, const ChipPoolParameters &p);

} // namespace kumiko::library
