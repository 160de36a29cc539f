// Reductions along any axes on the chip: columns, several axes, or all. The last axis of the tensor
// read, kept or reduced, maps to lanes, PEs and, if long enough, MABs. Groups and L2Bs divide kept
// axes; MABs and L1Bs divide whichever axes are longer. The rest of the reduction runs in time,
// over tiles that stream through LM.
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

struct ChipReduceParameters {
    BOOST_HANA_DEFINE_STRUCT(ChipReduceParameters, (Tile, points), // results per PE at a time
                             // elements per result in LM at a time
                             (Tile, steps));
};

// Whether the op is one reduction with reads at plain axes, and at most an elementwise stage that
// consumes it.
bool is_chip_reduce(const Op &op);
ChipReduceParameters chip_reduce_parameters(const Op &op, const Machine &machine);
Schedule schedule_chip_reduce(const Op &op, const Machine &machine, const ChipReduceParameters &p);

} // namespace kumiko::library
