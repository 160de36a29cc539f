// Ops that work row by row, on the chip: reductions along the last axis, softmax, norms. A row is dealt over the lanes, PEs and MABs of an L1B (or, a
// short one, of some of its MABs), so that its sums meet by rotation and the tree's reductions; rows are dealt over L1Bs, L2Bs and groups. All
// stages of some rows run one after the other on what stands in the PEs. Rows that are longer than LM pass through it once for each stage.
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

struct ChipRowsParameters {
    BOOST_HANA_DEFINE_STRUCT(ChipRowsParameters, (Tile, rows), // of an L1B (of the MABs that share a row) at a time
                             (Tile, mabs),                     // that share a row
                             (Tile, steps), // words of a PE that a row has in LM at a time; 0: all of them
                             (Flag, wide)); // of rows that pass so: all L1Bs of an L2B share one
};

bool is_chip_rows(const Op &op);
bool chip_rows_fits(const Op &op, const Machine &machine); // a few whole rows stand in LM
bool chip_rows_fill(const Op &op, const Machine &machine); // each L1B has many rows
ChipRowsParameters chip_rows_parameters(const Op &op, const Machine &machine);
Schedule schedule_chip_rows(const Op &op, const Machine &machine, const ChipRowsParameters &p);

} // namespace kumiko::library
