// Products of a matrix with a vector, and of one with few rows of another: every element of the matrix is read once, so what
// counts is that it streams from memory. Where the columns of the result lie beside each other in the matrix, some rows of it
// are added at a time to vectors of results; where the reduction does, each result is a dot product in vectors, some
// side by side.
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

struct GemvParameters {
    BOOST_HANA_DEFINE_STRUCT(GemvParameters, (Tile, vectors), // vectors of results in registers, or of partial sums
                             (Tile, rows),                    // results that are dot products, side by side
                             (Tile, depth),                   // rows of the matrix between visits to the results
                             (Tile, unroll),                  // copies of the innermost step
                             (Flag, parallel));               // spread results over cores
};

// The op is such a product, and the vector is one: its rows, if it has any, are one.
bool is_gemv(const Op &op);
GemvParameters gemv_parameters(const Op &op, const Machine &machine);
Schedule schedule_gemv(const Op &op, const Machine &machine, const GemvParameters &p);

// With the defaults for the machine. Also for products of matrices, as the schedule for the sizes that leave one row:
//   Schedule s = library::matmul(op);
//   s.specialize(M == 1, library::gemv(op));
// Throws UserError when the op is no product of matrices, nor of a matrix with a vector.
Schedule gemv(const Op &op, const Machine &machine = Machine::host());

} // namespace kumiko::library
