// Rows of a table by number, on the chip: gathers and embeddings. Rows pass through L2BM; tables of moves are made of the indices there
// (targets/chip/stage/gather.h).
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

struct ChipGatherParameters {
    BOOST_HANA_DEFINE_STRUCT(ChipGatherParameters, (Tile, rows)); // of an L2B at a time
};

// One stage, which reads at an index that it reads.
bool is_chip_gather(const Op &op);
ChipGatherParameters chip_gather_parameters(const Op &op, const Machine &machine);
Schedule schedule_chip_gather(const Op &op, const Machine &machine, const ChipGatherParameters &p);

} // namespace kumiko::library
