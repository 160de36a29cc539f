// Pointwise ops that read along another axis than they write: matrices transposed, axes permuted. Blocks of both axes are read by rows
// and transposed in registers; two or three columns or rows are taken apart, or put together, by shuffles.
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

struct TransposeParameters {
    BOOST_HANA_DEFINE_STRUCT(TransposeParameters,
                             (Tile, lanes),    // elements of a run of the output, one from each of so many rows
                             (Tile, columns),  // elements of a row that are transposed at once
                             (Tile, block),    // elements of rows, over which runs of the output go on
                             (Tile, length),   // of a row of the output that follow each other in time; 0: a run
                             (Flag, parallel), // spread blocks over cores
                             (Flag,
                              whole)); // where axes of a length that a run tells hold a block, the last moves inwards
};

bool is_transpose(const Op &op);
TransposeParameters transpose_parameters(const Op &op, const Machine &machine);
Schedule schedule_transpose(const Op &op, const Machine &machine, const TransposeParameters &p);

} // namespace kumiko::library
