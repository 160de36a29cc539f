// A matrix product from DRAM to DRAM with all tensors row-major (dram_order.h): C[i][j] = Σ_k
// A[i][k] · B[j][k].
//
//   k is distributed over the MABs (a bound reduction loop): MAB m has 16 elements (f32: 8) of each
//     16·M, from 16·m on. So an L1BM scatter, which sends neighbouring words of a row to
//     neighbouring PEs, delivers operands to where they are used. `l1.reduce` adds the partial
//     sums.
//     Alternatively k is distributed over every fourth MAB, and four neighbouring MABs (sides) have
//     columns of their own: a broadcast in 4×4 mode sends them the same words, and `l1.reduce` adds
//     the MABs of one side at a time. That broadcast gives a PE two adjacent words, so the words of
//     each 32·M elements of k alternate between two sets, in rows and columns alike.
//     Or k is distributed over halves of the L1Bs, and each MAB has its own columns:
//     row_product_halves.cpp.
//   j is distributed over L1Bs, L2Bs and groups: the columns of an L1B stay in LM as matrices of 16
//     columns and are loaded into the faces from there.
//   i is sequential: V rows, the same in all L1Bs of an L2B, stream through L1BM into GRF1 as
//     vectors; each is used for all matrices of the L1B, then discarded. The sums of V rows and all
//     columns of the L1B are in GRF0, and are drained during the next rows.
//   While columns are being loaded, the first row tiles are computed block by block of k: the sums
//     of such a tile are spilled to LM1, if it has room, until the next block arrives, so that
//     there is work during the whole load. If all MABs have the same columns, the first tiles are
//     computed with three quarters of the columns while the last quarter is loaded, and with that
//     quarter later (late columns).
//
// For each tile of V rows and each 16·M elements of k (a set), and for each matrix of 16 columns:
// the matrix is written to a face, then V vectors are multiplied. Neighbouring L1Bs have
// neighbouring pieces of 8 LW of a row of C, the order in which `l2.gather` assembles rows.
//
// RowProduct is the order of the work. The parts that differ are strategies, chosen once:
//
//   interface       strategies
//   ProductColumns  PieceColumns, AcrossColumns (B[k][j]), HalvesColumns
//   ProductRows     MabRows, HalvesRows
//   ProductDrain    NarrowDrain (f16), WideDrain (f32), HalvesDrain
//
// They share a ProductForm (what the loops mean), a ProductMemory (addresses, sizes of moves) and
// ProductMoves (transfers).
#pragma once

#include "targets/chip/stage/row_product_columns.h"
#include "targets/chip/stage/row_product_drain.h"
#include "targets/chip/stage/row_product_rows.h"

namespace kumiko::chip {

class RowProduct {
public:
    // Whether the stage has this form: a reduction loop is bound to MABs or to L1Bs.
    static bool is_one(const StageState &stage);

    // Throws Unsupported, with the supported order, for loops in another order.
    RowProduct(Context &c, const ScheduleState &state, const StageState &stage, const StageState *finished);
    void run();

private:
    Context &c_;
    ProductForm f_;
    ProductMemory m_;
    ProductEpilogue epilogue_;
    MatrixFaces faces_;
    std::unique_ptr<ProductColumns> columns_;
    std::unique_ptr<ProductRows> rows_;
    std::unique_ptr<ProductDrain> drain_;
    std::vector<ColumnPanel> panels_;

    // Computes the sets [begin, end) of a tile with some pieces of the columns.
    void compute_part(size_t number, ColumnPanel &panel, PieceSpan pieces, int64_t begin, int64_t end, int64_t sums_at);
    // Loads a group of sets of the rows, and places a share of the other transfers.
    void begin_group(const Values &tile, int64_t group);
    // Multiplies the matrix in the current face with the vectors of a set.
    void multiply(int64_t t, int64_t s, bool first, bool last, int64_t sums_at);
    int64_t spilled_sums_at(int64_t tile) const {
        return m_.spilled_sums + tile * f_.sum_words * f_.vectors * f_.matrices;
    }
    // Computes the first tiles block by block while columns are loaded; returns the first block
    // left.
    int64_t compute_while_loading(ColumnPanel &panel);
    // Computes the first tiles without the late columns, which are loaded meanwhile.
    void compute_before_late(ColumnPanel &panel);
    // Sets the sums of these pieces to zero.
    void zero_sums(PieceSpan pieces);
    // Computes all tiles of a panel.
    void run_panel(size_t p);
    // Computes a tile from a block of k on, and queues its sums.
    void finish_tile(ColumnPanel &panel, size_t n, PieceSpan pieces, int64_t block, int64_t sums_at);
    // Prints the loops for the level l2.
    void describe();
};

} // namespace kumiko::chip
