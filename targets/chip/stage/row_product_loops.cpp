// Analyses a row product's loops: the distribution of its operands, sums and result.
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

RowProduct::View RowProduct::dram_view(TensorAccess access, const std::string &name, bool output,
                                       std::vector<size_t> order, int64_t pitch) {
    View v;
    v.access = std::move(access);
    const int bytes = v.access.type.bytes();
    if (bytes != 2 && bytes != 4)
        throw Unsupported(name + " has elements of " + type_name(v.access.type) +
                          "; the chip has types of 16 and 32 bits");
    v.order = std::make_shared<const DramOrder>(v.access.extents, bytes, c_.config, std::move(order), pitch);
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
    // Contiguous along k, from its first element; or along the columns.
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

std::string RowProduct::who() const { return "stage " + stage_.name() + ": "; }

void RowProduct::refuse(const std::string &what) const {
    throw Unsupported(who() + what +
                      "; a product whose reduction is bound to MABs has the loops [units, rows and "
                      "columns in time | k in time | matrices of an L1B | rows | 16 columns, 16 of k]");
}

void RowProduct::analyze(const ScheduleState &state) {
    if (stage_.def.reduction_axes.size() != 1) refuse("it reduces along more than one axis");
    if (!stage_.accumulate)
        throw UserError(who() + "it is tensorized, but its sums have no memory level; use accumulate_in(\"GRF0\", …)");
    if (stage_.accumulate->level != "GRF0") refuse("it accumulates in " + stage_.accumulate->level + ", not in GRF0");
    analyze_units();
    analyze_operands(state);
    parts_ > 1 ? check_halves() : check_mabs();
    analyze_time();
    count_sets();
    analyze_result(state);
    parts_ > 1 ? columns_of_halves() : columns_of_l1bs();
    order_tiles();
}

// The distribution of the reduction and the columns to L1Bs and MABs.
void RowProduct::analyze_units() {
    const auto &loops = plan_->loops();
    for (size_t l = 0; l < loops.size(); l++) {
        if (loops[l].kind == PlannedLoop::Kind::Lane) (loops[l].reduction ? column_ : row_) = l;
        if (loops[l].kind == PlannedLoop::Kind::Unit && loops[l].level == Tier::L1b && loops[l].reduction)
            parts_ *= loops[l].extent, part_ = l;
        if (loops[l].kind != PlannedLoop::Kind::Unit || loops[l].level != Tier::Mab) continue;
        if (loops[l].reduction)
            mab_ = l;
        else if (mab_ == SIZE_MAX && part_ == SIZE_MAX)
            refuse("loop " + loops[l].name + ", bound to MAB, is outside of the reduction's");
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
    distribution_ = pes_per_mab * mabs_ / sides_;
    sets_of_block_ = block_words / distribution_;
    const int64_t of_step = cycles_per_step * (sides_ > 1 ? 2 : 1); // LW per PE
    sets_of_step_ = std::min<int64_t>(of_step, sets_of_block_);
    rows_of_step_ = of_step / sets_of_step_;
}

void RowProduct::analyze_operands(const ScheduleState &state) {
    const std::vector<Expr> reads = reads_in(stage_.def.components.front().term);
    Expr x, w;
    for (const Expr &e : reads) (plan_->access(state, e).depends(row_) ? w : x) = e;
    if (!x.defined() || !w.defined())
        refuse("not one of its operands has the rows of the loop " + plan_->loops()[row_].name + ", and one has not");
    std::vector<Copy> x_copies;
    w_ = view(state, w, {Bank::Lm, Bank::Lm0, Bank::Lm1}, "LM, LM0 or LM1", columns_copies_, true);
    panel_at_ = columns_copies_.front().at;
    twice_ = kept(columns_copies_.front(), 2) == 2;
    x_ = view(state, x, {Bank::Grf1}, "GRF1, through which its rows pass", x_copies, false);
    kept(x_copies.front(), 1);
    single_ = x_.access.type == f32;
    if (single_ != (w_.access.type == f32) || (!single_ && (x_.access.type != f16 || w_.access.type != f16)))
        throw Unsupported(who() + "the matrix unit multiplies f16 by f16 and f32 by f32, not " +
                          type_name(x_.access.type) + " by " + type_name(w_.access.type));
    side_ = single_ ? 8 : 16, sum_words_ = single_ ? 1 : 2, l1_rows_ = w_rows_ = side_;
}

// Checks that k is distributed 16 elements to each MAB, set after set.
void RowProduct::check_mabs() const {
    const auto &loops = plan_->loops();
    const Axis &axis = stage_.def.reduction_axes.front();
    const Affine &k = plan_->axis(axis.name());
    if (mab_ == SIZE_MAX) refuse("no loop of its reduction is bound to MAB");
    if (k.coefficients[column_] != 1 || k.coefficients[mab_] != side_ || loops[mab_].extent * sides_ != mabs_ ||
        loops[column_].extent != side_)
        refuse(fmt::format("of each {} along {}, MAB m does not have the {} behind {}·m", set_of_k(), axis.name(),
                           side_, side_));
}

// Checks that blocks of k alternate between the halves of the L1Bs.
void RowProduct::check_halves() const {
    const Axis &axis = stage_.def.reduction_axes.front();
    const Affine &k = plan_->axis(axis.name());
    const int64_t block = set_of_k() * sets_of_block_;
    if (k.coefficients[column_] != 1 || k.coefficients[part_] != block || plan_->loops()[column_].extent != side_)
        refuse(fmt::format("of each {} along {}, the halves of the L1Bs do not have {} each", parts_ * block,
                           axis.name(), block));
}

// The sequential loops: outside of the sums, along k, over matrices, over rows.
void RowProduct::analyze_time() {
    const auto &loops = plan_->loops();
    const size_t accumulate_at = plan_->loop(stage_.accumulate->loop);
    for (size_t l = 0; l < loops.size(); l++) {
        if (loops[l].kind != PlannedLoop::Kind::Time) continue;
        if (l <= accumulate_at) {
            if (loops[l].reduction) refuse("reduction loop " + loops[l].name + " is outside of the sums' loop");
            outer_.push_back(l);
        } else if (loops[l].reduction) {
            if (!tile_loops_.empty() || vector_ != SIZE_MAX)
                refuse("reduction loop " + loops[l].name + " stands inside");
            set_loops_.push_back(l);
            sets_ *= loops[l].extent;
        } else if (w_.access.depends(l)) {
            if (vector_ != SIZE_MAX) refuse("loop " + loops[l].name + " of columns is inside of the rows'");
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
    for (size_t l = 0; l < loops.size(); l++) {
        if (loops[l].kind == PlannedLoop::Kind::Unit && loops[l].level == Tier::L1b && l != part_ &&
            x_.access.depends(l))
            refuse("loop " + loops[l].name + ", bound to L1B, divides the rows");
        if (loops[l].kind == PlannedLoop::Kind::Time && l > panel_at_ && l <= accumulate_at && w_.access.depends(l))
            refuse("loop " + loops[l].name + " is inside of the copy of the matrices, and chooses them");
    }
}

// Counts the sets along k for each unit.
void RowProduct::count_sets() {
    const Axis &axis = stage_.def.reduction_axes.front();
    const Affine &k = plan_->axis(axis.name());
    const int64_t K = plan_->extent_of(axis), set = set_of_k(), block = set * sets_of_block_;
    for (const size_t l : set_loops_) {
        const int64_t c = k.coefficients[l];
        if (c % set || (parts_ > 1 && c % (parts_ * block) && c * plan_->loops()[l].extent > block))
            refuse("loop " + plan_->loops()[l].name + " does not step over whole sets of k");
    }
    const int64_t alternate = sides_ > 1 ? 2 : 1; // words of two sets alternate
    sets_ = std::min(round_up(sets_, alternate), ceil_div(K, alternate * set) * alternate);
    if (parts_ > 1) { // all but the last of their blocks are whole
        const int64_t whole = (K - 1) / (parts_ * block);
        sets_ =
            whole * sets_of_block_ + round_up(ceil_div(std::min(K - whole * parts_ * block, block), set), alternate);
    }
    blocks_ = ceil_div(sets_, sets_of_block_);
}

void RowProduct::analyze_result(const ScheduleState &state) {
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
    narrows_ = type_ == f16;
    if (narrows_ && single_) throw Unsupported(who() + "products of f32 with results of f16; results of f32 are built");
    of_piece_ = parts_ == 1 && (narrows_ || single_) ? 2 : 1;
    if (sides_ > 1 && single_) throw Unsupported(who() + "products of f32 whose columns are bound to MABs");
    pieces_ = parts_ > 1 ? (narrows_ ? 4 : 8) : l1b_matrices() / of_piece_;
    row_words_ = pieces_ * 8 * l1bs_;
    const int64_t granule = c_.config.moves.granule;
    if (row_words_ % (c_.config.groups > 1 ? block_words : granule))
        throw Unsupported(
            fmt::format("{}an L2B has {} LW of each row of {}; multiples of {} LW are built, and of {} LW on "
                        "chips of one group",
                        who(), row_words_, finished_ ? finished_->name() : stage_.name(), block_words, granule));
    TensorAccess own = plan_->own();
    own.type = type_;
    std::vector<size_t> order(own.index.size());
    std::iota(order.begin(), order.end(), 0);
    y_ = dram_view(own, finished_ ? finished_->name() : stage_.name(), true, order, result_pitch(own));
}

// If the last L2B has only some blocks of a row, each of its rows would be a separate move, and
// moves are issued one by one. Rows padded to all of the L2B's blocks are stored together, if that
// takes DRAM no longer.
int64_t RowProduct::result_pitch(const TensorAccess &own) const {
    const int64_t words = ceil_div(ceil_div(own.extents.back() * own.type.bytes(), 8), block_words) * block_words;
    const int64_t more = ceil_div(words, row_words_) * row_words_ - words;
    const bool leave = row_words_ % block_words == 0 && more < int64_t(c_.config.moves.dram_rate) * c_.config.groups *
                                                                   c_.config.moves.issue_steps * cycles_per_step;
    return leave ? row_words_ : block_words;
}

// Assigns pieces of 8 LW of a result row to the L1Bs round-robin.
void RowProduct::columns_of_l1bs() {
    Values values(plan_->loops().size(), 0);
    const int64_t first = y_.last(values);
    bool fits = l1b_matrices() % of_piece_ == 0 && plan_->used(Tier::L1b) == l1bs_;
    of_l1b_.assign(size_t(l1b_matrices()), {-1, -1});
    piece_of_.assign(size_t(l1b_matrices()), 0);
    for (int l = 0; fits && l < l1bs_; l++) {
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
        refuse(fmt::format("pieces of {} columns are not distributed to the {} L1Bs round-robin", side_ * of_piece_,
                           l1bs_));
    if (narrows_) { // rows collected in one MAB, four at a time
        const int64_t half = std::max<int64_t>(mabs_ / 2, 1), apart = half / std::gcd(pieces_, half);
        if (mabs_ < 2 || vectors_ % (4 * apart))
            refuse(fmt::format("{} rows of {} columns are no multiple of {} rows", vectors_, 16 * l1b_matrices(),
                               4 * apart));
    }
    if (w_.across) { // blocks of 64 LW shared by all L1Bs of one L2B
        const int64_t of_block = std::max<int64_t>(1, block_words / (8 * l1bs_));
        if (!narrows_ || sides_ > 1 || block_words % (8 * l1bs_) || pieces_ % of_block)
            throw Unsupported(fmt::format(
                "{}{} lies in DRAM with its columns contiguous; that is built for results of f16 with a multiple of {} "
                "columns for each L1B, k over all MABs; prepack(\"{}\", …) with {} last lays it otherwise",
                who(), w_.access.tensor, 32 * of_block, w_.access.tensor, stage_.def.reduction_axes.front().name()));
        chunk_pieces_ = of_block > 1 || pieces_ % 2 ? of_block : 2;
    }
}

// The row tiles, and the column panels that they use.
void RowProduct::order_tiles() {
    const auto &loops = plan_->loops();
    Values values(loops.size(), 0);
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
}

} // namespace kumiko::chip
