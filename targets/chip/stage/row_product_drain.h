// Drains the sums of a row product: reduction over units, epilogue, assembly into rows, stores to
// DRAM.
#pragma once

#include "targets/chip/stage/row_product_epilogue.h"

#include <deque>
#include <memory>

namespace kumiko::chip {

class ProductDrain {
public:
    ProductDrain(Context &c, const ProductForm &form, ProductMemory &memory, ProductEpilogue &epilogue)
        : c_(c), f_(form), m_(memory), moves_(c, form), epilogue_(epilogue) {}
    virtual ~ProductDrain() = default;

    // Queues the sums of some pieces of a tile, in LM1 at sums_at, or drains them from GRF0 at
    // once.
    void drain(const Values &tile, int64_t sums_at, PieceSpan pieces);
    bool waiting() const { return !drains_.empty(); }
    // Drains some rows of the first waiting tile.
    virtual void next() = 0;
    // Drains all waiting tiles.
    void finish();
    // While rows are loaded, one store is placed for each so many groups of sets.
    virtual int64_t store_each() const { return 2; }
    // Places the moves of the oldest stored rows.
    void store_next();
    // Stores the results up to the one `lag` before the last, or all.
    void store_waiting() { store_until(drained_ - 1 - m_.lag); }
    void store_all() { store_until(drained_); }

protected:
    // A tile whose sums are being drained.
    struct TileDrain {
        Values tile;
        int64_t sums_at = -1; // address in LM1; −1: the sums are in GRF0
        int64_t done = 0;     // number of rows
        // Addresses of the current rows: reduced (sums) and finished (out) in L1BM, assembled rows
        // in L2BM.
        int64_t sums = 0, out = 0, l2bm = 0;
        std::vector<int64_t> rows; // the rows in L2BM, in order
        PieceSpan pieces{};        // the pieces to store
        bool backwards() const { return pieces.begin > 0; }
    };
    Context &c_;
    const ProductForm &f_;
    ProductMemory &m_;
    ProductMoves moves_;
    ProductEpilogue &epilogue_;
    std::deque<TileDrain> drains_;

    // Queues the stores of the current rows.
    void store(TileDrain &d);

private:
    // The moves that store a group of rows of results from L2BM.
    struct RowStore {
        int64_t number;
        std::vector<sim::Mv> moves;
    };
    int64_t drained_ = 0; // number of row groups assembled in L2BM
    std::deque<RowStore> stores_;
    void store_until(int64_t number);
};

// For products whose reduction is distributed over the MABs.
class MabDrain : public ProductDrain {
public:
    using ProductDrain::ProductDrain;
    void next() override;

protected:
    // Finishes rows whose reduced sums are in L1BM, and assembles them in L2BM.
    virtual void finish_rows(const TileDrain &d, int64_t first) = 0;
    // Appends pieces of the current rows to L2BM.
    void move_up(const TileDrain &d, int64_t piece, int64_t pieces);

private:
    // Reduces the sums of rows over the MABs into L1BM.
    void reduce_over_mabs(const TileDrain &d, int64_t first);
};

// Results of f16.
class NarrowDrain : public MabDrain {
public:
    using MabDrain::MabDrain;

private:
    void finish_rows(const TileDrain &d, int64_t first) override;
};

// Results of f32.
class WideDrain : public MabDrain {
public:
    using MabDrain::MabDrain;

private:
    void finish_rows(const TileDrain &d, int64_t first) override;
};

// For products whose reduction is distributed over two halves of the L1Bs (row_product_halves.cpp).
class HalvesDrain : public ProductDrain {
public:
    using ProductDrain::ProductDrain;
    void next() override;
    int64_t store_each() const override { return 1; }

private:
    // Rows that are drained together, and the addresses of their data in each step.
    struct Chunk {
        int64_t begin;     // the first row
        int64_t sums;      // L1BM: gathered
        int64_t scattered; // L1BM: reloaded by the PEs
        int64_t staged;    // L2BM: added
        int64_t registers; // LM1: reloaded
        int64_t out;       // L1BM: results
    };
    // Gathers the sums in L1BM, and adds those of both halves in L2BM.
    void reduce(const TileDrain &d, const Chunk &chunk);
    // Scatters both words of a sum to one PE.
    void reload(const Chunk &chunk);
    // Rounds the sums to f16.
    void finish_narrow(const TileDrain &d, const Chunk &chunk);
    // Orders the sums of f32.
    void finish_wide(const TileDrain &d, const Chunk &chunk);
    // Appends a row of results to L2BM.
    void move_up(int64_t l1bm, int64_t l2bm);
};

std::unique_ptr<ProductDrain> make_drain(Context &c, const ProductForm &form, ProductMemory &memory,
                                         ProductEpilogue &epilogue);

} // namespace kumiko::chip
