// Row-by-row ops on the chip: reductions along the last axis, softmax, norms. A row is distributed
// over the lanes, PEs and MABs of an L1B (a short row over some of its MABs); its sums are combined
// by rotation and by the tree's reductions. L1Bs, L2Bs and groups divide rows. All stages run one
// after the other on the rows held by the PEs. Rows longer than LM stream through it once per
// stage.
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

struct ChipRowsParameters {
    BOOST_HANA_DEFINE_STRUCT(ChipRowsParameters, (Tile, rows), // per L1B (or MAB set)
                             // MABs that share a row
                             (Tile, mabs),
                             // words of a row per PE in LM at a time; 0: all
                             (Tile, steps),
                             // streamed rows: all L1Bs of an L2B share one
                             (Flag, wide));
};

bool is_chip_rows(const Op &op);
bool chip_rows_fits(const Op &op, const Machine &machine); // LM holds a few whole rows
bool chip_rows_fill(const Op &op, const Machine &machine); // each L1B has many rows
ChipRowsParameters chip_rows_parameters(const Op &op, const Machine &machine);
Schedule schedule_chip_rows(const Op &op, const Machine &machine, const ChipRowsParameters &p);

} // namespace kumiko::library
