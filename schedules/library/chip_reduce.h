// Reductions along any axes on the chip: of columns, of several axes, of all. The last axis of what is read gives the lanes, the PEs and, where it
// is long enough, the MABs, whether it is kept or reduced; groups and L2Bs share kept axes, MABs and L1Bs what there is more of. The rest of
// the reduced axes is folded in time, from tiles that stream through LM.
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

struct ChipReduceParameters {
    BOOST_HANA_DEFINE_STRUCT(ChipReduceParameters, (Tile, points), // results of a PE at a time
                             (Tile, steps));                       // of each, elements in LM at a time
};

// One reduction of what is read at plain axes, and perhaps an elementwise stage behind it.
bool is_chip_reduce(const Op &op);
ChipReduceParameters chip_reduce_parameters(const Op &op, const Machine &machine);
Schedule schedule_chip_reduce(const Op &op, const Machine &machine, const ChipReduceParameters &p);

} // namespace kumiko::library
