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
#include "targets/chip/stage/row_product.h"

#include "support/error.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>

namespace kumiko::chip {

using namespace sim;

namespace {

constexpr int64_t of_chunk = 8; // rows drained at a time
constexpr int half_l1bs = 4, quad = half_l1bs;

} // namespace

// f16: L1B p has columns 256 p + 16 m in MAB m. f32: 128 p + 16 · (m / 2) + 512 · (m mod 2), so
// that neighbours in a scatter are neighbours in a row.
void RowProduct::columns_of_halves() {
    Values values(plan_->loops().size(), 0);
    const int64_t first = y_.last(values);
    bool fits = plan_->used(Tier::L1b) == l1bs_ && plan_->used(Tier::Mab) == mabs_ && matrices_ == 1 &&
                y_.access.index.back().coefficients[row_] == 1;
    for (int l = 0; fits && l < l1bs_; l++) {
        for (int m = 0; fits && m < mabs_; m++) {
            plan_->set_unit(values, Tier::L1b, l);
            plan_->set_unit(values, Tier::Mab, m);
            const int64_t p = l % half_l1bs;
            fits = values[part_] == l / half_l1bs &&
                   y_.last(values) - first == (narrows_ ? 256 * p + 16 * m : 128 * p + m / 2 * 16 + m % 2 * 512);
        }
    }
    if (!fits)
        throw Unsupported(
            fmt::format("stage {}: halves of the L1Bs have parts of its reduction, and of 1024 columns L1B p "
                        "and MAB m do not have the 16 behind {}",
                        stage_.name(), narrows_ ? "256·p + 16·m" : "128·p + 16·(m / 2) + 512·(m mod 2)"));
    if (vectors_ % of_chunk || vectors_ * sets_of_step_ > c_.config.sizes.grf)
        throw Unsupported(
            fmt::format("stage {}: tiles of {} rows under halves of the L1Bs; multiples of {} up to {} are built",
                        stage_.name(), vectors_, of_chunk, c_.config.sizes.grf / sets_of_step_));
    if (w_.across)
        throw Unsupported(
            fmt::format("stage {}: {} lies in DRAM with its columns contiguous; under halves of the L1Bs its "
                        "reduction does",
                        stage_.name(), w_.access.tensor));
    piece_of_.resize(size_t(mabs_));
    std::iota(piece_of_.begin(), piece_of_.end(), 0);
}

void RowProduct::begin_halves() {
    Planner &plan = c_.planner;
    const int64_t pairs = vectors_ * sets_of_step_ / 2,
                  grf1 = plan.take(Bank::Grf1, 2 * pairs, "vectors of " + x_.access.tensor);
    for (int64_t n = 0; n < pairs; n++) x_free_.push_back(int(grf1 + 2 * n));
    const auto ring = [&](Bank bank, int64_t words, const std::string &name) {
        return Ring(plan.take(bank, words, name), words);
    };
    // L1BM: rows are freed in the order in which they arrived.
    x_l1bm_.assign(size_t(vectors_), 0);
    x_rows_ = ring(Bank::L1bm, vectors_ * block_words, "rows on their way");
    const int64_t piece = side_ * block_words, l1 = plan.free_words(Bank::L1bm) / piece * piece;
    const auto require = [&](const std::string &memory, int64_t has, int64_t needs) {
        if (has < needs)
            throw UserError(
                fmt::format("stage {}: under halves of the L1Bs, {} LW of {} are left for operands and results on "
                            "their way, which take {}; smaller tiles of rows leave more",
                            stage_.name(), has, memory, needs));
    };
    const int64_t sums = of_chunk * 2 * block_words, back = of_chunk * block_words, out = of_chunk * pieces_ * 8;
    require("L1BM", l1, std::max((quad + 1) * piece, sums + back + out));
    l1_loads_ = ring(Bank::L1bm, l1, "columns on their way, and sums of " + stage_.name());
    const int64_t at = l1_loads_.begin(), times = std::min<int64_t>(l1 / (sums + back + out), 2);
    l1_sums_ = Ring(at, times * sums);
    back_ = Ring(at + times * sums, times * back);
    l1_results_ = Ring(at + times * (sums + back), times * out);
    // Columns are loaded in groups of four; some wait for the faces.
    dealt_wait_ = l1 / piece - quad;
    drain_each_ = std::max<int64_t>(1, ceil_div(sets_, sets_of_step_) * of_chunk / vectors_);
    // L2BM, in the same way.
    const int64_t x = vectors_ * parts_ * block_words, w = side_ * parts_ * block_words, result = of_chunk * row_words_,
                  staged = of_chunk * half_l1bs * 2 * block_words, room = plan.free_words(Bank::L2bm);
    require("L2BM", room, x + std::max(quad * w, staged + result));
    const int64_t xs = std::clamp<int64_t>((room - std::max(quad * w, staged + 3 * result)) / x, 1, 4);
    x_loads_ = ring(Bank::L2bm, xs * x, "rows of " + x_.access.tensor);
    const int64_t rest = plan.free_words(Bank::L2bm), slots = std::clamp<int64_t>((rest - staged) / result, 1, 6);
    lag_ = slots - 1;
    w_loads_ =
        ring(Bank::L2bm, rest / (quad * w) * quad * w, "rows of " + w_.access.tensor + ", and of " + y_.access.tensor);
    const int64_t begin = w_loads_.begin();
    staged_ = Ring(begin, staged);
    results_ = Ring(begin + staged, slots * result);
}

// Transfers the rows of a block, one for each half of the L1Bs, from L2BM, where the rows of
// `blocks` blocks are adjacent: the words for half of the block's sets.
void RowProduct::load_pairs(int64_t l2bm, int64_t blocks, int64_t within) {
    x_free_.insert(x_free_.end(), x_pairs_.begin(), x_pairs_.end());
    x_pairs_.resize(size_t(vectors_ * sets_of_step_ / 2));
    for (int64_t r = 0; r < vectors_; r++) {
        if (!within) {
            x_l1bm_[size_t(r)] = x_rows_.next(block_words);
            L2 s;
            s.op = L2Op::Broadcast2;
            s.second.at = uint16_t(l2bm + r * blocks * block_words + block_words);
            l2_step(s, s.second.at - block_words, x_l1bm_[size_t(r)]);
        }
        std::array<int, 4> at;
        for (int64_t pair = 0; pair < cycles_per_step; pair++) {
            at[size_t(pair)] = x_free_.front();
            x_pairs_[size_t(pair * vectors_ + r)] = x_free_.front();
            x_free_.pop_front();
        }
        to_pes(L1Op::MabBroadcast, 2, x_l1bm_[size_t(r)] + within, at, false, all_units);
    }
}

// Loads the columns of a MAB, one MAB after the other, one block for each half of the L1Bs. Columns
// of neighbouring MABs come from different groups, so the columns of L1B p are loaded together with
// those of L1B 0 for the MAB p further on, four loads at a time.
void RowProduct::load_half(Panel &panel, int64_t number) {
    const int64_t row = parts_ * block_words, all = blocks_ * mabs_;
    const auto mab_of = [&](int64_t n) { // the order in which groups alternate
        return int(narrows_ ? n % mabs_ : n % (mabs_ / 2) * 2 + n / (mabs_ / 2) % 2);
    };
    while (dealt_pieces_ > dealt_wait_) distribute_next();
    if (number < all) columns_.push_back(l1_loads_.next(side_ * block_words));
    std::vector<std::vector<std::vector<Mv>>> loads;
    std::vector<std::array<int64_t, 3>> down; // L1B, address in L2BM, in L1BM
    for (int64_t p = quad - 1; p >= 0; p--) {
        const int64_t n = number - p, block = n / mabs_;
        if (n < 0 || n >= all) continue;
        const auto rows = classes(tiles_[panel.first], [&](Values &values, Class &c) {
            plan_->set_unit(values, Tier::Mab, mab_of(n));
            plan_->set_unit(values, Tier::L1b, int(p));
            for (values[row_] = 0; values[row_] < side_; values[row_]++) c.rows.push_back(w_.row(values));
        });
        down.push_back(
            {p, w_loads_.next(side_ * row), columns_[columns_.size() - size_t(std::min(number, all - 1) - n) - 1]});
        loads.push_back(this->loads(w_, rows, block * parts_, parts_, down.back()[1]));
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
        for (int64_t r = 0; r < side_; r++) {
            L2 s;
            s.op = L2Op::Broadcast2;
            s.l1bs = 1u << p | 1u << (p + half_l1bs);
            s.second.at = uint16_t(l2bm + r * row + block_words);
            l2_step(s, l2bm + r * row, l1bm + r * block_words);
        }
    }
    const int64_t done = number - quad + 1;
    if (done < 0) return;
    const int64_t l1bm = columns_.front(), block = done / mabs_;
    const int mab = mab_of(done);
    columns_.pop_front();
    for (int64_t r = 0; r < side_; r++) {
        for (int64_t h = 0; h < sets_of_block_; h += sets_of_step_) {
            const int64_t set = block * sets_of_block_ + h;
            if (set >= sets_) break;
            std::array<int, 4> at;
            for (int64_t i = 0; i < cycles_per_step; i++) at[size_t(i)] = int(face_at(panel, 0, set + 2 * i) + 2 * r);
            dealt_.emplace_back([this, at, mab, from = l1bm + r * block_words + h * distribution_] {
                to_pes(L1Op::MabBroadcast, 2, from, at, true, 1u << mab);
            });
        }
    }
    dealt_.emplace_back([this, &panel, block, mab] {
        panel.there[size_t(block)][size_t(mab)] = true;
        dealt_pieces_--;
    });
    dealt_pieces_++;
}

void RowProduct::distribute_next() {
    dealt_.front()();
    dealt_.pop_front();
}

// Drains eight rows of the first waiting tile.
void RowProduct::drain_halves() {
    Drain &d = drains_.front();
    leave(drained_ - 1 - lag_);
    d.l2bm = results_.next(of_chunk * row_words_);
    // Neighbouring rows are in one group, so chunks of both halves of the tile alternate.
    const int64_t n_chunk = d.done / of_chunk, chunks = vectors_ / of_chunk,
                  begin = (chunks % 2 ? n_chunk : n_chunk % 2 * (chunks / 2) + n_chunk / 2) * of_chunk;
    const int64_t sums = l1_sums_.next(of_chunk * 2 * block_words), back = back_.next(of_chunk * block_words),
                  staged = staged_.next(of_chunk * half_l1bs * 2 * block_words), regs = registers_.next(of_chunk),
                  out = l1_results_.next(of_chunk * pieces_ * 8);
    const auto up = [&](int64_t l1bm, int64_t l2bm) {
        L2 s;
        s.op = L2Op::Gather;
        l2_step(s, l2bm, l1bm);
    };
    for (int64_t n = 0; n < of_chunk; n += cycles_per_step) {
        for (int64_t word = 0; word < 2; word++) {
            const int64_t l1bm = sums + (n * 2 + word * cycles_per_step) * block_words;
            MicroOp m;
            L1 l1;
            l1.op = L1Op::Gather;
            l1.at.at = uint16_t(l1bm);
            l1.from = m.read(lm1(int(d.sums_at + 2 * (begin + n) + word), 2));
            m.word().l1 = l1;
            c_.packer.place(m);
            // In L2BM: what one PE receives, word by word; for f16 pairs of rows, for f32 L1Bs.
            for (int64_t i = 0; i < cycles_per_step; i++) {
                for (int64_t p = 0; p < half_l1bs; p++) {
                    const int64_t r = n + i, piece = narrows_ ? ((r / 2 * 2 + word) * 2 + r % 2) * half_l1bs + p
                                                              : (p * 2 + word) * of_chunk + r;
                    L2 s;
                    s.op = L2Op::Reduce;
                    s.l1bs = 1u << p | 1u << (p + half_l1bs);
                    l2_step(s, staged + piece * block_words, l1bm + i * block_words);
                }
            }
        }
    }
    for (int64_t n = 0; n < of_chunk * 2; n++) {
        L2 s;
        s.op = L2Op::Scatter;
        l2_step(s, staged + n * 32 * l1bs_, back + n * 32);
    }
    for (int64_t n = 0; n < of_chunk; n += cycles_per_step) {
        std::array<int, 4> at;
        for (int64_t i = 0; i < cycles_per_step; i++) at[size_t(i)] = int(c_.config.sizes.lm + regs + n + i);
        to_pes(L1Op::Scatter, 1, back + n * block_words, at, true, all_units);
    }
    if (narrows_) {
        MicroOp m = code_->run_to_last(end_program_, [&](int, int part) { return lm1(int(regs + part), 2); });
        L1 l1;
        l1.op = L1Op::Gather;
        l1.from = VectorEmitter::forward(m);
        m.next();
        l1.at.at = uint16_t(out);
        m.word().l1 = l1;
        c_.packer.place(m);
        for (int64_t r = 0; r < of_chunk; r++) up(out + r * 32, d.l2bm + r * row_words_);
    } else {
        for (int64_t r = 0; r < of_chunk; r++) {
            for (int64_t h = 0; h < 2; h++) {
                const int64_t l1bm = out + (2 * r + h) * 32;
                MicroOp m;
                L1 l1;
                l1.op = L1Op::MabReduce;
                l1.width = 2;
                l1.mabs = 1u << (2 * r + h);
                l1.from = m.read(lm1(int(regs), 2));
                l1.at.at = uint16_t(l1bm);
                m.word().l1 = l1;
                c_.packer.place(m);
                up(l1bm, d.l2bm + r * row_words_ + h * 32 * l1bs_);
            }
        }
    }
    for (int64_t r = 0; r < of_chunk; r++) d.rows.push_back(begin + r);
    d.done += of_chunk;
    store(d);
    if (d.done == vectors_) drains_.pop_front();
}

} // namespace kumiko::chip
