// What a row product's loops say, and the memory that it takes.
#include "targets/chip/stage/row_product.h"

#include "dsl/print.h"
#include "dsl/types.h"
#include "support/error.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>

namespace kumiko::chip {

using namespace sim;
namespace ir = Halide::Internal;

namespace {

int64_t round_up(int64_t a, int64_t to) { return ceil_div(a, to) * to; }

} // namespace

RowProduct::View RowProduct::dram_view(TensorAccess access, const std::string &name, bool output,
                                       std::vector<size_t> order) {
    View v;
    v.access = std::move(access);
    const int bytes = v.access.type.bytes();
    if (bytes != 2 && bytes != 4)
        throw Unsupported(name + " has elements of " + type_name(v.access.type) +
                          "; the chip has types of 16 and 32 bits");
    v.order = std::make_shared<const DramOrder>(v.access.extents, bytes, c_.config, std::move(order));
    v.dram = c_.take_dram(v.order, name, output);
    return v;
}

RowProduct::View RowProduct::view(const ScheduleState &state, const Expr &read, const std::vector<Bank> &legal,
                                  const std::string &names, std::vector<Copy> &copies, bool columns) {
    const TensorAccess access = plan_->access(state, read);
    std::string source;
    const StageState *packed = nullptr;
    copies = copies_of(state, *plan_, access.tensor, source, &packed);
    if (copies.size() != 1 || std::find(legal.begin(), legal.end(), copies.front().memory) == legal.end())
        throw Unsupported(
            fmt::format("{} of {}, whose reduction is bound to MABs, is placed in {}; here it comes from {}", source,
                        stage_.name(), memory_name(copies.front().memory), names));
    std::vector<size_t> order = storage_order(state, source, packed);
    View v = dram_view(access, source, false, order);
    // Along k without gaps, from the first; or along the columns.
    const std::string &k = stage_.def.reduction_axes.front().name();
    const auto same = [](const Affine &a, const Affine &b) {
        return a.constant == b.constant && a.coefficients == b.coefficients;
    };
    for (size_t d = 0; d < order.size(); d++) {
        if (same(access.index[d], plan_->axis(k))) v.k = d;
    }
    v.across = v.k != order.back() && same(access.index[order.back()], plan_->own().index.back());
    if (order.size() < 2 || v.k == SIZE_MAX || (v.k != order.back() && !(v.across && columns)))
        throw Unsupported(fmt::format("{} of {} lies in DRAM with another axis than {} contiguous; prepack(\"{}\", …) "
                                      "with that axis last lays it so",
                                      source, stage_.name(), k, source));
    return v;
}

void RowProduct::understand(const ScheduleState &state) {
    const auto &loops = plan_->loops();
    const std::string who = "stage " + stage_.name() + ": ";
    const auto refuse = [&](const std::string &what) {
        throw Unsupported(who + what +
                          "; a product whose reduction is bound to MABs has the loops [units, rows and "
                          "columns in time | k in time | matrices of an L1B | rows | 16 columns, 16 of k]");
    };
    if (stage_.def.reduction_axes.size() != 1) refuse("it reduces along more than one axis");
    if (!stage_.accumulate)
        throw UserError(who + "it is tensorized, but its sums have no place; accumulate_in(\"GRF0\", …)");
    if (stage_.accumulate->level != "GRF0") refuse("it accumulates in " + stage_.accumulate->level + ", not in GRF0");
    const size_t accumulate_at = plan_->loop(stage_.accumulate->loop);
    for (size_t l = 0; l < loops.size(); l++) {
        if (loops[l].kind == PlannedLoop::Kind::Lane) (loops[l].reduction ? column_ : row_) = l;
        if (loops[l].kind == PlannedLoop::Kind::Unit && loops[l].level == Tier::L1b && loops[l].reduction)
            parts_ *= loops[l].extent, part_ = l;
        if (loops[l].kind != PlannedLoop::Kind::Unit || loops[l].level != Tier::Mab) continue;
        if (loops[l].reduction)
            mab_ = l;
        else if (mab_ == SIZE_MAX && part_ == SIZE_MAX)
            refuse("loop " + loops[l].name + ", bound to MAB, stands outside of the reduction's");
        else
            sides_ *= loops[l].extent;
    }
    if (parts_ > 1 && (parts_ != 2 || l1bs_ != 8 || mabs_ != 16 || sides_ != 16))
        refuse(fmt::format(
            "{} parts of its reduction are dealt to the {} L1Bs; two halves of 8 can be, of 16 MABs each, with "
            "columns of their own",
            parts_, l1bs_));
    if (parts_ == 1 && sides_ != 1 && (sides_ != 4 || mabs_ % 4))
        refuse(fmt::format("{} neighbouring MABs have columns of their own; 4 can", sides_));
    deal_ = pes_per_mab * mabs_ / sides_;
    sets_of_block_ = block_words / deal_;
    const int64_t of_step = cycles_per_step * (sides_ > 1 ? 2 : 1); // LW of a PE
    sets_of_step_ = std::min<int64_t>(of_step, sets_of_block_);
    rows_of_step_ = of_step / sets_of_step_;
    const std::vector<Expr> reads = reads_in(stage_.def.components.front().term);
    Expr x, w;
    for (const Expr &e : reads) (plan_->access(state, e).depends(row_) ? w : x) = e;
    if (!x.defined() || !w.defined())
        refuse("not one of its operands has the rows of the loop " + loops[row_].name + ", and one has not");
    std::vector<Copy> copies, x_copies;
    w_ = view(state, w, {Bank::Lm, Bank::Lm0, Bank::Lm1}, "LM, LM0 or LM1", copies, true);
    panel_at_ = copies.front().at;
    const bool twice = kept(copies.front(), 2) == 2;
    const Bank bank = copies.front().memory;
    x_ = view(state, x, {Bank::Grf1}, "GRF1, through which its rows pass", x_copies, false);
    kept(x_copies.front(), 1);
    single_ = x_.access.type == f32;
    if (single_ != (w_.access.type == f32) || (!single_ && (x_.access.type != f16 || w_.access.type != f16)))
        throw Unsupported(who + "the matrix unit multiplies f16 by f16 and f32 by f32, not " +
                          type_name(x_.access.type) + " by " + type_name(w_.access.type));
    side_ = single_ ? 8 : 16, sum_words_ = single_ ? 1 : 2, l1_rows_ = w_rows_ = side_;
    // k: 16 of each MAB, then the next set.
    const Affine &k = plan_->axis(stage_.def.reduction_axes.front().name());
    const int64_t set = side_ * mabs_ / sides_;
    if (parts_ == 1 && mab_ == SIZE_MAX) refuse("no loop of its reduction is bound to MAB");
    if (parts_ > 1 && (k.coefficients[column_] != 1 || k.coefficients[part_] != set * sets_of_block_ ||
                       loops[column_].extent != side_))
        refuse(fmt::format("of each {} along {}, the halves of the L1Bs do not have {} each",
                           parts_ * set * sets_of_block_, stage_.def.reduction_axes.front().name(),
                           set * sets_of_block_));
    if (parts_ == 1 && (k.coefficients[column_] != 1 || k.coefficients[mab_] != side_ ||
                        loops[mab_].extent * sides_ != mabs_ || loops[column_].extent != side_))
        refuse(fmt::format("of each {} along {}, MAB m does not have the {} behind {}·m", set,
                           stage_.def.reduction_axes.front().name(), side_, side_));
    for (size_t l = 0; l < loops.size(); l++) {
        if (loops[l].kind != PlannedLoop::Kind::Time) continue;
        if (l <= accumulate_at) {
            if (loops[l].reduction) refuse("reduction loop " + loops[l].name + " stands outside of the sums' loop");
            outer_.push_back(l);
        } else if (loops[l].reduction) {
            if (!tile_loops_.empty() || vector_ != SIZE_MAX)
                refuse("reduction loop " + loops[l].name + " stands inside");
            set_loops_.push_back(l);
            sets_ *= loops[l].extent;
        } else if (w_.access.depends(l)) {
            if (vector_ != SIZE_MAX) refuse("loop " + loops[l].name + " of columns stands inside of the rows'");
            tile_loops_.push_back(l);
            matrices_ *= loops[l].extent;
        } else {
            if (vector_ != SIZE_MAX) refuse("several loops of rows stand inside");
            vector_ = l;
            vectors_ = loops[l].extent;
        }
    }
    if (vector_ == SIZE_MAX || vectors_ % cycles_per_step != 0)
        refuse("no loop of rows, a multiple of 4, stands inside");
    for (const size_t l : set_loops_) {
        const int64_t c = k.coefficients[l], block = set * sets_of_block_;
        if (c % set || (parts_ > 1 && c % (parts_ * block) && c * loops[l].extent > block))
            refuse("loop " + loops[l].name + " does not step over whole sets of k");
    }
    const int64_t alternate = sides_ > 1 ? 2 : 1; // sets whose words do
    sets_ = std::min(round_up(sets_, alternate),
                     ceil_div(plan_->extent_of(stage_.def.reduction_axes.front()), alternate * set) * alternate);
    if (parts_ > 1) { // all but the last of their blocks are whole
        const int64_t K = plan_->extent_of(stage_.def.reduction_axes.front()), block = set * sets_of_block_,
                      whole = (K - 1) / (parts_ * block);
        sets_ =
            whole * sets_of_block_ + round_up(ceil_div(std::min(K - whole * parts_ * block, block), set), alternate);
    }
    blocks_ = ceil_div(sets_, sets_of_block_);
    for (size_t l = 0; l < loops.size(); l++) {
        if (loops[l].kind == PlannedLoop::Kind::Unit && loops[l].level == Tier::L1b && l != part_ &&
            x_.access.depends(l))
            refuse("loop " + loops[l].name + ", bound to L1B, divides the rows");
        if (loops[l].kind == PlannedLoop::Kind::Time && l > panel_at_ && l <= accumulate_at && w_.access.depends(l))
            refuse("loop " + loops[l].name + " stands inside of the copy of the matrices, and chooses them");
    }
    // The result.
    type_ = stage_.def.type;
    if (finished_) {
        const Expr &v = finished_->def.value;
        type_ = v.type();
        end_ = v;
        if (const ir::Cast *cast = v.as<ir::Cast>(); cast && type_ == f16) end_ = cast->value;
        if (end_.type() != f32 || (type_ != f16 && type_ != f32))
            throw Unsupported("stage " + finished_->name() + " finishes " + stage_.name() + " with " + to_string(v) +
                              "; behind the matrix unit elements of f32 are computed, and cast to f16 at last");
        if (const ir::Call *read = end_.as<ir::Call>(); read && read->name == stage_.name()) end_ = Expr();
    }
    TensorAccess own = plan_->own();
    own.type = type_;
    std::vector<size_t> order(own.index.size());
    std::iota(order.begin(), order.end(), 0);
    y_ = dram_view(own, finished_ ? finished_->name() : stage_.name(), true, order);
    narrows_ = type_ == f16;
    if (narrows_ && single_) throw Unsupported(who + "products of f32 with results of f16; results of f32 are built");
    of_piece_ = parts_ == 1 && (narrows_ || single_) ? 2 : 1;
    if (sides_ > 1 && single_) throw Unsupported(who + "products of f32 whose columns are bound to MABs");
    pieces_ = parts_ > 1 ? (narrows_ ? 4 : 8) : l1b_matrices() / of_piece_;
    row_words_ = pieces_ * 8 * l1bs_;
    if (parts_ > 1) understand_halves();
    // Columns: pieces of 8 LW go to the L1Bs in turn.
    Values values(loops.size(), 0);
    const int64_t first = y_.last(values);
    bool fits = parts_ > 1 || (l1b_matrices() % of_piece_ == 0 && plan_->used(Tier::L1b) == l1bs_);
    of_l1b_.assign(size_t(l1b_matrices()), {-1, -1});
    piece_of_.assign(size_t(l1b_matrices()), 0);
    for (int l = 0; fits && parts_ == 1 && l < l1bs_; l++) {
        for (int64_t t = 0; fits && t < l1b_matrices(); t++) {
            const Matrix m{t / sides_, t % sides_};
            plan_->set_unit(values, Tier::L1b, l);
            plan_->set_unit(values, Tier::Mab, int(m.side));
            set_tile(values, m.number);
            const int64_t n = (y_.last(values) - first) / side_, e = n % of_piece_,
                          at = n / (of_piece_ * l1bs_) * of_piece_ + e;
            fits = (y_.last(values) - first) % side_ == 0 && n / of_piece_ % l1bs_ == l && at < l1b_matrices();
            if (fits && !l) of_l1b_[size_t(at)] = m;
            fits = fits && of_l1b_[size_t(at)].number == m.number && of_l1b_[size_t(at)].side == m.side;
            if (fits) piece_of_[size_t(t)] = at / of_piece_;
        }
    }
    if (!fits || y_.access.index.back().coefficients[row_] != 1)
        refuse(
            fmt::format("pieces of {} columns, in order, do not go to the {} L1Bs in turn", side_ * of_piece_, l1bs_));
    plan_->set_unit(values, Tier::Mab, 0);
    if (parts_ > 1) std::iota(piece_of_.begin(), piece_of_.end(), 0);
    if (narrows_ && parts_ == 1) { // rows that meet in one MAB, four at a time
        const int64_t half = std::max<int64_t>(mabs_ / 2, 1), apart = half / std::gcd(pieces_, half);
        if (mabs_ < 2 || vectors_ % (4 * apart))
            refuse(fmt::format("{} rows of {} columns are no multiple of {} rows", vectors_, 16 * l1b_matrices(),
                               4 * apart));
    }
    if (w_.across) { // blocks of 64 LW that are all of the L1Bs of one L2B
        const int64_t of_block = std::max<int64_t>(1, block_words / (8 * l1bs_));
        if (!narrows_ || sides_ > 1 || block_words % (8 * l1bs_) || pieces_ % of_block)
            throw Unsupported(fmt::format(
                "{}{} lies in DRAM with its columns contiguous; that is built for results of f16 with a multiple of {} "
                "columns for each L1B, k over all MABs; prepack(\"{}\", …) with {} last lays it otherwise",
                who, w_.access.tensor, 32 * of_block, w_.access.tensor, stage_.def.reduction_axes.front().name()));
        chunk_pieces_ = of_block > 1 || pieces_ % 2 ? of_block : 2;
    }
    // The row tiles in order, and the panels of columns that they use.
    values.assign(loops.size(), 0);
    std::vector<int64_t> key, last;
    const std::function<void(size_t)> walk = [&](size_t depth) {
        if (depth < outer_.size()) {
            for (int64_t v = 0; v < loops[outer_[depth]].extent; v++) {
                values[outer_[depth]] = v;
                walk(depth + 1);
            }
            values[outer_[depth]] = 0;
            return;
        }
        key.clear();
        for (const size_t l : outer_) {
            if (l <= panel_at_ && w_.access.depends(l)) key.push_back(values[l]);
        }
        if (panels_.empty() || key != last) {
            panels_.push_back({tiles_.size(), 0, 0, {}, 0});
            last = key;
        }
        panels_.back().tiles++;
        tiles_.push_back(values);
    };
    walk(0);
    const int64_t words = round_up(sets_, sets_of_step_) * matrices_ * side_;
    ahead_ = twice && panels_.size() > 1 ? 2 : 1;
    for (int64_t n = 0; n < ahead_; n++)
        panel_slots_.push_back(c_.planner.take(bank, words, copies.front().stage->name() + (n ? " (second)" : "")) +
                               (bank == Bank::Lm1 ? c_.config.sizes.lm : 0));
    set_words_ = vectors_ * sets_of_step_;
    const int64_t lm = c_.config.sizes.lm, beside = 2 * lm - std::max(lm, panel_slots_.back() + words),
                  sums = sum_words_ * vectors_ * matrices_;
    if (sides_ > 1 && beside >= sums + 16 * sides_)
        complete_ = c_.planner.take(Bank::Lm1, sums, "complete sums of " + stage_.name());
    if (parts_ > 1 && complete_ < 0)
        throw UserError(fmt::format(
            "{}its columns take {} of {} LW of LM, which leaves no room for complete sums; halves of the L1Bs "
            "take shorter reductions, or it is bound to MABs",
            who, words, 2 * c_.config.sizes.lm));
    if (parts_ > 1 && ahead_ > 1)
        throw Unsupported(who + "columns of halves of the L1Bs that come under the work on others (double_buffer); "
                                "without it they come between");
    begin_end(state);
    if (parts_ > 1 && end_.defined())
        throw Unsupported(who + "an end of sums that meet in halves of the L1Bs; a cast to f16 is built");
    drain_rows_ = store_rows_ = vectors_;
    if (complete_ < 0) return come_late();
    drain_rows_ = cycles_per_step * apart_;
    store_rows_ = vectors_ / drain_rows_ % 2 ? drain_rows_ : 2 * drain_rows_;
    keep_sums(beside - sums - registers_.words());
}

// Cycles in which so many rows of a tensor come to every L2B.
double RowProduct::come(const View &view, double rows) const {
    const double rate = double(c_.config.moves.dram_rate * c_.config.groups);
    std::vector<Class> all =
        classes(tiles_.front(), [&](Values &values, Class &c) { c.rows.push_back(view.row(values)); });
    return rows * double(blocks_ * parts_ * block_words) * std::max(1.0 / 16, double(all.size()) / rate);
}

// Columns fill LM, so that no sums can wait for some of them. Where rows come fast enough, so many tiles of a panel pass under three
// quarters of the columns while the last quarter comes.
void RowProduct::come_late() {
    const int64_t late = pieces_ / 4;
    if (ahead_ > 1 || sides_ > 1 || w_.across || pieces_ % 4 || late * 8 * l1bs_ % block_words) return;
    const double work = 0.75 * double(sets_ * matrices_ * vectors_) * (single_ ? 2 : 1), x = come(x_, double(vectors_)),
                 w = 0.25 * come(w_, double(l1bs_ * l1b_matrices() * side_));
    if (work <= x) return;
    before_late_ = int64_t(1.25 * w / (work - x)) + 2;
    for (const Panel &p : panels_) {
        if (int64_t(p.tiles) < 3 * before_late_) return;
    }
    late_ = late;
}

// Complete sums of a tile stand in LM1, for the L1Bs to join side by side while the next ones are made. Where it has more room, sums of
// the first tiles do so while the columns of a panel come: of as many as make work for that time.
void RowProduct::keep_sums(int64_t words) {
    const int64_t sums = sum_words_ * vectors_ * matrices_;
    // Cycles: what a tile computes, in which its rows come, and the columns.
    const double work = double(sets_ * matrices_ * vectors_), x = come(x_, double(vectors_)),
                 w = come(w_, double(l1bs_ / parts_ * l1b_matrices() * side_));
    int64_t room = std::min<int64_t>(int64_t(panels_.front().tiles), words / sums);
    if (work > x) room = std::min(room, int64_t(w / (work - x)) + 1);
    if (ahead_ > 1 || room < 2 || blocks_ < 2) return;
    kept_ = room;
    kept_sums_ = c_.planner.take(Bank::Lm1, kept_ * sums, "sums while " + w_.access.tensor + " comes");
}

void RowProduct::begin_memory() {
    if (parts_ > 1) return begin_halves();
    Planner &plan = c_.planner;
    // Vectors: as many sets as GRF1 has room for.
    const int64_t groups = std::clamp<int64_t>(plan.free_words(Bank::Grf1) / set_words_, 1, 16);
    vectors_ring_ =
        Ring(plan.take(Bank::Grf1, groups * set_words_, "vectors of " + x_.access.tensor), groups * set_words_);
    // L1BM: sums of a tile, or of what is drained at a time, twice where there is room; results of one; the rest is for loads.
    const int64_t sums = drain_rows_ * l1b_matrices() * 4 * sum_words_;
    const bool back = narrows_ || end_.defined() || sides_ > 1; // sums go to the PEs once more
    const int64_t out = back ? sums / (narrows_ ? 2 : 1) : 0;
    const int64_t step = std::max(rows_of_step_ * block_words, end_operands_.empty() ? 0 : end_words()),
                  part = 16 * 8 * chunk_pieces_; // of columns across: of an L1B
    const int64_t times =
        2 * (sums + out) + std::max(4 * step, w_.across ? 2 * part : 0) <= plan.free_words(Bank::L1bm) ? 2 : 1;
    l1_sums_ = Ring(plan.take(Bank::L1bm, times * sums, "sums of " + stage_.name()), times * sums);
    if (out) l1_results_ = Ring(plan.take(Bank::L1bm, times * out, "results"), times * out);
    const int64_t late = of_piece_ * side_ * block_words; // that come late have a part of it for themselves
    const int64_t l1 = std::max(step, std::min(plan.free_words(Bank::L1bm), 64 * step) / step * step);
    if (l1 < 2 * late) late_ = 0;
    l1_loads_ = Ring(plan.take(Bank::L1bm, l1, "operands on their way"), l1);
    if (late_) late_l1_ = Ring(l1_loads_.begin() + l1 - late, late);
    // L2BM: results of some tiles, and moves of about 256 cycles.
    const int64_t result = store_rows_ * row_words_;
    const int64_t room = plan.free_words(Bank::L2bm);
    const auto blocks_in = [&](int64_t rows, int64_t cycles) { // of a row, in a move of so many cycles
        const int64_t most = std::min<int64_t>(cycles * c_.config.moves.dram_rate, room / 8);
        return std::clamp<int64_t>(most / (rows * block_words), 1, blocks_);
    };
    whole_x_blocks_ = blocks_in(std::min(vectors_, x_.order->together()), 128);
    const auto w_room = [&] { return l1 / ((of_piece_ + 1) * l1_rows_ * block_words); }; // blocks, by L1BM
    if (!w_.across) {
        while (l1_rows_ > rows_of_step_ && (w_room() < 1 || l1_rows_ * block_words > room / 8)) l1_rows_ /= 2;
        w_blocks_ = kept_ || late_ ? 1 : std::clamp<int64_t>(w_room(), 1, blocks_in(l1_rows_, 128));
    }
    if ((w_.across ? part : of_piece_ * l1_rows_ * w_blocks_ * block_words) > l1)
        throw UserError(fmt::format("stage {}: L1BM has {} LW for operands on their way; smaller tiles leave more",
                                    stage_.name(), l1));
    const int64_t w = w_.across ? part * l1bs_ : w_blocks_ * l1_rows_ * block_words;
    const int64_t end = int64_t(end_operands_.size()) * vectors_ * row_words_;
    const int64_t x = (kept_ ? 1 : whole_x_blocks_) * vectors_ * block_words;
    const auto slots_beside = [&] { return (room - 4 * x - 2 * w - end) / result; };
    const int64_t slots = std::clamp<int64_t>(slots_beside(), 1, complete_ < 0 ? 3 : 4);
    lag_ = stage_.write_back.empty() ? 0 : slots - 1;
    if (end) end_loads_ = Ring(plan.take(Bank::L2bm, end, "operands of the end"), end);
    const int64_t spare = plan.free_words(Bank::L2bm) - slots * result - w;
    const int64_t most_x = std::clamp<int64_t>(spare / x / (ahead_ > 1 ? 2 : 1), 1, 4) * x;
    whole_x_blocks_ = std::min(whole_x_blocks_, most_x / (vectors_ * block_words));
    x_loads_ = Ring(plan.take(Bank::L2bm, most_x, "rows of " + x_.access.tensor), most_x);
    const int64_t begin = plan.take(Bank::L2bm, slots * result, "rows of " + y_.access.tensor);
    results_ = Ring(begin, slots * result);
    const int64_t most_w = std::max<int64_t>(1, plan.free_words(Bank::L2bm) / w) * w;
    const int64_t at = plan.take(Bank::L2bm, most_w, "rows of " + w_.access.tensor);
    // Columns that come before the tiles, not under them, have the results' room too.
    const int64_t w_room2 = ahead_ > 1 ? most_w : (at + most_w - begin) / w * w;
    w_loads_ = Ring(ahead_ > 1 ? at : begin, w_room2);
    late_loads_ = Ring(at, most_w);
    if (w_.across) return;
    // Moves of more rows than L1BM has room for, where L2BM holds those of all L1Bs twice.
    w_rows_ = l1_rows_;
    while (w_rows_ < side_ && w_room2 / (2 * w_rows_ * w_blocks_ * block_words) >= 2 * of_piece_ * l1bs_) w_rows_ *= 2;
}

} // namespace kumiko::chip
