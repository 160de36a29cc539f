// Loads the rows of a row product to GRF1 as vectors, a group of sets at a time.
#pragma once

#include "targets/chip/stage/row_product_memory.h"
#include "targets/chip/stage/row_product_moves.h"

#include <memory>

namespace kumiko::chip {

class ProductRows {
public:
    ProductRows(Context &c, const ProductForm &form, ProductMemory &memory) : f_(form), m_(memory), moves_(c, form) {}
    virtual ~ProductRows() = default;

    // Begins a tile. `part`: it has only a part of the columns, so each move has one block.
    void begin(bool part);
    bool holds(int64_t group) const { return group == group_; }
    void load(const Values &tile, int64_t group);
    // The address in GRF1 of the vector of a set of the current group, counted from its first set.
    virtual int64_t at(int64_t set, int64_t row) const = 0;

protected:
    const ProductForm &f_;
    ProductMemory &m_;
    ProductMoves moves_;
    // Transfers a group's words, from `within` on in its block, of rows whose `blocks` blocks are
    // adjacent in L2BM.
    virtual void transfer(int64_t l2bm, int64_t blocks, int64_t within) = 0;

private:
    int64_t move_blocks_ = 1;   // blocks of a row in a move
    std::vector<int64_t> l2bm_; // of the current tile, by move; −1: not loaded
    int64_t group_ = -1;
};

// For products whose reduction is distributed over the MABs: all L1Bs have the same rows.
class MabRows : public ProductRows {
public:
    using ProductRows::ProductRows;
    int64_t at(int64_t set, int64_t row) const override;

private:
    int64_t at_ = 0;
    void transfer(int64_t l2bm, int64_t blocks, int64_t within) override;
};

// For products whose reduction is distributed over two halves of the L1Bs (row_product_halves.cpp).
class HalvesRows : public ProductRows {
public:
    HalvesRows(Context &c, const ProductForm &form, ProductMemory &memory)
        : ProductRows(c, form, memory), l1bm_(size_t(form.vectors)) {}
    int64_t at(int64_t set, int64_t row) const override;

private:
    std::vector<int> pairs_;    // addresses in GRF1 of the current sets, by pair of sets and row
    std::vector<int64_t> l1bm_; // the current rows
    void transfer(int64_t l2bm, int64_t blocks, int64_t within) override;
};

} // namespace kumiko::chip
