// A row product whose reduction is distributed to the halves of the L1Bs, alternating by blocks of
// 64 LW; MABs have columns of their own. L1Bs p and p + 4 have the same columns. A sum is then kept
// twice on the chip instead of four or sixteen times, so LM1 has room for the sums of more rows
// while columns are loaded: enough work for the whole load.
//
//   rows: `l2.bcast2` sends each half its block; `l1.mab` sends all MABs the same, two words of a
//     row to a PE, eight sets of k per step. A pair of words is freed when its two matrices are
//     done, and the next row reuses its place in GRF1, so one tile's rows fill it.
//   columns: sixteen rows of B for each MAB. They are written to LM between the face loads, which
//     leave its port free one step at a time.
//   sums: `l1.gather` to L1BM, word by word; `l2.reduce` adds both halves in L2BM. A scatter
//     reloads both words of a sum into one PE, which rounds them or makes them adjacent.
#include "targets/chip/stage/row_product_columns.h"
#include "targets/chip/stage/row_product_drain.h"
#include "targets/chip/stage/row_product_rows.h"

#include <algorithm>
#include <array>

namespace kumiko::chip {

using namespace sim;

// Transfers the rows of a block, one for each half of the L1Bs, from L2BM, where the rows of
// `blocks` blocks are adjacent: the words for half of the block's sets.
void HalvesRows::transfer(int64_t l2bm, int64_t blocks, int64_t within) {
    m_.x_free.insert(m_.x_free.end(), pairs_.begin(), pairs_.end());
    pairs_.resize(size_t(f_.vectors * f_.sets_of_step / 2));
    for (int64_t r = 0; r < f_.vectors; r++) {
        if (!within) {
            l1bm_[size_t(r)] = m_.x_rows.next(block_words);
            L2 s;
            s.op = L2Op::Broadcast2;
            s.second.at = uint16_t(l2bm + r * blocks * block_words + block_words);
            moves_.l2_step(s, s.second.at - block_words, l1bm_[size_t(r)]);
        }
        std::array<int, 4> at;
        for (int64_t pair = 0; pair < cycles_per_step; pair++) {
            at[size_t(pair)] = m_.x_free.front();
            pairs_[size_t(pair * f_.vectors + r)] = m_.x_free.front();
            m_.x_free.pop_front();
        }
        moves_.to_pes(L1Op::MabBroadcast, 2, l1bm_[size_t(r)] + within, at, false, all_units);
    }
}

int64_t HalvesRows::at(int64_t set, int64_t row) const { return pairs_[size_t(set / 2 * f_.vectors + row)] + set % 2; }

int64_t HalvesColumns::loads_until(int64_t blocks) const {
    return std::min(blocks, f_.blocks) * f_.mabs + half_loads - 1;
}

// A piece may wait; of several the oldest is transferred.
void HalvesColumns::before_matrix() {
    if (pending_pieces_ > 1) transfer_next();
}

// Loads the columns of a MAB, one MAB after the other, one block for each half of the L1Bs. Columns
// of neighbouring MABs come from different groups, so the columns of L1B p are loaded together with
// those of L1B 0 for the MAB p further on, four loads at a time.
void HalvesColumns::load_half(ColumnPanel &panel, int64_t number) {
    const int64_t row = f_.parts * block_words, all = f_.blocks * f_.mabs;
    const auto mab_of = [&](int64_t n) { // the order in which groups alternate
        return int(f_.narrows ? n % f_.mabs : n % (f_.mabs / 2) * 2 + n / (f_.mabs / 2) % 2);
    };
    while (pending_pieces_ > m_.pending_limit) transfer_next();
    if (number < all) columns_.push_back(m_.l1_loads.next(f_.side * block_words));
    std::vector<std::vector<std::vector<Mv>>> loads;
    std::vector<std::array<int64_t, 3>> down; // L1B, address in L2BM, in L1BM
    for (int64_t p = half_loads - 1; p >= 0; p--) {
        const int64_t n = number - p, block = n / f_.mabs;
        if (n < 0 || n >= all) continue;
        const auto rows = f_.classes(f_.tiles[panel.first], [&](Values &values, L2bRows &c) {
            f_.plan->set_unit(values, Tier::Mab, mab_of(n));
            f_.plan->set_unit(values, Tier::L1b, int(p));
            for (values[f_.row] = 0; values[f_.row] < f_.side; values[f_.row]++) c.rows.push_back(f_.w.row(values));
        });
        down.push_back(
            {p, m_.w_loads.next(f_.side * row), columns_[columns_.size() - size_t(std::min(number, all - 1) - n) - 1]});
        loads.push_back(moves_.loads(f_.w, rows, block * f_.parts, f_.parts, down.back()[1]));
    }
    // At each time the groups serve different L2Bs.
    std::vector<Mv> moves;
    for (size_t c = 0, left = loads.size(); left; c++) {
        left = 0;
        for (size_t i = 0; i < loads.size(); i++) {
            if (c >= loads[i].size()) continue;
            left++;
            const auto &of_class = loads[i][(c + i) % loads[i].size()];
            moves.insert(moves.end(), of_class.begin(), of_class.end());
        }
    }
    c_.packer.place(moves);
    for (const auto &[p, l2bm, l1bm] : down) {
        for (int64_t r = 0; r < f_.side; r++) {
            L2 s;
            s.op = L2Op::Broadcast2;
            s.l1bs = 1u << p | 1u << (p + half_l1bs);
            s.second.at = uint16_t(l2bm + r * row + block_words);
            moves_.l2_step(s, l2bm + r * row, l1bm + r * block_words);
        }
    }
    const int64_t done = number - half_loads + 1;
    if (done < 0) return;
    const int64_t l1bm = columns_.front(), block = done / f_.mabs;
    const int mab = mab_of(done);
    columns_.pop_front();
    for (int64_t r = 0; r < f_.side; r++) {
        for (int64_t h = 0; h < f_.sets_of_block; h += f_.sets_of_step) {
            const int64_t set = block * f_.sets_of_block + h;
            if (set >= f_.sets) break;
            std::array<int, 4> at;
            for (int64_t i = 0; i < cycles_per_step; i++)
                at[size_t(i)] = int(f_.face_at(panel, 0, set + 2 * i) + 2 * r);
            pending_.emplace_back([this, at, mab, from = l1bm + r * block_words + h * f_.distribution] {
                moves_.to_pes(L1Op::MabBroadcast, 2, from, at, true, 1u << mab);
            });
        }
    }
    pending_.emplace_back([this, &panel, block, mab] {
        panel.loaded[size_t(block)][size_t(mab)] = true;
        pending_pieces_--;
    });
    pending_pieces_++;
}

// Drains eight rows of the first waiting tile.
void HalvesDrain::next() {
    TileDrain &d = drains_.front();
    store_waiting();
    d.l2bm = m_.results.next(half_chunk * f_.row_words);
    // Neighbouring rows are in one group, so chunks of both halves of the tile alternate.
    const int64_t n = d.done / half_chunk, chunks = f_.vectors / half_chunk,
                  begin = (chunks % 2 ? n : n % 2 * (chunks / 2) + n / 2) * half_chunk;
    const Chunk chunk{.begin = begin,
                      .sums = m_.l1_sums.next(half_chunk * 2 * block_words),
                      .scattered = m_.reloaded.next(half_chunk * block_words),
                      .staged = m_.staged.next(half_chunk * half_l1bs * 2 * block_words),
                      .registers = epilogue_.registers().next(half_chunk),
                      .out = m_.l1_results.next(half_chunk * f_.pieces * 8)};
    reduce(d, chunk);
    reload(chunk);
    f_.narrows ? finish_narrow(d, chunk) : finish_wide(d, chunk);
    for (int64_t r = 0; r < half_chunk; r++) d.rows.push_back(begin + r);
    d.done += half_chunk;
    store(d);
    if (d.done == f_.vectors) drains_.pop_front();
}

void HalvesDrain::move_up(int64_t l1bm, int64_t l2bm) {
    L2 s;
    s.op = L2Op::Gather;
    moves_.l2_step(s, l2bm, l1bm);
}

// Gathers the sums in L1BM, and adds those of both halves in L2BM.
void HalvesDrain::reduce(const TileDrain &d, const Chunk &chunk) {
    for (int64_t n = 0; n < half_chunk; n += cycles_per_step) {
        for (int64_t word = 0; word < 2; word++) {
            const int64_t l1bm = chunk.sums + (n * 2 + word * cycles_per_step) * block_words;
            MicroOp m;
            L1 l1;
            l1.op = L1Op::Gather;
            l1.at.at = uint16_t(l1bm);
            l1.from = m.read(lm1(int(d.sums_at + 2 * (chunk.begin + n) + word), 2));
            m.word().l1 = l1;
            c_.packer.place(m);
            // In L2BM: what one PE receives, word by word; for f16 pairs of rows, for f32 L1Bs.
            for (int64_t i = 0; i < cycles_per_step; i++) {
                for (int64_t p = 0; p < half_l1bs; p++) {
                    const int64_t r = n + i, piece = f_.narrows ? ((r / 2 * 2 + word) * 2 + r % 2) * half_l1bs + p
                                                                : (p * 2 + word) * half_chunk + r;
                    L2 s;
                    s.op = L2Op::Reduce;
                    s.l1bs = 1u << p | 1u << (p + half_l1bs);
                    moves_.l2_step(s, chunk.staged + piece * block_words, l1bm + i * block_words);
                }
            }
        }
    }
}

// Scatters both words of a sum to one PE.
void HalvesDrain::reload(const Chunk &chunk) {
    for (int64_t n = 0; n < half_chunk * 2; n++) {
        L2 s;
        s.op = L2Op::Scatter;
        moves_.l2_step(s, chunk.staged + n * 32 * f_.l1bs, chunk.scattered + n * 32);
    }
    for (int64_t n = 0; n < half_chunk; n += cycles_per_step) {
        std::array<int, 4> at;
        for (int64_t i = 0; i < cycles_per_step; i++) at[size_t(i)] = int(c_.config.sizes.lm + chunk.registers + n + i);
        moves_.to_pes(L1Op::Scatter, 1, chunk.scattered + n * block_words, at, true, all_units);
    }
}

void HalvesDrain::finish_narrow(const TileDrain &d, const Chunk &chunk) {
    MicroOp m = epilogue_.code().run_to_last(epilogue_.program(),
                                             [&](int, int part) { return lm1(int(chunk.registers + part), 2); });
    L1 l1;
    l1.op = L1Op::Gather;
    l1.from = VectorEmitter::forward(m);
    m.next();
    l1.at.at = uint16_t(chunk.out);
    m.word().l1 = l1;
    c_.packer.place(m);
    for (int64_t r = 0; r < half_chunk; r++) move_up(chunk.out + r * 32, d.l2bm + r * f_.row_words);
}

void HalvesDrain::finish_wide(const TileDrain &d, const Chunk &chunk) {
    for (int64_t r = 0; r < half_chunk; r++) {
        for (int64_t h = 0; h < 2; h++) {
            const int64_t l1bm = chunk.out + (2 * r + h) * 32;
            MicroOp m;
            L1 l1;
            l1.op = L1Op::MabReduce;
            l1.width = 2;
            l1.mabs = 1u << (2 * r + h);
            l1.from = m.read(lm1(int(chunk.registers), 2));
            l1.at.at = uint16_t(l1bm);
            m.word().l1 = l1;
            c_.packer.place(m);
            move_up(l1bm, d.l2bm + r * f_.row_words + h * 32 * f_.l1bs);
        }
    }
}

} // namespace kumiko::chip
