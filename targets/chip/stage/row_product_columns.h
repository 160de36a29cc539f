// Loads the columns of a row product to LM, and writes them to the faces of the matrix units.
#pragma once

#include "targets/chip/stage/row_product_memory.h"
#include "targets/chip/stage/row_product_moves.h"

#include <deque>
#include <functional>
#include <memory>

namespace kumiko::chip {

// The two faces of each matrix unit, which take matrices alternately.
class MatrixFaces {
public:
    MatrixFaces(Context &c, const ProductForm &form) : c_(c), f_(form) {}
    // The operand for rows of a matrix in LM: four cycles, with one word of each PE for a row.
    sim::Operand rows_at(int64_t at) const;
    // Writes the matrix at this address of LM to the current face.
    void write(int64_t at);
    int current() const { return face_; }
    void next() { face_ ^= 1; }

private:
    Context &c_;
    const ProductForm &f_;
    int face_ = 0;
};

// Loads the columns of a panel, load by load in a fixed order. Some loads leave transfers from L1BM
// to LM pending, which are placed one by one between the work of the matrix units.
class ProductColumns {
public:
    ProductColumns(Context &c, const ProductForm &form, ProductMemory &memory)
        : c_(c), f_(form), m_(memory), moves_(c, form) {}
    virtual ~ProductColumns() = default;

    // The number of pieces in which the columns of a block of k are loaded.
    virtual int64_t pieces() const { return f_.pieces; }
    // The number of loads for the first `blocks` blocks of k, without late columns.
    virtual int64_t loads_until(int64_t blocks) const = 0;
    // Places the next load.
    virtual void load_next(ColumnPanel &panel) = 0;
    // Loads until a piece of a block is in LM.
    void require(ColumnPanel &panel, int64_t block, int64_t piece);

    // Queues all late columns of a panel. share_late() transfers a group of sets' share of them.
    virtual void queue_late(ColumnPanel &) {}
    virtual void share_late() {}
    // Called before each matrix is written to a face, which needs the port of LM.
    virtual void before_matrix() {}
    // Places all pending transfers.
    void transfer_all();

protected:
    Context &c_;
    const ProductForm &f_;
    ProductMemory &m_;
    ProductMoves moves_;
    std::deque<std::function<void()>> pending_;
    // Places the oldest pending transfer.
    void transfer_next();
};

// Pieces of 8 LW of the result's rows, one after the other, all MABs of a side having the same
// columns.
class PieceColumns : public ProductColumns {
public:
    using ProductColumns::ProductColumns;
    int64_t loads_until(int64_t blocks) const override;
    void load_next(ColumnPanel &panel) override;
    void queue_late(ColumnPanel &panel) override;
    void share_late() override;

private:
    struct PendingLoad { // blocks of one piece of the columns being loaded
        ColumnPanel &panel;
        int64_t block, count, piece;
        Ring &loads, &l1_loads; // L2BM, L1BM
        // Rows of each matrix: the first of the current ones, the number per move, the number in
        // L1BM.
        int64_t begin, w_rows, l1_rows;
        std::vector<int64_t> l2bm, l1bm; // by L1B and matrix; by matrix
        std::vector<int> groups;         // of DRAM, by L1B and matrix
        // L1B-and-matrix numbers that are transferred together: one, or a pair.
        std::vector<std::vector<int64_t>> batches;
    };
    // The number of late transfers; groups of sets since they were queued.
    int64_t late_steps_ = 0, late_groups_ = 0;

    // Starts loading a piece of some blocks.
    PendingLoad begin_load(ColumnPanel &panel, int64_t block, int64_t piece, bool late);
    // The rows that each L2B needs of a matrix.
    std::vector<L2bRows> column_classes(const PendingLoad &c, int64_t part, int64_t begin, int64_t n) const;
    // Transfers the current rows of one matrix, or of a pair, to L1BM.
    void transfer_to_l1(PendingLoad &c, const std::vector<int64_t> &parts);
    // Distributes the current rows of a matrix to LM.
    void distribute_matrix(const PendingLoad &c, int64_t e);
    // Marks the blocks as loaded.
    static void mark_loaded(const PendingLoad &c);
    // Loads a piece of the columns.
    void load_piece(ColumnPanel &panel, int64_t block, int64_t piece);
};

// B [k][j]: rows in DRAM are those of k, 16 for a MAB, and their words are columns. An L2BM scatter
// distributes pieces of 8 LW to the L1Bs, a broadcast sends each MAB its rows, and the faces
// transpose them in place.
class AcrossColumns : public ProductColumns {
public:
    AcrossColumns(Context &c, const ProductForm &form, ProductMemory &memory, MatrixFaces &faces)
        : ProductColumns(c, form, memory), faces_(faces) {}
    int64_t loads_until(int64_t blocks) const override;
    void load_next(ColumnPanel &panel) override;

private:
    MatrixFaces &faces_;
    // Loads a chunk of columns of B [k][j].
    void load_across(ColumnPanel &panel, int64_t block, int64_t chunk);
};

// For k over halves of the L1Bs: the columns of one MAB after the other, one block for each half
// (row_product_halves.cpp).
class HalvesColumns : public ProductColumns {
public:
    using ProductColumns::ProductColumns;
    int64_t pieces() const override { return f_.mabs; }
    int64_t loads_until(int64_t blocks) const override;
    void load_next(ColumnPanel &panel) override { load_half(panel, int64_t(panel.loads_done++)); }
    void before_matrix() override;

private:
    int64_t pending_pieces_ = 0;  // number of pieces with pending transfers
    std::deque<int64_t> columns_; // addresses in L1BM of columns being loaded

    // Loads the columns of one MAB.
    void load_half(ColumnPanel &panel, int64_t number);
};

std::unique_ptr<ProductColumns> make_columns(Context &c, const ProductForm &form, ProductMemory &memory,
                                             MatrixFaces &faces);

} // namespace kumiko::chip
