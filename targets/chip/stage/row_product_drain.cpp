// Drains the sums of a row product whose reduction is over the MABs; stores of all row products.
#include "targets/chip/stage/row_product_drain.h"

#include <algorithm>
#include <map>

namespace kumiko::chip {

using namespace sim;

void ProductDrain::drain(const Values &tile, int64_t sums_at, PieceSpan pieces) {
    drains_.emplace_back();
    drains_.back().tile = tile, drains_.back().sums_at = sums_at, drains_.back().pieces = pieces;
    if (m_.complete < 0) next();
}

// Drains some rows of the first waiting tile, alternately from its two halves, whose rows are in
// different groups.
void MabDrain::next() {
    TileDrain &d = drains_.front();
    if (!d.done && f_.epilogue.defined()) epilogue_.load(d.tile);
    if (d.rows.empty()) {
        store_waiting();
        d.l2bm = m_.results.next(m_.store_rows * f_.row_words);
    }
    const int64_t n = d.done / m_.drain_rows, all = f_.vectors / m_.drain_rows;
    const int64_t first = (all % 2 ? n : n % 2 * (all / 2) + n / 2) * m_.drain_rows;
    const int64_t words = m_.drain_rows * f_.l1b_matrices() * 4 * f_.sum_words;
    d.sums = d.out = m_.l1_sums.next(words);
    if (m_.l1_results.words()) d.out = m_.l1_results.next(f_.narrows ? words / 2 : words);
    for (int64_t v = first; v < first + m_.drain_rows; v++) d.rows.push_back(v);
    reduce_over_mabs(d, first);
    finish_rows(d, first);
    d.done += m_.drain_rows;
    if (int64_t(d.rows.size()) == m_.store_rows) store(d);
    if (d.done == f_.vectors) drains_.pop_front();
}

void ProductDrain::finish() {
    while (!drains_.empty()) next();
}

void ProductDrain::store_next() {
    if (stores_.empty()) return;
    c_.packer.place(stores_.front().moves);
    stores_.pop_front();
}

void ProductDrain::store_until(int64_t number) {
    for (; !stores_.empty() && stores_.front().number <= number; stores_.pop_front())
        c_.packer.place(stores_.front().moves);
}

// Queues the stores. If GRF0 is not needed soon, they are split so that the groups have about the
// same work.
void ProductDrain::store(TileDrain &d) {
    std::vector<Mv> all;
    Values values = d.tile;
    const DramOrder &order = *f_.y.order;
    // After the pieces that are not stored.
    const int64_t all_words = d.pieces.count() * 8 * f_.l1bs,
                  from = d.l2bm + d.pieces.begin % cycles_per_step * 8 * f_.l1bs;
    for (int u = 0; u < c_.config.total_l2bs(); u++) {
        if (u / c_.config.l2bs >= f_.plan->used(Tier::Group) || u % c_.config.l2bs >= f_.plan->used(Tier::L2b))
            continue;
        f_.plan->set_unit(values, Tier::Group, u / c_.config.l2bs);
        f_.plan->set_unit(values, Tier::L2b, u % c_.config.l2bs);
        values[f_.vector] = 0;
        const int64_t word = f_.y.last(values) / order.per_word() + d.pieces.begin * 8 * f_.l1bs;
        const int64_t words = std::min(all_words, order.pitch() - word);
        if (words <= 0) continue;
        const auto put = [&](const std::vector<DramPlace> &list, int64_t at) {
            for (const BlockRun &run : join_blocks(list)) {
                Mv m = moves_.between(1u << u, run.at.group, true);
                m.address = uint32_t(f_.y.dram + run.at.address);
                m.blocks = uint16_t(run.count);
                m.size = uint16_t(run.size);
                m.stride = int32_t(run.stride);
                m.l2bm = uint16_t(at + run.first * block_words);
                all.push_back(m);
            }
        };
        const bool whole = all_words % block_words == 0 && (words == all_words || words % block_words == 0);
        const int64_t unit = whole ? block_words : c_.config.moves.granule;
        std::vector<DramPlace> list;
        int64_t first = 0; // row of the list's first entry
        const auto flush = [&] {
            if (list.empty()) return;
            if (whole)
                put(list, from + first * all_words);
            else
                moves_.granules(f_.y, list, from + first * all_words, 1u << u, true, all);
            list.clear();
        };
        for (size_t v = 0; v < d.rows.size(); v++) {
            values[f_.vector] = d.rows[v];
            const int64_t row = f_.y.row(values);
            if (row == order.zero_row() || words < all_words) flush();
            if (row == order.zero_row()) continue;
            if (list.empty()) first = int64_t(v);
            for (int64_t w = 0; w < words; w += unit) list.push_back(order.place(row, word + w));
        }
        flush();
    }
    std::map<uint16_t, size_t> of_group;
    const size_t begin = stores_.size();
    for (const Mv &m : all) {
        const size_t at = begin + (m_.complete < 0 ? 0 : of_group[m.groups]++);
        if (at == stores_.size()) stores_.push_back({drained_, {}});
        stores_[at].moves.push_back(m);
    }
    d.rows.clear();
    drained_++;
}

// Reduces sums of rows over the MABs into L1BM. A step reduces four rows of a matrix, or four
// matrices of a row. Steps of four rows are numbered [rows collected in a MAB][matrix][row group]
// and run matrix by matrix, the order in which the next tile's sums overwrite them.
void MabDrain::reduce_over_mabs(const TileDrain &d, int64_t first) {
    const bool of_one = f_.narrows || f_.sides > 1;
    const int64_t matrices = f_.l1b_matrices(), steps = m_.drain_rows * matrices / cycles_per_step,
                  groups = of_one ? f_.apart : steps, inner = of_one ? matrices : 1, rows = steps / groups / inner;
    for (int64_t n = 0; n < steps; n++) {
        const int64_t matrix = n / groups / rows, row = n / groups % rows;
        const int64_t q = (row * inner + matrix) * groups + n % groups;
        std::array<int, 4> at;
        uint32_t mabs = all_units;
        for (int64_t i = 0; i < cycles_per_step; i++) {
            int64_t v, t;
            if (of_one) {
                const int64_t o = q % f_.apart;
                const ProductForm::Matrix &own = f_.of_l1b[size_t(q / f_.apart % matrices)];
                t = own.number, v = first + (q / f_.apart / matrices * cycles_per_step + i) * f_.apart + o;
                if (f_.sides > 1) mabs = f_.mabs_of(own.side);
            } else {
                v = first + (q * cycles_per_step + i) / matrices, t = (q * cycles_per_step + i) % matrices;
            }
            at[size_t(i)] = int(std::max<int64_t>(d.sums_at, 0) + f_.sum_words * (t * f_.vectors + v));
        }
        MicroOp m;
        L1 l1;
        l1.op = L1Op::MabReduce;
        const int width = int(f_.sum_words);
        l1.width = uint8_t(width);
        l1.mabs = mabs;
        l1.at.at = uint16_t(d.sums + q * 16 * width);
        l1.from = m.read(four_of(d.sums_at < 0 ? Source::Grf0 : Source::Lm1, at));
        m.word().l1 = l1;
        c_.packer.place(m);
    }
}

// Appends pieces of the current rows to L2BM. A step transfers four pieces. If some of them must
// not be stored, they are written where other rows' pieces follow: those after the stored ones to
// the next row's place, those before them to the last row's.
void MabDrain::move_up(const TileDrain &d, int64_t piece, int64_t pieces) {
    const int64_t rows = int64_t(d.rows.size()) - m_.drain_rows, steps = pieces / cycles_per_step;
    for (int64_t i = 0; i < steps; i++) {
        const int64_t p = piece + (d.backwards() ? steps - 1 - i : i) * cycles_per_step, begin = p % f_.pieces;
        if (begin + cycles_per_step <= d.pieces.begin || begin >= d.pieces.end) continue;
        const int64_t at =
            (rows + p / f_.pieces) * d.pieces.count() + begin - d.pieces.begin / cycles_per_step * cycles_per_step;
        L2 s;
        s.op = L2Op::Gather;
        moves_.l2_step(s, d.l2bm + at * 8 * f_.l1bs, d.out + p * 8);
    }
}

// f16: combines rows of four columns of a PE into one word. Row v, matrix t: piece v · pieces + t /
// 2 of the L1B goes through MABs 2m and 2m + 1, where m is the piece's number modulo half the MABs,
// so that a gather writes pieces in order.
void NarrowDrain::finish_rows(const TileDrain &d, int64_t first) {
    // Words of a MAB from one group of four rows to the next.
    const int64_t half = f_.mabs / 2, step = f_.apart * f_.pieces / half;
    const int64_t together = cycles_per_step * f_.apart; // rows
    for (int64_t n = 0; n < m_.drain_rows; n += together) {
        const int64_t v = d.backwards() ? m_.drain_rows - together - n : n;
        const int64_t regs = epilogue_.registers().next(2 * f_.slots), begin = v * f_.pieces;
        for (int64_t t = 0; t < f_.l1b_matrices(); t++) {
            for (int64_t o = 0; o < f_.apart; o++) {
                const int64_t piece = o * f_.pieces + t / 2,
                              quad = (v / together * f_.l1b_matrices() + t) * f_.apart + o;
                epilogue_.reload(d.sums + quad * 32, 1u << (piece % half * 2 + t % 2), regs + 2 * (piece / half),
                                 2 * step);
            }
        }
        for (int64_t i = 0; i < f_.slots; i += cycles_per_step) {
            const int64_t s = d.backwards() ? f_.slots - cycles_per_step - i : i, piece = begin + s * half;
            epilogue_.load_pieces(first * f_.pieces + piece);
            const Operand joined = epilogue_.joined(regs + 2 * s, 2);
            MicroOp m = epilogue_.code().run_to_last(
                epilogue_.program(), [&](int which, int part) { return epilogue_.read(joined, which, part); });
            L1 l1;
            l1.op = L1Op::Gather;
            l1.from = VectorEmitter::forward(m);
            m.next();
            l1.at.at = uint16_t(d.out + piece * 8);
            m.word().l1 = l1;
            c_.packer.place(m);
            move_up(d, piece, 4 * half);
        }
    }
}

// f32: reduced sums in L1BM are already rows of the result, or four rows of each side's matrices,
// which are reordered in the PEs. Every MAB does the same there, and one writes.
void WideDrain::finish_rows(const TileDrain &d, int64_t first) {
    const int64_t count = m_.drain_rows * f_.pieces, four = cycles_per_step, turns = f_.sides > 1 ? four : 1;
    for (int64_t n = 0; n < count && d.out != d.sums; n += four * turns) {
        // Sides: the first of four rows.
        const int64_t v = n / (f_.pieces * turns) * turns, t = n / turns % f_.pieces;
        const int64_t regs = epilogue_.registers().next(2 * four * turns);
        for (int64_t i = 0; i < turns; i++)
            epilogue_.reload(d.sums + (n / four + i) * 32, all_units, regs + 2 * i, 2 * turns);
        for (int64_t i = 0; i < turns; i++) {
            const int64_t piece = f_.sides > 1 ? (v + i) * f_.pieces + t : n;
            Operand result = epilogue_.joined(regs + 2 * four * i, 2);
            if (f_.epilogue.defined()) result = epilogue_.finished(result, first * f_.pieces + piece);
            MicroOp m;
            L1 l1;
            l1.op = L1Op::MabReduce;
            l1.width = 2;
            l1.mabs = 1;
            l1.from = m.read(result);
            l1.at.at = uint16_t(d.out + piece * 8);
            m.word().l1 = l1;
            c_.packer.place(m);
            if (f_.epilogue.defined()) epilogue_.code().give_back(result);
        }
    }
    move_up(d, 0, count);
}

std::unique_ptr<ProductDrain> make_drain(Context &c, const ProductForm &form, ProductMemory &memory,
                                         ProductEpilogue &epilogue) {
    if (form.parts > 1) return std::make_unique<HalvesDrain>(c, form, memory, epilogue);
    if (form.narrows) return std::make_unique<NarrowDrain>(c, form, memory, epilogue);
    return std::make_unique<WideDrain>(c, form, memory, epilogue);
}

} // namespace kumiko::chip
