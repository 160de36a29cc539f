// Products of matrices on CPUs with caches, after Goto and van de Geijn, "Anatomy of high-performance matrix multiplication"
// (ACM TOMS 34, 2008): a register tile of rows × vectors, blocks of the reduction so that a panel of B stays in the nearest
// cache and a block of A in the next, both copied into the order in which the tile reads them.
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

struct MatmulParameters {
    BOOST_HANA_DEFINE_STRUCT(
        MatmulParameters, (Tile, rows), // rows of C in registers
        (Tile, vectors),                // vectors of columns of C in registers
        (Tile, depth),                  // steps of the reduction between visits to C
        (Tile, row_block),              // rows of A in the second cache
        (Flag, pack_a),                 // copy the block of A into reading order
        // copy B: "panel" by panel, in "blocks" of all columns, "none"; or it comes so copied: "ahead"
        (Choice, pack_b), (Choice, outer), // "rows": blocks of rows outside those of depth; or "depth"
        (Flag, join),                      // add rounds of depth on leaving the tile
        (Flag, prefetch_c),                // ask for the next tile's partial results
        (Flag, prefetch_b),                // tiles ask by turns for the next columns of B where it is not copied
        (Tile, unroll_depth),              // copies of the innermost step
        // "plain"; "widened": copies hold the sum's type; or a tensor instruction. One that multiplies
        // tiles in memory looks at vectors, row_block and parallel only.
        (Choice, multiply),
        // spread "rows", "columns", a "grid" of both or parts of the "depth" over cores, or "none"
        (Choice, parallel),
        // a second kernel, by an instruction that is exact for small values of one operand only, which is looked at in each call;
        // not with pack_b "ahead", as there is one packed form
        (Flag, narrow));
};

bool is_matmul(const Op &op);
MatmulParameters matmul_parameters(const Op &op, const Machine &machine, PackedBy packed_by = PackedBy::Kernel);
Schedule schedule_matmul(const Op &op, const Machine &machine, const MatmulParameters &p);

// With the defaults for the machine.
Schedule matmul(const Op &op, const Machine &machine = Machine::host());

} // namespace kumiko::library
