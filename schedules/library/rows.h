// Row-by-row ops: reductions, softmax and norms, where a row may have several axes. All stages of a
// row are computed while the row is in L1 or L2. Reductions along the row use several vectors of
// partial results.
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

// Parameters of schedule_rows().
struct RowsParameters {
    BOOST_HANA_DEFINE_STRUCT(RowsParameters, (Tile, accumulators), // vectors of partial results
                             // vectors per iteration of an elementwise stage
                             (Tile, unroll),
                             // rows per task; of rows in pieces, rows read together
                             (Tile, rows),
                             // prefetch the next row while functions are computed
                             (Flag, prefetch),
                             // distribute tasks over cores
                             (Flag, parallel));
};

bool is_rows(const Op &op);
RowsParameters rows_parameters(const Op &op, const Machine &machine);
Schedule schedule_rows(const Op &op, const Machine &machine, const RowsParameters &p);

} // namespace kumiko::library
