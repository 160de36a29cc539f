// Reductions over windows of images, on the chip: max_pool, average_pool. Lanes, PEs and some MABs have channels, the units above rows of the
// result; windows are reduced in time, from an image part that stands in LM.
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

struct ChipPoolParameters {
    BOOST_HANA_DEFINE_STRUCT(ChipPoolParameters, (Tile, rows), // of the result in a PE at a time
                             (Tile, columns));
};

// One reduction over windows, of an input or of one with a border, and perhaps an elementwise stage behind it.
bool is_chip_pool(const Op &op);
ChipPoolParameters chip_pool_parameters(const Op &op, const Machine &machine);
Schedule schedule_chip_pool(const Op &op, const Machine &machine, const ChipPoolParameters &p);

} // namespace kumiko::library
