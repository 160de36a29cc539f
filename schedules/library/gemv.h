// Matrix–vector products, and products of few rows with a matrix. Each matrix element is read once,
// so the speed is that of streaming it from memory. If result columns are contiguous in the matrix,
// some of its rows at a time are added to vectors of results. If the reduction is contiguous, each
// result is a vectorized dot product, several at a time.
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

// Parameters of schedule_gemv().
struct GemvParameters {
    // vectors of results or partial sums in registers
    BOOST_HANA_DEFINE_STRUCT(GemvParameters, (Tile, vectors),
                             (Tile, rows),      // results per tile, if they are dot products
                             (Tile, depth),     // matrix rows per visit to the results
                             (Tile, unroll),    // unrolled copies of the innermost step
                             (Flag, parallel)); // distribute results over cores
};

// Whether the op is such a product with one row: all axes that only the vector has are of one
// element.
bool is_gemv(const Op &op);
GemvParameters gemv_parameters(const Op &op, const Machine &machine);
Schedule schedule_gemv(const Op &op, const Machine &machine, const GemvParameters &p);

// Schedules with the machine's defaults. Also for matrix products, as the specialization for one
// row:
//   Schedule s = library::matmul(op);
//   s.specialize(M == 1, library::gemv(op));
// Throws UserError if the op is neither a matrix product nor a matrix–vector product.
Schedule gemv(const Op &op, const Machine &machine = Machine::host());

} // namespace kumiko::library
