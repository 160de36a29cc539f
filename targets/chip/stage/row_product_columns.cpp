#include "targets/chip/stage/row_product.h"

#include "dsl/types.h"

#include <algorithm>
#include <numeric>

namespace kumiko::chip {

using namespace sim;

// The address of matrix t of a MAB, set s. Rows of two alternating sets are adjacent.
int64_t RowProduct::face_at(const Panel &panel, int64_t t, int64_t s) const {
    const int64_t padded = (sets_ + sets_of_step_ - 1) / sets_of_step_ * sets_of_step_;
    if (sides_ > 1) return panel.at + 2 * side_ * (t * padded / 2 + s / 2) + s % 2;
    return panel.at + side_ * (w_.across ? s * matrices_ + t : t * padded + s);
}

// The operand for rows of a matrix in LM: four cycles, with one word of each PE for a row.
Operand RowProduct::rows_at(int64_t at) const { return lm_operand(c_.config, at, 2); }

void RowProduct::write_face(int64_t at) {
    const int64_t rows = sides_ > 1 ? 4 : 8; // per step
    for (int64_t h = 0; h < side_ / rows; h++) {
        MicroOp m;
        MatrixWrite mw;
        mw.on = true;
        mw.precision = single_ ? sim::Type::F32 : sim::Type::F16;
        mw.face = uint8_t(face_);
        mw.part = uint8_t(h);
        mw.width = uint8_t(rows / 4);
        mw.from = m.read(rows_at(at + 8 * h));
        m.word().mw = mw;
        c_.packer.place(m);
    }
}

// Starts loading blocks [block, block + w_blocks_) of the matrices of one piece. One L1B at a time,
// so that moves are short and come from all groups round-robin; a scatter then serves all L1Bs.
// During computation, when L2 time is scarce, two at a time: one for each half of the L1Bs, from
// different groups if possible.
RowProduct::PendingLoad RowProduct::coming(Panel &panel, int64_t block, int64_t piece, bool late) {
    // The very first moves are shorter, so that they arrive sooner.
    const int64_t most = !panel.first && !block && !piece ? 8 : side_;
    PendingLoad c{panel,
                  block,
                  std::min(w_blocks_, blocks_ - block),
                  piece,
                  late ? late_loads_ : w_loads_,
                  late ? late_l1_ : l1_loads_,
                  0,
                  std::min(late ? l1_rows_ : w_rows_, most),
                  std::min(l1_rows_, most),
                  std::vector<int64_t>(size_t(l1bs_ * of_piece_)),
                  std::vector<int64_t>(static_cast<size_t>(of_piece_)),
                  {},
                  {}};
    for (int64_t part = 0; part < l1bs_ * of_piece_; part++)
        c.groups.push_back(w_.order->place(column_classes(c, part, 0, 1).front().rows.front(), 0).group);
    const auto group = [&](int64_t part) { return c.groups[size_t(part)]; };
    if ((kept_ || late) && l1bs_ % 2 == 0 && c.loads.words() >= 4 * of_piece_ * c.w_rows * w_blocks_ * block_words) {
        const int64_t half = l1bs_ / 2;
        std::vector<int64_t> others(static_cast<size_t>(half));
        std::iota(others.begin(), others.end(), half);
        for (int64_t l = 0; l < half; l++) {
            auto other = std::find_if(others.begin(), others.end(),
                                      [&](int64_t o) { return group(o * of_piece_) != group(l * of_piece_); });
            if (other == others.end()) other = others.begin();
            c.turns.emplace_back();
            for (int64_t e = 0; e < of_piece_; e++)
                c.turns.back().insert(c.turns.back().end(), {l * of_piece_ + e, *other * of_piece_ + e});
            others.erase(other);
        }
        return c;
    }
    std::vector<int64_t> before(size_t(c_.config.groups)), turn;
    for (int64_t part = 0; part < l1bs_ * of_piece_; part++) {
        c.turns.push_back({part});
        turn.push_back(before[size_t(group(part))]++);
    }
    std::stable_sort(c.turns.begin(), c.turns.end(),
                     [&](const auto &a, const auto &b) { return turn[size_t(a[0])] < turn[size_t(b[0])]; });
    return c;
}

// Rows [begin, begin + n) of a matrix of an L1B.
std::vector<RowProduct::Class> RowProduct::column_classes(const PendingLoad &c, int64_t part, int64_t begin,
                                                          int64_t n) const {
    return classes(tiles_[c.panel.first], [&](Values &values, Class &made) {
        const Matrix &matrix = of_l1b_[size_t(c.piece * of_piece_ + part % of_piece_)];
        set_tile(values, matrix.number);
        plan_->set_unit(values, Tier::Mab, int(matrix.side));
        plan_->set_unit(values, Tier::L1b, int(part / of_piece_));
        for (values[row_] = begin; values[row_] < begin + n; values[row_]++) made.rows.push_back(w_.row(values));
    });
}

// Transfers the current rows of one matrix of one L1B, or of pairs of them, to L1BM.
void RowProduct::load_turn(PendingLoad &c, const std::vector<int64_t> &parts) {
    std::vector<int64_t> loads = parts;
    std::stable_sort(loads.begin(), loads.end(),
                     [&](int64_t a, int64_t b) { return c.groups[size_t(a)] < c.groups[size_t(b)]; });
    for (const int64_t part : loads) {
        if (c.begin % c.w_rows) continue;
        c.l2bm[size_t(part)] = c.loads.next(c.w_rows * c.count * block_words);
        load(w_, column_classes(c, part, c.begin, c.w_rows), c.block, c.count, c.l2bm[size_t(part)]);
    }
    for (size_t p = 0; p < parts.size(); p += 2) {
        const bool two = p + 1 < parts.size();
        for (int64_t x = 0; x < c.l1_rows * c.count; x++) {
            const int64_t row = (c.begin % c.w_rows * c.count + x) * block_words;
            L2 s;
            s.op = two ? L2Op::Broadcast2 : L2Op::UnicastDown;
            s.child = two ? 0 : uint8_t(parts[p] / of_piece_);
            if (two) s.l1bs = 1u << parts[p] / of_piece_ | 1u << parts[p + 1] / of_piece_;
            if (two) s.second.at = uint16_t(c.l2bm[size_t(parts[p + 1])] + row);
            // Rows of a block are adjacent.
            l2_step(s, c.l2bm[size_t(parts[p])] + row,
                    c.l1bm[size_t(parts[p] % of_piece_)] + (x % c.count * c.l1_rows + x / c.count) * block_words);
        }
    }
}

// Distributes the current rows of a matrix, of all L1Bs, to LM.
void RowProduct::distribute_matrix(const PendingLoad &c, int64_t e) {
    const Matrix &matrix = of_l1b_[size_t(c.piece * of_piece_ + e)];
    for (int64_t b = 0; b < c.count; b++) {
        for (int64_t r = 0; r < c.l1_rows; r += rows_of_step_) {
            for (int64_t h = 0; h < sets_of_block_; h += sets_of_step_) {
                const int64_t first = (c.block + b) * sets_of_block_ + h;
                if (first >= sets_) break;
                deal(
                    c.l1bm[size_t(e)] + (b * c.l1_rows + r) * block_words + h * distribution_,
                    [&](int64_t row, int64_t set) {
                        return face_at(c.panel, matrix.number, first + set) +
                               (c.begin + r + row) * (sides_ > 1 ? 2 : 1);
                    },
                    true, mabs_of(matrix.side));
            }
        }
    }
}

void RowProduct::has_arrived(const PendingLoad &c) {
    for (int64_t b = c.block; b < c.block + c.count; b++) c.panel.there[size_t(b)][size_t(c.piece)] = true;
}

void RowProduct::load_piece(Panel &panel, int64_t block, int64_t piece) {
    PendingLoad c = coming(panel, block, piece, false);
    for (; c.begin < side_; c.begin += c.l1_rows) {
        for (int64_t &at : c.l1bm) at = c.l1_loads.next(c.l1_rows * c.count * block_words);
        for (const std::vector<int64_t> &parts : c.turns) load_turn(c, parts);
        for (int64_t e = 0; e < of_piece_; e++) distribute_matrix(c, e);
    }
    has_arrived(c);
}

// Queues all late columns of a panel in short steps, which part() takes one by one.
void RowProduct::queue_late(Panel &panel) {
    for (int64_t block = 0; block < blocks_; block += w_blocks_) {
        for (int64_t piece = late_pieces().begin; piece < late_pieces().end; piece++) {
            const auto c = std::make_shared<PendingLoad>(coming(panel, block, piece, true));
            for (int64_t begin = 0; begin < side_; begin += c->l1_rows) {
                dealt_.emplace_back([this, c, begin] {
                    c->begin = begin;
                    for (int64_t &at : c->l1bm) at = c->l1_loads.next(c->l1_rows * c->count * block_words);
                });
                for (const std::vector<int64_t> &parts : c->turns)
                    dealt_.emplace_back([this, c, &parts] { load_turn(*c, parts); });
                for (int64_t e = 0; e < of_piece_; e++) dealt_.emplace_back([this, c, e] { distribute_matrix(*c, e); });
            }
            dealt_.emplace_back([this, c] { has_arrived(*c); });
        }
    }
    late_steps_ = int64_t(dealt_.size()), late_groups_ = 0;
}

// B [k][j]: rows in DRAM are those of k, 16 for a MAB, and their words are columns. An L2BM scatter
// distributes pieces of 8 LW to the L1Bs, a broadcast sends each MAB its rows, and the faces
// transpose them in place.
void RowProduct::load_across(Panel &panel, int64_t block, int64_t chunk) {
    // Pieces of 8 LW of an L1B.
    const int64_t first = chunk * chunk_pieces_, units = 16 * chunk_pieces_;
    const int64_t end = std::min(sets_, (block + 1) * sets_of_block_);
    const int64_t K = plan_->extent_of(stage_.def.reduction_axes.front());
    for (int64_t s = block * sets_of_block_; s < end; s++) {
        bool zeros = false;
        for (int64_t m = 0; m < mabs_ && !zeros; m++) {
            zeros = (s * mabs_ + m) * 16 >= K; // for this MAB and all later ones
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
                l2_step(slot, l2bm + u * 8 * l1bs_, l1bm + u * 8);
            }
            for (int64_t u = 0; u < units; u += 2) {
                std::array<int, 4> at;
                for (int64_t i = 0; i < 4; i++) {
                    const int64_t row = (u + i / 2) / chunk_pieces_, piece = first + (u + i / 2) % chunk_pieces_;
                    at[size_t(i)] = int(face_at(panel, piece * of_piece_ + i % 2, s) + row);
                }
                to_pes(L1Op::MabBroadcast, 1, l1bm + u * 8, at, true, zeros ? (1u << mabs_) - (1u << m) : 1u << m);
            }
        }
        for (int64_t t = first * of_piece_; t < (first + chunk_pieces_) * of_piece_; t++, face_ ^= 1) {
            const int64_t at = face_at(panel, t, s);
            write_face(at);
            for (int h = 0; h < 2; h++) {
                MicroOp m;
                MatrixRead &mr = m.word().mr;
                mr.on = true;
                mr.face = uint8_t(face_), mr.part = uint8_t(h);
                mr.to = m.write(rows_at(at + 8 * h));
                c_.packer.place(m);
            }
        }
    }
    for (int64_t p = first; p < first + chunk_pieces_; p++) panel.there[size_t(block)][size_t(p)] = true;
}

// The number of column loads for the first `blocks` blocks of k, without late columns.
int64_t RowProduct::loads_until(int64_t blocks) const {
    if (parts_ > 1) return std::min(blocks, blocks_) * mabs_ + 3;
    return (blocks + w_blocks_ - 1) / w_blocks_ * (early_pieces().count() / chunk_pieces_);
}

void RowProduct::load_next(Panel &panel) {
    if (parts_ > 1) return load_half(panel, int64_t(panel.brought++));
    const int64_t chunks = early_pieces().count() / chunk_pieces_;
    const int64_t chunk = int64_t(panel.brought) % chunks, block = int64_t(panel.brought) / chunks * w_blocks_;
    panel.brought++;
    w_.across ? load_across(panel, block, chunk) : load_piece(panel, block, chunk);
}

} // namespace kumiko::chip
