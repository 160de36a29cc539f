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

constexpr int64_t block_words = 64;
int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t round_up(int64_t a, int64_t to) { return ceil_div(a, to) * to; }

} // namespace

Operand RowProduct::four_of(Source memory, const std::array<int, 4> &at) {
    const int stride = at[1] - at[0];
    if (at[2] - at[1] != stride || at[3] - at[2] != stride) return listed(memory, at);
    switch (memory) {
    case Source::Lm0:
        return lm0(at[0], stride);
    case Source::Lm1:
        return lm1(at[0], stride);
    case Source::Grf0:
        return grf0(at[0], stride);
    default:
        return grf1(at[0], stride);
    }
}

bool RowProduct::is_one(const StageState &stage) {
    for (const std::string &name : stage.order) {
        const LoopState &l = stage.loop(name);
        if (l.kind == LoopKind::Bound && l.reduction && l.unit == level_names[size_t(Tier::Mab)]) return true;
    }
    return false;
}

int64_t RowProduct::View::row(const Values &values) const {
    std::vector<int64_t> index;
    for (const Affine &a : access.index) index.push_back(a.at(values));
    return order->row(index);
}

int64_t RowProduct::View::last(const Values &values) const { return access.index[order->order().back()].at(values); }

RowProduct::RowProduct(Context &c, const ScheduleState &state, const StageState &stage, const StageState *finished)
    : c_(c), stage_(stage), finished_(finished), plan_(std::make_shared<StagePlan>(state, stage, c.config)),
      mabs_(c.config.mabs), deal_(pes_per_mab * c.config.mabs), l1bs_(c.config.l1bs) {
    if (block_words % deal_ != 0)
        throw Unsupported(fmt::format("an L1B of {} has {} MABs; products of rows are built for 1, 2, 4, 8 and 16",
                                      c.config.name, mabs_));
    sets_of_block_ = block_words / deal_;
    sets_of_step_ = std::min<int64_t>(cycles_per_step, sets_of_block_);
    rows_of_step_ = cycles_per_step / sets_of_step_;
    understand(state);
    begin_memory();
    describe();
}

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
        if (loops[l].kind == PlannedLoop::Kind::Unit && loops[l].reduction) mab_ = l;
    }
    const std::vector<Expr> reads = reads_in(stage_.def.components.front().term);
    Expr x, w;
    for (const Expr &e : reads) (plan_->access(state, e).depends(row_) ? w : x) = e;
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
    const int64_t set = side_ * mabs_;
    if (k.coefficients[column_] != 1 || k.coefficients[mab_] != side_ || loops[mab_].extent != mabs_ ||
        loops[column_].extent != side_)
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
        if (k.coefficients[l] % set) refuse("loop " + loops[l].name + " does not step over whole sets of k");
    }
    sets_ = std::min(sets_, ceil_div(plan_->extent_of(stage_.def.reduction_axes.front()), set));
    blocks_ = ceil_div(sets_, sets_of_block_);
    for (size_t l = 0; l < loops.size(); l++) {
        if (loops[l].kind == PlannedLoop::Kind::Unit && loops[l].level == Tier::L1b && x_.access.depends(l))
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
    of_piece_ = narrows_ || single_ ? 2 : 1;
    pieces_ = matrices_ / of_piece_;
    row_words_ = pieces_ * 8 * l1bs_;
    // Columns: pieces of 8 LW go to the L1Bs in turn.
    Values values(loops.size(), 0);
    const int64_t first = y_.last(values);
    bool fits = matrices_ % of_piece_ == 0 && plan_->used(Tier::L1b) == l1bs_;
    for (int l = 0; fits && l < l1bs_; l++) {
        for (int64_t t = 0; t < matrices_; t++) {
            plan_->set_unit(values, Tier::L1b, l);
            set_tile(values, t);
            fits = fits && y_.last(values) - first == ((t / of_piece_ * l1bs_ + l) * of_piece_ + t % of_piece_) * side_;
        }
    }
    if (!fits || y_.access.index.back().coefficients[row_] != 1)
        refuse(
            fmt::format("pieces of {} columns, in order, do not go to the {} L1Bs in turn", side_ * of_piece_, l1bs_));
    if (narrows_) { // rows that meet in one MAB, four at a time
        const int64_t half = std::max<int64_t>(mabs_ / 2, 1), apart = half / std::gcd(pieces_, half);
        if (mabs_ < 2 || vectors_ % (4 * apart))
            refuse(
                fmt::format("{} rows of {} columns are no multiple of {} rows", vectors_, 16 * matrices_, 4 * apart));
    }
    if (w_.across) { // blocks of 64 LW that are all of the L1Bs of one L2B
        const int64_t of_block = std::max<int64_t>(1, block_words / (8 * l1bs_));
        if (!narrows_ || block_words % (8 * l1bs_) || pieces_ % of_block)
            throw Unsupported(fmt::format(
                "{}{} lies in DRAM with its columns contiguous; that is built for results of f16 with a multiple of {} "
                "columns for each L1B; prepack(\"{}\", …) with {} last lays it otherwise",
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
    begin_end(state);
}

void RowProduct::begin_memory() {
    Planner &plan = c_.planner;
    // Vectors: as many sets as GRF1 has room for, to four.
    const int64_t groups = std::clamp<int64_t>(plan.free_words(Bank::Grf1) / set_words_, 1, 8);
    vectors_ring_ =
        Ring(plan.take(Bank::Grf1, groups * set_words_, "vectors of " + x_.access.tensor), groups * set_words_);
    // L1BM: sums of a tile, twice where there is room; results of one; the rest is for loads.
    const int64_t sums = vectors_ * matrices_ * 4 * sum_words_, out = narrows_ ? sums / 2 : end_.defined() ? sums : 0;
    const int64_t step = rows_of_step_ * block_words, part = 16 * 8 * chunk_pieces_; // of columns across: of an L1B
    const int64_t times =
        2 * (sums + out) + std::max(4 * step, w_.across ? 2 * part : 0) <= plan.free_words(Bank::L1bm) ? 2 : 1;
    l1_sums_ = Ring(plan.take(Bank::L1bm, times * sums, "sums of " + stage_.name()), times * sums);
    if (out) l1_results_ = Ring(plan.take(Bank::L1bm, times * out, "results"), times * out);
    const int64_t l1 = std::max(step, std::min(plan.free_words(Bank::L1bm), 32 * step) / step * step);
    l1_loads_ = Ring(plan.take(Bank::L1bm, l1, "operands on their way"), l1);
    // L2BM: results of some tiles, and moves of about 256 cycles.
    const int64_t result = vectors_ * row_words_;
    const int64_t room = plan.free_words(Bank::L2bm);
    const auto blocks_in = [&](int64_t rows, int64_t cycles) { // of a row, in a move of so many cycles
        const int64_t most = std::min<int64_t>(cycles * c_.config.moves.dram_rate, room / 8);
        return std::clamp<int64_t>(most / (rows * block_words), 1, blocks_);
    };
    x_blocks_ = blocks_in(std::min(vectors_, x_.order->together()), 128);
    const auto w_room = [&] { return l1 / ((of_piece_ + 1) * l1_rows_ * block_words); }; // blocks, by L1BM
    if (!w_.across) {
        while (l1_rows_ > rows_of_step_ && (w_room() < 1 || l1_rows_ * block_words > room / 8)) l1_rows_ /= 2;
        w_blocks_ = std::clamp<int64_t>(w_room(), 1, blocks_in(l1_rows_, 128));
    }
    if ((w_.across ? part : of_piece_ * l1_rows_ * w_blocks_ * block_words) > l1)
        throw UserError(fmt::format("stage {}: L1BM has {} LW for operands on their way; smaller tiles leave more",
                                    stage_.name(), l1));
    const int64_t x = x_blocks_ * vectors_ * block_words,
                  w = w_.across ? part * l1bs_ : w_blocks_ * l1_rows_ * block_words;
    const int64_t end = int64_t(end_operands_.size()) * result;
    const int64_t slots = std::clamp<int64_t>((room - 4 * x - 2 * w - end) / result, 1, 3);
    lag_ = stage_.write_back.empty() ? 0 : slots - 1;
    if (end) end_loads_ = Ring(plan.take(Bank::L2bm, end, "operands of the end"), end);
    const int64_t spare = plan.free_words(Bank::L2bm) - slots * result - w;
    const int64_t most_x = std::clamp<int64_t>(spare / x / (ahead_ > 1 ? 2 : 1), 1, 4) * x;
    x_loads_ = Ring(plan.take(Bank::L2bm, most_x, "rows of " + x_.access.tensor), most_x);
    const int64_t begin = plan.take(Bank::L2bm, slots * result, "rows of " + y_.access.tensor);
    results_ = Ring(begin, slots * result);
    const int64_t most_w = std::max<int64_t>(1, plan.free_words(Bank::L2bm) / w) * w;
    const int64_t at = plan.take(Bank::L2bm, most_w, "rows of " + w_.access.tensor);
    // Columns that come before the tiles, not under them, have the results' room too.
    const int64_t w_room2 = ahead_ > 1 ? most_w : (at + most_w - begin) / w * w;
    w_loads_ = Ring(ahead_ > 1 ? at : begin, w_room2);
    if (w_.across) return;
    // Moves of more rows than L1BM has room for, where L2BM holds those of all L1Bs twice.
    w_rows_ = l1_rows_;
    while (w_rows_ < side_ && w_room2 / (2 * w_rows_ * w_blocks_ * block_words) >= 2 * of_piece_ * l1bs_) w_rows_ *= 2;
}

void RowProduct::set_tile(Values &values, int64_t tile) const {
    for (size_t d = tile_loops_.size(); d-- > 0;) {
        values[tile_loops_[d]] = tile % plan_->loops()[tile_loops_[d]].extent;
        tile /= plan_->loops()[tile_loops_[d]].extent;
    }
}

std::vector<RowProduct::Class> RowProduct::classes(const Values &tile,
                                                   const std::function<void(Values &, Class &)> &rows) const {
    std::vector<Class> all;
    std::map<std::pair<int64_t, std::vector<int64_t>>, size_t> known;
    for (int u = 0; u < c_.config.total_l2bs(); u++) {
        Values values = tile;
        plan_->set_unit(values, Tier::Group, u / c_.config.l2bs);
        plan_->set_unit(values, Tier::L2b, u % c_.config.l2bs);
        Class made;
        rows(values, made);
        const auto [at, fresh] = known.insert({{made.word, made.rows}, all.size()});
        if (fresh) all.push_back(std::move(made));
        all[at->second].l2bs |= 1u << u;
    }
    return all;
}

Mv RowProduct::between(uint32_t l2bs, int group, bool store) const {
    Mv m;
    m.op = store ? MvOp::Gather : MvOp::Broadcast;
    const uint32_t own = ((1u << c_.config.l2bs) - 1) << (group * c_.config.l2bs);
    m.chip = (l2bs & ~own) != 0;
    m.groups = uint16_t(1u << group);
    m.l2bs = l2bs;
    return m;
}

// Blocks [block, block + blocks) of the rows, row behind row.
void RowProduct::load(const View &view, const std::vector<Class> &classes, int64_t block, int64_t blocks,
                      int64_t l2bm) {
    std::vector<Mv> all;
    for (const Class &c : classes) {
        std::vector<DramPlace> list;
        for (const int64_t r : c.rows) {
            for (int64_t b = 0; b < blocks; b++) {
                const int64_t word = c.word + (block + b) * block_words;
                const bool beyond = word >= view.order->pitch();
                list.push_back(view.order->place(beyond ? view.order->zero_row() : r, beyond ? 0 : word));
            }
        }
        for (const BlockRun &run : join_blocks(list)) {
            Mv m = between(c.l2bs, run.at.group, false);
            m.address = uint32_t(view.dram + run.at.address);
            m.blocks = uint16_t(run.count);
            m.size = uint16_t(run.size);
            m.stride = int32_t(run.stride);
            m.l2bm = uint16_t(l2bm + run.first * block_words);
            all.push_back(m);
        }
    }
    c_.packer.place(all);
}

void RowProduct::l2_step(L2 slot, int64_t l2bm, int64_t l1bm, int64_t l2_words, int64_t l1_words) {
    const bool up = slot.op == L2Op::Gather;
    Micro m;
    m.use(Unit::L2);
    slot.l2bm.at = uint16_t(l2bm);
    slot.l1bm.at = uint16_t(l1bm);
    m.word().l2 = slot;
    m.touch_range(Space::L2bm, l2bm, l2_words, up, true);
    m.touch_range(Space::L1bm, l1bm, l1_words, !up, true);
    c_.packer.place(m);
}

// One step of L1 to four addresses.
void RowProduct::to_pes(L1Op op, int64_t l1bm, int64_t words, std::array<int, 4> at, bool to_lm, uint32_t mabs) {
    Source memory = Source::Grf1;
    if (to_lm) {
        const int lm = int(c_.config.sizes.lm);
        memory = at[0] >= lm ? Source::Lm1 : Source::Lm0;
        for (int &a : at) a -= memory == Source::Lm1 ? lm : 0;
    }
    Micro m;
    m.use(Unit::L1);
    m.word().l1.op = op;
    m.word().l1.mabs = mabs;
    m.word().l1.at.at = uint16_t(l1bm);
    m.touch_range(Space::L1bm, l1bm, words, false);
    m.word().l1.to = m.write(four_of(memory, at), 1);
    c_.packer.place(m);
}

// From rows of 64 LW: their words are those of some sets of some rows.
void RowProduct::scatter(int64_t l1bm, const std::function<int64_t(int64_t row, int64_t set)> &to, bool to_lm) {
    std::array<int, 4> at;
    for (int t = 0; t < cycles_per_step; t++) at[size_t(t)] = int(to(t / sets_of_step_, t % sets_of_step_));
    to_pes(L1Op::Scatter, l1bm, deal_ * cycles_per_step, at, to_lm, all_units);
}

void RowProduct::bring_vectors(const Values &tile, int64_t group) {
    const int64_t block = group * sets_of_step_ / sets_of_block_, move = block / x_blocks_;
    const int64_t count = std::min(x_blocks_, blocks_ - move * x_blocks_);
    if (x_l2bm_[size_t(move)] < 0) {
        x_l2bm_[size_t(move)] = x_loads_.next(vectors_ * count * block_words);
        const auto all = classes(tile, [&](Values &values, Class &c) {
            for (int64_t v = 0; v < vectors_; v++) {
                values[vector_] = v;
                c.rows.push_back(x_.row(values));
            }
        });
        load(x_, all, move * x_blocks_, count, x_l2bm_[size_t(move)]);
    }
    x_at_ = vectors_ring_.next(set_words_);
    x_group_ = group;
    const int64_t within = group * sets_of_step_ % sets_of_block_ * deal_;
    for (int64_t r = 0; r < vectors_; r += rows_of_step_) {
        const int64_t l1bm = l1_loads_.next(rows_of_step_ * block_words);
        for (int64_t i = 0; i < rows_of_step_; i++) {
            L2 s;
            s.op = L2Op::Broadcast;
            l2_step(s, x_l2bm_[size_t(move)] + ((r + i) * count + block - move * x_blocks_) * block_words,
                    l1bm + i * block_words);
        }
        scatter(
            l1bm + within, [&](int64_t row, int64_t set) { return x_at_ + set * vectors_ + r + row; }, false);
    }
}

void RowProduct::tile(size_t number, Panel &panel) {
    const Values &values = tiles_[number];
    x_l2bm_.assign(size_t(ceil_div(blocks_, x_blocks_)), -1);
    x_group_ = -1;
    for (int64_t s = 0; s < sets_; s++) {
        for (int64_t t = 0; t < matrices_; t++) {
            while (!panel.there[size_t(s / sets_of_block_)][size_t(t / of_piece_)]) bring_next(panel);
            if (s / sets_of_step_ != x_group_) bring_vectors(values, s / sets_of_step_);
            write_face(face_at(panel, t, s));
            for (int64_t n = 0; n < vectors_ * (single_ ? 2 : 1); n += cycles_per_step) { // f32: each half of the words
                const int64_t v = n % vectors_;
                const bool first = s == 0 && n < vectors_;
                const int width = int(sum_words_);
                const Operand sums = grf0(int(sum_words_ * (t * vectors_ + v)), width);
                Micro m;
                m.use(Unit::Mau).use(single_ ? Unit::F32 : Unit::F16);
                Mau mau;
                mau.op = first ? MauOp::Mmul : MauOp::Mfma;
                mau.precision = single_ ? sim::Type::F32 : sim::Type::F16;
                mau.face = uint8_t(face_);
                mau.half = uint8_t(n / vectors_);
                mau.a = m.read(grf1(int(x_at_ + s % sets_of_step_ * vectors_ + v), 1), 1);
                if (!first) mau.c = m.read(sums, width);
                mau.to = m.write(sums, width);
                m.word().mau = mau;
                m.touch(Space::Face, face_, false);
                c_.packer.place(m);
            }
            face_ ^= 1;
        }
    }
}

void RowProduct::run() {
    const size_t all = size_t(ceil_div(blocks_, w_blocks_) * pieces_ / chunk_pieces_); // loads of a panel
    for (size_t p = 0; p < panels_.size(); p++) {
        panels_[p].at = panel_slots_[p % panel_slots_.size()];
        panels_[p].there.assign(size_t(blocks_), std::vector<bool>(size_t(pieces_)));
    }
    for (size_t p = 0; p < panels_.size(); p++) {
        Panel &panel = panels_[p];
        if (ahead_ == 1) {
            for (; !waiting_.empty(); waiting_.pop_front()) store(waiting_.front());
        }
        for (size_t n = 0; n < panel.tiles; n++) {
            tile(panel.first + n, panel);
            drain(tiles_[panel.first + n]);
            // A share of the next columns, where there is room beside these.
            if (ahead_ > 1 && p + 1 < panels_.size()) {
                while (panels_[p + 1].brought < all * (n + 1) / panel.tiles) bring_next(panels_[p + 1]);
            }
            while (int64_t(waiting_.size()) > lag_) {
                store(waiting_.front());
                waiting_.pop_front();
            }
        }
    }
    for (; !waiting_.empty(); waiting_.pop_front()) store(waiting_.front());
}

} // namespace kumiko::chip
