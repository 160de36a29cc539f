#include "targets/chip/stage/row_product_rows.h"

#include <algorithm>

namespace kumiko::chip {

using namespace sim;

void ProductRows::begin(bool part) {
    move_blocks_ = part ? 1 : m_.whole_x_blocks;
    l2bm_.assign(size_t(ceil_div(f_.blocks, move_blocks_)), -1);
    group_ = -1;
}

void ProductRows::load(const Values &tile, int64_t group) {
    const int64_t block = group * f_.sets_of_step / f_.sets_of_block, move = block / move_blocks_;
    const int64_t count = std::min(move_blocks_, f_.blocks - move * move_blocks_) * f_.parts;
    int64_t &l2bm = l2bm_[size_t(move)];
    if (l2bm < 0) {
        l2bm = m_.x_loads.next(f_.vectors * count * block_words);
        const auto all = f_.classes(tile, [&](Values &values, L2bRows &c) {
            for (int64_t v = 0; v < f_.vectors; v++) {
                values[f_.vector] = v;
                c.rows.push_back(f_.x.row(values));
            }
        });
        moves_.load(f_.x, all, move * move_blocks_ * f_.parts, count, l2bm);
    }
    group_ = group;
    transfer(l2bm + block % move_blocks_ * f_.parts * block_words, count,
             group * f_.sets_of_step % f_.sets_of_block * f_.distribution);
}

void MabRows::transfer(int64_t l2bm, int64_t blocks, int64_t within) {
    at_ = m_.vectors_ring.next(m_.set_words);
    for (int64_t r = 0; r < f_.vectors; r += f_.rows_of_step) {
        const int64_t l1bm = m_.l1_loads.next(f_.rows_of_step * block_words);
        for (int64_t i = 0; i < f_.rows_of_step; i++) {
            L2 s;
            s.op = L2Op::Broadcast;
            moves_.l2_step(s, l2bm + (r + i) * blocks * block_words, l1bm + i * block_words);
        }
        moves_.distribute(
            l1bm + within, [&](int64_t row, int64_t set) { return at(set, r + row); }, false, all_units);
    }
}

// For two alternating sets, both words of a row are adjacent.
int64_t MabRows::at(int64_t set, int64_t row) const {
    return f_.sides > 1 ? at_ + (set / 2 * f_.vectors + row) * 2 + set % 2 : at_ + set * f_.vectors + row;
}

} // namespace kumiko::chip
