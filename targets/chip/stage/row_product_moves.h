// The transfers of a row product: moves between DRAM and L2BM, and steps of the tree.
#pragma once

#include "targets/chip/stage/row_product_form.h"

#include <array>

namespace kumiko::chip {

// Four addresses, as a start and a stride if they are regular.
sim::Operand four_of(sim::Source memory, const std::array<int, 4> &at);

class ProductMoves {
public:
    ProductMoves(Context &c, const ProductForm &form) : c_(c), f_(form) {}

    // A move between a group's DRAM and L2Bs, without addresses.
    sim::Mv between(uint32_t l2bs, int group, bool store) const;
    // The moves of each class for blocks [block, block + blocks) of the rows, row after row.
    // Results of rows beyond the last are not stored, so L2Bs with only such rows load another
    // class's.
    std::vector<std::vector<sim::Mv>> loads(const ProductView &view, std::vector<L2bRows> classes, int64_t block,
                                            int64_t blocks, int64_t l2bm) const;
    // Places these moves.
    void load(const ProductView &view, const std::vector<L2bRows> &classes, int64_t block, int64_t blocks,
              int64_t l2bm);
    // Moves rows with fewer than 64 LW in an L2B by granules, through a table that the host writes.
    // The excess of a whole block of 64 LW goes to a dummy destination.
    void granules(const ProductView &view, const std::vector<DramPlace> &at, int64_t l2bm, uint32_t l2bs, bool store,
                  std::vector<sim::Mv> &all);
    // One L2 step between these addresses.
    void l2_step(sim::L2 slot, int64_t l2bm, int64_t l1bm);
    // One L1 step to four addresses.
    void to_pes(sim::L1Op op, int width, int64_t l1bm, std::array<int, 4> at, bool to_lm, uint32_t mabs);
    // Distributes rows of 64 LW, whose words belong to some sets of some rows.
    void distribute(int64_t l1bm, const std::function<int64_t(int64_t row, int64_t set)> &to, bool to_lm,
                    uint32_t mabs);

private:
    Context &c_;
    const ProductForm &f_;
};

} // namespace kumiko::chip
