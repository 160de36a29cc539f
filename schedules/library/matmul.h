// Matrix products on CPUs with caches, after Goto and van de Geijn, "Anatomy of high-performance
// matrix multiplication" (ACM TOMS 34, 2008). A register tile of rows × vectors; blocks of the
// reduction such that a panel of B stays in L1 and a block of A in L2; both packed in the order in
// which the tile reads them.
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

// Parameters of schedule_matmul().
struct MatmulParameters {
    BOOST_HANA_DEFINE_STRUCT(
        // rows of C in registers
        MatmulParameters, (Tile, rows),
        // vectors of columns of C in registers
        (Tile, vectors),
        // steps of the reduction per visit to C
        (Tile, depth),
        // rows of A per L2 block
        (Tile, row_block),
        // pack the block of A
        (Flag, pack_a),
        // pack_b: B is packed "panel" by panel, in "blocks" of all columns, "none" or "ahead"
        // outer: the outer blocks, "rows" or "depth"
        (Choice, pack_b), (Choice, outer),
        // add each depth block's sums to C when the tile ends
        (Flag, join),
        // prefetch the next tile's partial results
        (Flag, prefetch_c),
        // tiles take turns to prefetch the next columns of unpacked B
        (Flag, prefetch_b),
        // unrolled copies of the innermost step
        (Tile, unroll_depth),
        // "plain"; "widened": copies have the sum's type; or a tensor instruction. An instruction
        // on tiles in memory only uses vectors, row_block and parallel.
        (Choice, multiply),
        // distribute "rows", "columns", a "grid" of both or parts of the "depth" over cores, or
        // "none"
        (Choice, parallel),
        // a second kernel with an instruction that is exact only for small values of one operand;
        // each call checks these values. Not with pack_b "ahead", which has one packed form.
        (Flag, narrow));
};

bool is_matmul(const Op &op);
MatmulParameters matmul_parameters(const Op &op, const Machine &machine, PackedBy packed_by = PackedBy::Kernel);
Schedule schedule_matmul(const Op &op, const Machine &machine, const MatmulParameters &p);

// Schedules with the machine's defaults.
Schedule matmul(const Op &op, const Machine &machine = Machine::host());

} // namespace kumiko::library
