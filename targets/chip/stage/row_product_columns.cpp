#include "targets/chip/stage/row_product.h"

#include "dsl/types.h"

#include <algorithm>

namespace kumiko::chip {

using namespace sim;

namespace {

constexpr int64_t block_words = 64;

} // namespace

// Matrix t of the L1B, set s.
int64_t RowProduct::face_at(const Panel &panel, int64_t t, int64_t s) const {
    const int64_t padded = (sets_ + sets_of_step_ - 1) / sets_of_step_ * sets_of_step_;
    return panel.at + side_ * (w_.across ? s * matrices_ + t : t * padded + s);
}

// Eight rows of a matrix in LM, a word of each PE for a row.
Operand RowProduct::rows_at(int64_t at) const {
    const int64_t lm = c_.config.sizes.lm;
    return at >= lm ? lm1(int(at - lm), 2) : lm0(int(at), 2);
}

void RowProduct::write_face(int64_t at) {
    for (int h = 0; h < side_ / 8; h++) {
        Micro m;
        m.use(Unit::Mw).use(single_ ? Unit::F32 : Unit::F16);
        MatrixWrite mw;
        mw.on = true;
        mw.precision = single_ ? sim::Type::F32 : sim::Type::F16;
        mw.face = uint8_t(face_);
        mw.part = uint8_t(h);
        mw.from = m.read(rows_at(at + 8 * h), 2);
        m.word().mw = mw;
        m.touch(Space::Face, face_, true);
        c_.packer.place(m);
    }
}

// Blocks [block, block + w_blocks_) of the matrices of one piece. One L1B at a time, so that moves are short and come from all groups
// in turns; a scatter then serves all L1Bs.
void RowProduct::bring_piece(Panel &panel, int64_t block, int64_t piece) {
    const int64_t count = std::min(w_blocks_, blocks_ - block);
    // The very first in shorter moves, which are there sooner.
    const int64_t most = !panel.first && !block && !piece ? 8 : side_;
    const int64_t w_rows = std::min(w_rows_, most), l1_rows = std::min(l1_rows_, most);
    std::vector<int64_t> l2bm(size_t(l1bs_ * of_piece_)), l1bm(static_cast<size_t>(of_piece_));
    const auto rows = [&](int64_t part, int64_t begin, int64_t n) {
        return classes(tiles_[panel.first], [&](Values &values, Class &c) {
            set_tile(values, piece * of_piece_ + part % of_piece_);
            plan_->set_unit(values, Tier::L1b, int(part / of_piece_));
            for (values[row_] = begin; values[row_] < begin + n; values[row_]++) c.rows.push_back(w_.row(values));
        });
    };
    // Those of an L1B and a matrix; groups in turns.
    std::vector<int64_t> parts, before(size_t(c_.config.groups));
    std::vector<int64_t> turn;
    for (int64_t part = 0; part < l1bs_ * of_piece_; part++) {
        parts.push_back(part);
        turn.push_back(before[size_t(w_.order->place(rows(part, 0, 1).front().rows.front(), 0).group)]++);
    }
    std::stable_sort(parts.begin(), parts.end(),
                     [&](int64_t a, int64_t b) { return turn[size_t(a)] < turn[size_t(b)]; });
    for (int64_t begin = 0; begin < side_; begin += l1_rows) {
        for (int64_t &at : l1bm) at = l1_loads_.next(l1_rows * count * block_words);
        for (const int64_t part : parts) {
            int64_t &from = l2bm[size_t(part)];
            if (begin % w_rows == 0) {
                from = w_loads_.next(w_rows * count * block_words);
                load(w_, rows(part, begin, w_rows), block, count, from);
            }
            for (int64_t x = 0; x < l1_rows * count; x++) {
                L2 s;
                s.op = L2Op::UnicastDown;
                s.child = uint8_t(part / of_piece_);
                // Rows of a block side by side.
                const int64_t to = (x % count * l1_rows + x / count) * block_words;
                l2_step(s, from + (begin % w_rows * count + x) * block_words, l1bm[size_t(part % of_piece_)] + to);
            }
        }
        for (int64_t e = 0; e < of_piece_; e++) {
            for (int64_t b = 0; b < count; b++) {
                for (int64_t r = 0; r < l1_rows; r += rows_of_step_) {
                    for (int64_t h = 0; h < sets_of_block_; h += sets_of_step_) {
                        const int64_t first = (block + b) * sets_of_block_ + h;
                        if (first >= sets_) break;
                        scatter(
                            l1bm[size_t(e)] + (b * l1_rows + r) * block_words + h * deal_,
                            [&](int64_t row, int64_t set) {
                                return face_at(panel, piece * of_piece_ + e, first + set) + begin + r + row;
                            },
                            true);
                    }
                }
            }
        }
    }
    for (int64_t b = block; b < block + count; b++) panel.there[size_t(b)][size_t(piece)] = true;
}

// B [k][j]: rows in DRAM are those of k, 16 for a MAB, their words those of columns. A scatter of L2BM deals pieces of 8 LW to the L1Bs,
// a broadcast brings each MAB its rows, and the faces transpose them where they stand.
void RowProduct::bring_across(Panel &panel, int64_t block, int64_t chunk) {
    const int64_t first = chunk * chunk_pieces_, units = 16 * chunk_pieces_; // pieces of 8 LW of an L1B
    const int64_t end = std::min(sets_, (block + 1) * sets_of_block_);
    const int64_t K = plan_->extent_of(stage_.def.reduction_axes.front());
    for (int64_t s = block * sets_of_block_; s < end; s++) {
        bool zeros = false;
        for (int64_t m = 0; m < mabs_ && !zeros; m++) {
            zeros = (s * mabs_ + m) * 16 >= K; // for this one and all behind it
            const auto all = classes(tiles_[panel.first], [&](Values &values, Class &c) {
                set_tile(values, first * of_piece_);
                c.word = w_.last(values) / w_.order->per_word();
                std::vector<int64_t> index;
                for (const Affine &a : w_.access.index) index.push_back(a.at(values));
                for (int64_t i = 0; i < 16; i++) {
                    index[w_.k] = (s * mabs_ + m) * 16 + i;
                    c.rows.push_back(w_.order->row(index));
                }
            });
            const int64_t l2bm = w_loads_.next(units * 8 * l1bs_), l1bm = l1_loads_.next(units * 8);
            load(w_, all, 0, units / 16 * 8 * l1bs_ / block_words, l2bm);
            for (int64_t u = 0; u < units; u += cycles_per_step) {
                L2 slot;
                slot.op = L2Op::Scatter;
                l2_step(slot, l2bm + u * 8 * l1bs_, l1bm + u * 8, 32 * l1bs_, 32);
            }
            for (int64_t u = 0; u < units; u += 2) {
                std::array<int, 4> at;
                for (int64_t i = 0; i < 4; i++) {
                    const int64_t row = (u + i / 2) / chunk_pieces_, piece = first + (u + i / 2) % chunk_pieces_;
                    at[size_t(i)] = int(face_at(panel, piece * of_piece_ + i % 2, s) + row);
                }
                to_pes(L1Op::MabBroadcast, l1bm + u * 8, 16, at, true, zeros ? (1u << mabs_) - (1u << m) : 1u << m);
            }
        }
        for (int64_t t = first * of_piece_; t < (first + chunk_pieces_) * of_piece_; t++, face_ ^= 1) {
            const int64_t at = face_at(panel, t, s);
            write_face(at);
            for (int h = 0; h < 2; h++) {
                Micro m;
                m.use(Unit::Mr).use(Unit::F16);
                MatrixRead &mr = m.word().mr;
                mr.on = true;
                mr.face = uint8_t(face_), mr.part = uint8_t(h);
                mr.to = m.write(rows_at(at + 8 * h), 2);
                m.touch(Space::Face, face_, false);
                c_.packer.place(m);
            }
        }
    }
    for (int64_t p = first; p < first + chunk_pieces_; p++) panel.there[size_t(block)][size_t(p)] = true;
}

void RowProduct::bring_next(Panel &panel) {
    const int64_t chunks = pieces_ / chunk_pieces_;
    const int64_t chunk = int64_t(panel.brought) % chunks, block = int64_t(panel.brought) / chunks * w_blocks_;
    panel.brought++;
    w_.across ? bring_across(panel, block, chunk) : bring_piece(panel, block, chunk);
}

} // namespace kumiko::chip
