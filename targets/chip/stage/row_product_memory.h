// The memory of a row product: addresses, rings, and the sizes of moves that follow from them.
#pragma once

#include "targets/chip/stage/row_product_form.h"

#include <deque>

namespace kumiko::chip {

class ProductEpilogue;

struct ProductMemory {
    std::vector<int64_t> panel_slots;
    int64_t ahead = 1; // number of panels in LM at a time
    // Tiles of a panel whose sums are spilled to LM1 while columns are loaded; the address of these
    // sums.
    int64_t spilled_tiles = 0, spilled_sums = 0;
    // Late pieces; tiles of a panel that are computed with the other pieces first.
    int64_t late = 0, before_late = 0;
    int64_t complete = -1; // the address in LM1 of complete sums; −1: they stay in GRF0
    int64_t set_words = 0;
    Ring vectors_ring;
    Ring x_loads, w_loads, epilogue_loads, results; // L2BM
    Ring l1_loads, l1_sums, l1_results;             // L1BM
    Ring late_loads, late_l1;                       // L2BM, L1BM
    // Per move: blocks of 64 LW of a row used with all columns, of a column; rows of a matrix.
    int64_t whole_x_blocks = 1, w_blocks = 1, w_rows = 16;
    int64_t l1_rows = 16;                   // of w_rows, those in L1BM at a time
    int64_t lag = 0;                        // number of results waiting in L2BM
    int64_t drain_each = 1;                 // groups of sets between two drain steps
    int64_t drain_rows = 1, store_rows = 1; // rows of a tile moved from L1BM and L2BM at a time

    // For k over halves of the L1Bs: free pairs of words in GRF1; the limit of pieces with pending
    // transfers. L1BM: rows; L2BM: reduced sums; L1BM: reloaded sums.
    std::deque<int> x_free;
    int64_t pending_limit = 0;
    Ring x_rows, staged, reloaded;

    PieceSpan early_pieces(const ProductForm &f) const { return {0, f.pieces - late}; }
    PieceSpan late_pieces(const ProductForm &f) const { return {f.pieces - late, f.pieces}; }
};

// Allocates it, and the memory of the epilogue. Throws UserError with the sizes if it does not fit.
class ProductPlanner {
public:
    ProductPlanner(Context &c, const ProductForm &form, ProductMemory &memory, ProductEpilogue &epilogue)
        : c_(c), f_(form), m_(memory), epilogue_(epilogue) {}
    // Allocates everything.
    void plan(const ScheduleState &state);

private:
    Context &c_;
    const ProductForm &f_;
    ProductMemory &m_;
    ProductEpilogue &epilogue_;

    // LM: the columns, and sums beside them. GRFs: registers of the epilogue.
    void take_columns(const ScheduleState &state);
    // Decides where complete and spilled sums are kept.
    void plan_sums(int64_t words);
    // Decides whether a quarter of the columns is loaded late.
    void stream_late();
    // The cycles that loading `rows` rows into every L2B takes.
    double load_cycles(const ProductView &view, double rows) const;
    // L1BM and L2BM, for k over the MABs.
    void begin_memory();
    // The same for k over halves of the L1Bs.
    void begin_halves();
};

} // namespace kumiko::chip
