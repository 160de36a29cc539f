// Drains the sums of a row product: reduction over the MABs, epilogue, assembly into rows, stores
// to DRAM.
#include "targets/chip/stage/end_program.h"
#include "targets/chip/stage/row_product.h"

#include "dsl/print.h"
#include "dsl/types.h"
#include "support/error.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <numeric>

namespace kumiko::chip {

using namespace sim;
namespace ir = Halide::Internal;

namespace {

Operand words_of(Bank bank, int64_t at, int stride) {
    return bank == Bank::Lm1    ? lm1(int(at), stride)
           : bank == Bank::Grf1 ? grf1(int(at), stride)
                                : grf0(int(at), stride);
}

} // namespace

void RowProduct::begin_epilogue(const ScheduleState &state) {
    Planner &plan = c_.planner;
    plan.take(Bank::Grf0, sum_words_ * vectors_ * matrices_, "sums of " + stage_.name());
    // Rows collected in one MAB are `apart_` rows from each other; that many words of a MAB result
    // from four times as many rows.
    const int64_t half = std::max<int64_t>(mabs_ / 2, 1);
    apart_ = narrows_ ? half / std::gcd(pieces_, half) : 1;
    slots_ = parts_ > 1 ? cycles_per_step
             : narrows_ ? cycles_per_step * apart_ * pieces_ / half
                        : cycles_per_step * sides_;
    if (narrows_ || end_.defined() || sides_ > 1) {
        const int64_t words = 2 * slots_ * (plan.free_words(Bank::Grf1) >= 4 * slots_ + 4 * set_words_ ? 2 : 1);
        // GRF1 must first hold two buffers of vectors.
        if (complete_ >= 0)
            registers_bank_ = Bank::Lm1;
        else if (plan.free_words(Bank::Grf1) < words + 2 * set_words_ && plan.free_words(Bank::Grf0) >= words)
            registers_bank_ = Bank::Grf0;
        registers_ = Ring(plan.take(registers_bank_, words, "joined sums"), words);
    }
    for (const Expr &e : end_.defined() ? reads_with_casts(end_) : std::vector<Expr>()) {
        const ir::Cast *cast = e.as<ir::Cast>();
        const Expr read = cast ? cast->value : e;
        const std::string tensor = read.as<ir::Call>()->name;
        if (tensor == stage_.name()) continue;
        if (!state.is_input(tensor))
            throw Unsupported("the end of " + stage_.name() + " reads " + tensor + ", which another stage computes");
        if (read.type() != type_ || (cast && cast->type != f32))
            throw Unsupported("the end of " + stage_.name() + " reads elements of " + type_name(read.type()) +
                              "; those of the result's type, " + type_name(type_) + ", are built");
        if (std::any_of(end_operands_.begin(), end_operands_.end(),
                        [&](const EndOperand &o) { return ir::equal(o.read, read); }))
            continue;
        EndOperand o;
        o.read = read;
        const TensorAccess access = plan_->access(state, read);
        std::vector<size_t> order(access.index.size());
        std::iota(order.begin(), order.end(), 0);
        const Affine &last = access.index.back(), &own = y_.access.index.back();
        if (last.coefficients != own.coefficients || last.constant != own.constant)
            throw Unsupported("the end of " + stage_.name() + " reads " + tensor +
                              " at another last index than its own; rows of columns are built");
        o.view = dram_view(access, tensor, false, order);
        end_operands_.push_back(std::move(o));
    }
    const int64_t words = int64_t(end_operands_.size()) * (narrows_ ? 4 : 8);
    if (words) {
        if (plan.free_words(Bank::Grf1) >= words + set_words_ + 24) operands_bank_ = Bank::Grf1;
        operands_ring_ = Ring(plan.take(operands_bank_, words, "operands of the end"), words);
    }
    if (!end_.defined() && !narrows_) return;
    std::array<RegisterRange, 2> registers;
    for (int b = 0; b < 2 && end_.defined(); b++) {
        const Bank bank = b ? Bank::Grf1 : Bank::Grf0;
        const int64_t free = plan.free_words(bank) - (b ? set_words_ : 0), size = std::clamp<int64_t>(free, 8, 96);
        registers[size_t(b)] = {int(plan.take(bank, size, "values of the end of " + stage_.name())), int(size)};
    }
    const std::string who = "the end of stage " + stage_.name();
    code_ = std::make_unique<VectorEmitter>(c_.packer, who, registers, narrows_);
    std::vector<Expr> reads;
    for (const EndOperand &o : end_operands_) reads.push_back(o.read);
    const Expr value = end_.defined() && narrows_ ? finished_->def.value : end_;
    end_program_ = end_program(value, stage_.name(), reads, who);
}

void RowProduct::load_end(const Values &tile) {
    for (EndOperand &o : end_operands_) {
        o.l2bm = end_loads_.next(vectors_ * row_words_);
        const auto all = classes(tile, [&](Values &values, Class &c) {
            c.word = o.view.last(values) / o.view.order->per_word();
            for (int64_t v = 0; v < vectors_; v++) {
                values[vector_] = v;
                c.rows.push_back(o.view.row(values));
            }
        });
        const bool whole = row_words_ % block_words == 0;
        const int64_t unit = whole ? block_words : c_.config.moves.granule;
        std::vector<Mv> moves;
        for (const Class &c : all) {
            std::vector<DramPlace> list;
            for (const int64_t r : c.rows) {
                // Words beyond the row are not stored.
                for (int64_t w = c.word; w < c.word + row_words_; w += unit)
                    list.push_back(o.view.order->place(r, w < o.view.order->pitch() ? w : 0));
            }
            if (!whole) {
                granules(o.view, list, o.l2bm, c.l2bs, false, moves);
                continue;
            }
            for (const BlockRun &run : join_blocks(list)) {
                Mv m = between(c.l2bs, run.at.group, false);
                m.address = uint32_t(o.view.dram + run.at.address);
                m.blocks = uint16_t(run.count);
                m.size = uint16_t(run.size);
                m.stride = int32_t(run.stride);
                m.l2bm = uint16_t(o.l2bm + run.first * block_words);
                moves.push_back(m);
            }
        }
        c_.packer.place(moves);
    }
}

// Loads the words of an operand for four words of every MAB: pieces from `piece` on, in the
// arrangement of the sums.
void RowProduct::load_epilogue(EndOperand &o, int64_t piece) {
    const int64_t pieces = narrows_ ? 2 * mabs_ : cycles_per_step;
    const int64_t l1bm = l1_loads_.next(end_words());
    for (int64_t i = 0; i < pieces; i += cycles_per_step) {
        L2 s;
        s.op = L2Op::Scatter;
        l2_step(s, o.l2bm + (piece + i) * 8 * l1bs_, l1bm + i * 8);
    }
    const int width = narrows_ ? 1 : 2;
    o.here = words_of(operands_bank_, operands_ring_.next(cycles_per_step * width), width);
    MicroOp m;
    m.word().l1.op = narrows_ ? L1Op::Scatter : L1Op::MabBroadcast;
    m.word().l1.width = uint8_t(width);
    m.word().l1.at.at = uint16_t(l1bm);
    m.word().l1.to = m.write(o.here);
    c_.packer.place(m);
}

// One of the words of an epilogue operand in a step.
Operand RowProduct::end_read(const Operand &sums, int which, int word) const {
    return next_word(which ? end_operands_[size_t(which - 1)].here : sums, word);
}

// The epilogue in f32 on four reloaded rows of 8 LW: each PE has two words of each.
Operand RowProduct::finished(const Operand &sums, int64_t piece) {
    for (EndOperand &o : end_operands_) load_epilogue(o, piece);
    const Operand result = code_->take(2, 1);
    for (int word = 0; word < 2; word++)
        code_->run(
            end_program_, [&](int which, int) { return end_read(sums, which, word); },
            [&](int) { return next_word(result, word); });
    return result;
}

void RowProduct::drain(const Values &tile, int64_t sums_at, Span pieces) {
    drains_.emplace_back();
    drains_.back().tile = tile, drains_.back().sums_at = sums_at, drains_.back().pieces = pieces;
    if (complete_ < 0) drain_next();
}

// Drains some rows of the first waiting tile, alternately from its two halves, whose rows are in
// different groups.
void RowProduct::drain_next() {
    if (parts_ > 1) return drain_halves();
    Drain &d = drains_.front();
    if (!d.done && end_.defined()) load_end(d.tile);
    if (d.rows.empty()) {
        leave(drained_ - 1 - lag_);
        d.l2bm = results_.next(store_rows_ * row_words_);
    }
    const int64_t n = d.done / drain_rows_, all = vectors_ / drain_rows_;
    const int64_t first = (all % 2 ? n : n % 2 * (all / 2) + n / 2) * drain_rows_;
    const int64_t words = drain_rows_ * l1b_matrices() * 4 * sum_words_;
    d.sums = d.out = l1_sums_.next(words);
    if (l1_results_.words()) d.out = l1_results_.next(narrows_ ? words / 2 : words);
    for (int64_t v = first; v < first + drain_rows_; v++) d.rows.push_back(v);
    join(d, first);
    narrows_ ? drain_narrow(d, first) : drain_wide(d, first);
    d.done += drain_rows_;
    if (int64_t(d.rows.size()) == store_rows_) store(d);
    if (d.done == vectors_) drains_.pop_front();
}

// Reduces sums of rows over the MABs into L1BM. A step reduces four rows of a matrix, or four
// matrices of a row: [rows collected in a MAB][matrix][row group], or in plain order. The order is
// that in which the next tile's sums overwrite them.
void RowProduct::join(const Drain &d, int64_t first) {
    const bool of_one = narrows_ || sides_ > 1;
    const int64_t matrices = l1b_matrices(), quads = drain_rows_ * matrices / cycles_per_step,
                  of_rows = of_one ? apart_ : quads, turns = quads / of_rows, deinterleaved = of_one ? matrices : 1;
    for (int64_t n = 0; n < quads; n++) {
        const int64_t turn = n / of_rows, rows = turns / deinterleaved;
        const int64_t q = (turn % rows * deinterleaved + turn / rows) * of_rows + n % of_rows;
        std::array<int, 4> at;
        uint32_t mabs = all_units;
        for (int64_t i = 0; i < cycles_per_step; i++) {
            int64_t v, t;
            if (of_one) {
                const int64_t o = q % apart_;
                const Matrix &matrix = of_l1b_[size_t(q / apart_ % matrices)];
                t = matrix.number, v = first + (q / apart_ / matrices * cycles_per_step + i) * apart_ + o;
                if (sides_ > 1) mabs = mabs_of(matrix.side);
            } else {
                v = first + (q * cycles_per_step + i) / matrices, t = (q * cycles_per_step + i) % matrices;
            }
            at[size_t(i)] = int(std::max<int64_t>(d.sums_at, 0) + sum_words_ * (t * vectors_ + v));
        }
        MicroOp m;
        L1 l1;
        l1.op = L1Op::MabReduce;
        const int width = int(sum_words_);
        l1.width = uint8_t(width);
        l1.mabs = mabs;
        l1.at.at = uint16_t(d.sums + q * 16 * width);
        l1.from = m.read(four_of(d.sums_at < 0 ? Source::Grf0 : Source::Lm1, at));
        m.word().l1 = l1;
        c_.packer.place(m);
    }
}

Operand RowProduct::back(int64_t l1bm, uint32_t mabs, int64_t at, int64_t stride) {
    const Operand to = words_of(registers_bank_, at, int(stride));
    MicroOp m;
    m.word().l1.op = L1Op::MabBroadcast;
    m.word().l1.width = 2;
    m.word().l1.mabs = mabs;
    m.word().l1.at.at = uint16_t(l1bm);
    m.word().l1.to = m.write(to);
    c_.packer.place(m);
    return to;
}

// f16: combines rows of four columns of a PE into one word. Row v, matrix t: piece v · pieces + t /
// 2 of the L1B goes through MABs 2m and 2m + 1, where m is the piece's number modulo half the MABs,
// so that a gather writes pieces in order.
void RowProduct::drain_narrow(const Drain &d, int64_t first) {
    // Words of a MAB from one group of four rows to the next.
    const int64_t half = mabs_ / 2, step = apart_ * pieces_ / half;
    const int64_t together = cycles_per_step * apart_; // rows
    for (int64_t n = 0; n < drain_rows_; n += together) {
        const int64_t v = d.backwards() ? drain_rows_ - together - n : n;
        const int64_t regs = registers_.next(2 * slots_), begin = v * pieces_;
        for (int64_t t = 0; t < l1b_matrices(); t++) {
            for (int64_t o = 0; o < apart_; o++) {
                const int64_t piece = o * pieces_ + t / 2, quad = (v / together * l1b_matrices() + t) * apart_ + o;
                back(d.sums + quad * 32, 1u << (piece % half * 2 + t % 2), regs + 2 * (piece / half), 2 * step);
            }
        }
        for (int64_t i = 0; i < slots_; i += cycles_per_step) {
            const int64_t s = d.backwards() ? slots_ - cycles_per_step - i : i, piece = begin + s * half;
            for (EndOperand &o : end_operands_) load_epilogue(o, first * pieces_ + piece);
            const Operand joined = words_of(registers_bank_, regs + 2 * s, 2);
            MicroOp m =
                code_->run_to_last(end_program_, [&](int which, int part) { return end_read(joined, which, part); });
            L1 l1;
            l1.op = L1Op::Gather;
            l1.from = VectorEmitter::forward(m);
            m.next();
            l1.at.at = uint16_t(d.out + piece * 8);
            m.word().l1 = l1;
            c_.packer.place(m);
            up(d, piece, 4 * half);
        }
    }
}

// f32: reduced sums in L1BM are already rows of the result, or four rows of each side's matrices,
// which are reordered in the PEs. Every MAB does the same there, and one writes.
void RowProduct::drain_wide(const Drain &d, int64_t first) {
    const int64_t count = drain_rows_ * pieces_, four = cycles_per_step, turns = sides_ > 1 ? four : 1;
    for (int64_t n = 0; n < count && d.out != d.sums; n += four * turns) {
        // Sides: the first of four rows.
        const int64_t v = n / (pieces_ * turns) * turns, t = n / turns % pieces_;
        const int64_t regs = registers_.next(2 * four * turns);
        for (int64_t i = 0; i < turns; i++) back(d.sums + (n / four + i) * 32, all_units, regs + 2 * i, 2 * turns);
        for (int64_t i = 0; i < turns; i++) {
            const int64_t piece = sides_ > 1 ? (v + i) * pieces_ + t : n;
            Operand result = words_of(registers_bank_, regs + 2 * four * i, 2);
            if (end_.defined()) result = finished(result, first * pieces_ + piece);
            MicroOp m;
            L1 l1;
            l1.op = L1Op::MabReduce;
            l1.width = 2;
            l1.mabs = 1;
            l1.from = m.read(result);
            l1.at.at = uint16_t(d.out + piece * 8);
            m.word().l1 = l1;
            c_.packer.place(m);
            if (end_.defined()) code_->give_back(result);
        }
    }
    up(d, 0, count);
}

// Appends pieces of the current rows to L2BM. A step transfers four pieces. If some of them must
// not be stored, they are written where other rows' pieces follow: those after the stored ones to
// the next row's place, those before them to the last row's.
void RowProduct::up(const Drain &d, int64_t piece, int64_t pieces) {
    const int64_t rows = int64_t(d.rows.size()) - drain_rows_, steps = pieces / cycles_per_step;
    for (int64_t i = 0; i < steps; i++) {
        const int64_t p = piece + (d.backwards() ? steps - 1 - i : i) * cycles_per_step, begin = p % pieces_;
        if (begin + cycles_per_step <= d.pieces.begin || begin >= d.pieces.end) continue;
        const int64_t at =
            (rows + p / pieces_) * d.pieces.count() + begin - d.pieces.begin / cycles_per_step * cycles_per_step;
        L2 s;
        s.op = L2Op::Gather;
        l2_step(s, d.l2bm + at * 8 * l1bs_, d.out + p * 8);
    }
}

// Queues the stores. If sums need not leave GRF0 soon, they are split so that each group is busy
// for about the same time.
void RowProduct::store(Drain &d) {
    std::vector<Mv> all;
    Values values = d.tile;
    const DramOrder &order = *y_.order;
    // After the pieces that are not stored.
    const int64_t all_words = d.pieces.count() * 8 * l1bs_,
                  from = d.l2bm + d.pieces.begin % cycles_per_step * 8 * l1bs_;
    for (int u = 0; u < c_.config.total_l2bs(); u++) {
        if (u / c_.config.l2bs >= plan_->used(Tier::Group) || u % c_.config.l2bs >= plan_->used(Tier::L2b)) continue;
        plan_->set_unit(values, Tier::Group, u / c_.config.l2bs);
        plan_->set_unit(values, Tier::L2b, u % c_.config.l2bs);
        values[vector_] = 0;
        const int64_t word = y_.last(values) / order.per_word() + d.pieces.begin * 8 * l1bs_;
        const int64_t words = std::min(all_words, order.pitch() - word);
        if (words <= 0) continue;
        const auto put = [&](const std::vector<DramPlace> &list, int64_t at) {
            for (const BlockRun &run : join_blocks(list)) {
                Mv m = between(1u << u, run.at.group, true);
                m.address = uint32_t(y_.dram + run.at.address);
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
                granules(y_, list, from + first * all_words, 1u << u, true, all);
            list.clear();
        };
        for (size_t v = 0; v < d.rows.size(); v++) {
            values[vector_] = d.rows[v];
            const int64_t row = y_.row(values);
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
        const size_t at = begin + (complete_ < 0 ? 0 : of_group[m.groups]++);
        if (at == stores_.size()) stores_.push_back({drained_, {}});
        stores_[at].moves.push_back(m);
    }
    d.rows.clear();
    drained_++;
}

// Moves rows with fewer than 64 LW in an L2B by granules, through a table that the host writes. The
// excess of a whole block of 64 LW goes to a dummy destination.
void RowProduct::granules(const View &view, const std::vector<DramPlace> &at, int64_t l2bm, uint32_t l2bs, bool store,
                          std::vector<Mv> &all) {
    const int64_t granule = c_.config.moves.granule, in_block = block_words / granule;
    std::vector<uint32_t> entries;
    for (const DramPlace &p : at) entries.push_back(uint32_t((view.dram + p.address) / granule));
    if (entries.size() % size_t(in_block)) {
        const int64_t spare = c_.planner.take(Bank::Dram, block_words, "what nobody reads");
        for (int64_t i = 0; entries.size() % size_t(in_block); i++) entries.push_back(uint32_t(spare / granule + i));
    }
    Mv m = between(l2bs, at.front().group, store);
    m.indirect = true;
    m.size = uint16_t(entries.size() / size_t(in_block));
    m.l2bm = uint16_t(l2bm);
    m.table = uint32_t(c_.table(at.front().group, entries));
    all.push_back(m);
}

void RowProduct::describe() {
    std::string indent;
    const auto line = [&](const std::string &t) { c_.l2 += indent + t + "\n"; };
    line("stage " + (finished_ ? finished_->name() : stage_.name()));
    const auto &loops = plan_->loops();
    for (size_t l = 0; l < loops.size(); l++) {
        indent += "  ";
        const PlannedLoop &p = loops[l];
        if (p.kind == PlannedLoop::Kind::Unit)
            line(fmt::format("on each {} {} in 0..{}{}", level_names[size_t(p.level)], p.name, p.extent,
                             p.reduction ? " (reduction)" : ""));
        else if (p.kind == PlannedLoop::Kind::Lane)
            line(fmt::format("lanes {} in 0..{}", p.name, p.extent));
        else
            line(fmt::format("for {} in 0..{}{}", p.name, p.extent, p.reduction ? " (reduction)" : ""));
        if (l == panel_at_)
            line(fmt::format(
                "  move {} to LM: {} matrices of {} sets{}", w_.access.tensor, matrices_, sets_,
                late_ ? fmt::format("; a quarter of them comes while the first {} tiles pass under the others",
                                    before_late_)
                      : ""));
        if (stage_.accumulate->loop == p.name)
            line(fmt::format("  sums in GRF0, {} LW; at the end: joined over {}, moved to DRAM by rows of {} LW",
                             sum_words_ * vectors_ * matrices_, parts_ > 1 ? "halves of the L1Bs" : "MABs",
                             row_words_));
    }
    indent += "  ";
    line(fmt::format("move {} vectors to GRF1; {}: {} times {}", vectors_, stage_.tensorize->instruction,
                     w_.access.tensor, x_.access.tensor));
    c_.l2 += c_.planner.to_string();
}

} // namespace kumiko::chip
