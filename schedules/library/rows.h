// Ops that work row by row: reductions, softmax, norms, whose rows may have several axes. Every stage of a row is computed while the row
// is in the nearest cache; reductions along the row run in several vectors of partial results.
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

struct RowsParameters {
    BOOST_HANA_DEFINE_STRUCT(RowsParameters, (Tile, accumulators), // vectors of partial results of a reduction
                             (Tile, unroll),                       // vectors per iteration of an elementwise stage
                             (Tile, rows),      // rows in one task, of which pieces are read together
                             (Flag, prefetch),  // fetch the next row while functions of this one are computed
                             (Flag, parallel)); // spread tasks over cores
};

bool is_rows(const Op &op);
RowsParameters rows_parameters(const Op &op, const Machine &machine);
Schedule schedule_rows(const Op &op, const Machine &machine, const RowsParameters &p);

} // namespace kumiko::library
