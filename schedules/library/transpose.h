// Pointwise ops that read along another axis than they write: matrices transposed, axes permuted.
// Blocks of both axes are read by rows and transposed in registers. Two or three columns or rows
// are interleaved or deinterleaved by shuffles.
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

// Parameters of schedule_transpose().
struct TransposeParameters {
    BOOST_HANA_DEFINE_STRUCT(TransposeParameters,
                             // elements of an output run, one from each of as many rows
                             (Tile, lanes),
                             // elements of a row that are transposed at once
                             (Tile, columns),
                             // elements of rows for which output runs continue
                             (Tile, block),
                             // elements of an output row written consecutively; 0: one run
                             (Tile, length),
                             // distribute blocks over cores
                             (Flag, parallel),
                             (Flag,
                              // if axes of unknown length hold a block, the last block is shifted
                              // inwards
                              whole));
};

bool is_transpose(const Op &op);
TransposeParameters transpose_parameters(const Op &op, const Machine &machine);
Schedule schedule_transpose(const Op &op, const Machine &machine, const TransposeParameters &p);

} // namespace kumiko::library
