// Gathers and embeddings on the chip: rows of a table, selected by index. Rows pass through L2BM,
// where tables of moves are built from the indices (targets/chip/stage/gather.h).
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

struct ChipGatherParameters {
    BOOST_HANA_DEFINE_STRUCT(ChipGatherParameters, (Tile, rows)); // rows per L2B at a time
};

// Whether the op is one stage that reads at an index loaded from a tensor.
bool is_chip_gather(const Op &op);
ChipGatherParameters chip_gather_parameters(const Op &op, const Machine &machine);
Schedule schedule_chip_gather(const Op &op, const Machine &machine, const ChipGatherParameters &p);

} // namespace kumiko::library
