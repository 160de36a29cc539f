// Analyses a row product's loops: the distribution of its operands, sums and result.
#include "targets/chip/stage/row_product_form.h"

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

ProductForm::ProductForm(const sim::Config &c, const ScheduleState &state, const StageState &of, const StageState *with)
    : config(c), stage(of), finished(with), plan(std::make_shared<StagePlan>(of, c)), mabs(c.mabs), l1bs(c.l1bs) {}

int64_t ProductView::row(const Values &values) const {
    std::vector<int64_t> index;
    for (const Affine &a : access.index) index.push_back(a.at(values));
    return order->row(index);
}

int64_t ProductView::last(const Values &values) const { return access.index[order->order().back()].at(values); }

std::vector<L2bRows> ProductForm::classes(const Values &tile,
                                          const std::function<void(Values &, L2bRows &)> &rows) const {
    std::vector<L2bRows> all;
    std::map<std::pair<int64_t, std::vector<int64_t>>, size_t> known;
    for (int u = 0; u < config.total_l2bs(); u++) {
        Values values = tile;
        plan->set_unit(values, Tier::Group, u / config.l2bs);
        plan->set_unit(values, Tier::L2b, u % config.l2bs);
        L2bRows made;
        rows(values, made);
        const auto [at, fresh] = known.insert({{made.word, made.rows}, all.size()});
        if (fresh) all.push_back(std::move(made));
        all[at->second].l2bs |= 1u << u;
    }
    return all;
}

void ProductForm::set_tile(Values &values, int64_t tile) const {
    for (size_t d = tile_loops.size(); d-- > 0;) {
        values[tile_loops[d]] = tile % plan->loops()[tile_loops[d]].extent;
        tile /= plan->loops()[tile_loops[d]].extent;
    }
}

uint32_t ProductForm::mabs_of(int64_t of_side) const {
    uint32_t set = 0;
    for (int64_t m = of_side; m < mabs; m += sides) set |= 1u << m;
    return set;
}

// Rows of two alternating sets are adjacent.
int64_t ProductForm::face_at(const ColumnPanel &panel, int64_t t, int64_t s) const {
    const int64_t padded = round_up(sets, sets_of_step);
    if (sides > 1) return panel.at + 2 * side * (t * padded / 2 + s / 2) + s % 2;
    return panel.at + side * (w.across ? s * matrices + t : t * padded + s);
}

void ProductAnalysis::refuse(const std::string &what) const {
    throw Unsupported(f_.who() + what +
                      "; a product whose reduction is bound to MABs has the loops [units, rows and "
                      "columns in time | k in time | matrices of an L1B | rows | 16 columns, 16 of k]");
}

void ProductAnalysis::analyze(const ScheduleState &state) {
    if (f_.stage.def.reduction_axes.size() != 1) refuse("it reduces along more than one axis");
    if (!f_.stage.accumulate)
        throw UserError(f_.who() +
                        "it is tensorized, but its sums have no memory level; use accumulate_in(\"GRF0\", …)");
    if (f_.stage.accumulate->level != "GRF0")
        refuse("it accumulates in " + f_.stage.accumulate->level + ", not in GRF0");
    analyze_units();
    analyze_operands(state);
    f_.parts > 1 ? check_halves() : check_mabs();
    analyze_time();
    count_sets();
    analyze_result(state);
    f_.parts > 1 ? columns_of_halves() : columns_of_l1bs();
    order_tiles();
    // Rows collected in one MAB are `apart` rows from each other; that many words of a MAB result
    // from four times as many rows.
    const int64_t half = std::max<int64_t>(f_.mabs / 2, 1);
    f_.apart = f_.narrows ? half / std::gcd(f_.pieces, half) : 1;
    f_.slots = f_.parts > 1 ? cycles_per_step
               : f_.narrows ? cycles_per_step * f_.apart * f_.pieces / half
                            : cycles_per_step * f_.sides;
}

// The distribution of the reduction and the columns to L1Bs and MABs.
void ProductAnalysis::analyze_units() {
    const auto &loops = f_.plan->loops();
    for (size_t l = 0; l < loops.size(); l++) {
        if (loops[l].kind == PlannedLoop::Kind::Lane) (loops[l].reduction ? f_.column : f_.row) = l;
        if (loops[l].kind == PlannedLoop::Kind::Unit && loops[l].level == Tier::L1b && loops[l].reduction)
            f_.parts *= loops[l].extent, f_.part = l;
        if (loops[l].kind != PlannedLoop::Kind::Unit || loops[l].level != Tier::Mab) continue;
        if (loops[l].reduction)
            f_.mab = l;
        else if (f_.mab == SIZE_MAX && f_.part == SIZE_MAX)
            refuse("loop " + loops[l].name + ", bound to MAB, is outside of the reduction's");
        else
            f_.sides *= loops[l].extent;
    }
    if (f_.parts > 1 && (f_.parts != 2 || f_.l1bs != 8 || f_.mabs != 16 || f_.sides != 16))
        refuse(fmt::format("{} parts of its reduction are distributed to the {} L1Bs; supported are two parts, for 8 "
                           "L1Bs of 16 MABs each, and MABs with columns of their own",
                           f_.parts, f_.l1bs));
    if (f_.parts == 1 && f_.sides != 1 && (f_.sides != 4 || f_.mabs % 4))
        refuse(fmt::format("{} neighbouring MABs have columns of their own; 4 are supported", f_.sides));
    f_.distribution = pes_per_mab * f_.mabs / f_.sides;
    f_.sets_of_block = block_words / f_.distribution;
    const int64_t of_step = cycles_per_step * (f_.sides > 1 ? 2 : 1); // LW per PE
    f_.sets_of_step = std::min<int64_t>(of_step, f_.sets_of_block);
    f_.rows_of_step = of_step / f_.sets_of_step;
}

void ProductAnalysis::analyze_operands(const ScheduleState &state) {
    const std::vector<Expr> reads = reads_in(f_.stage.def.components.front().term);
    Expr x, w;
    for (const Expr &e : reads) (f_.plan->access(state, e).depends(f_.row) ? w : x) = e;
    if (!x.defined() || !w.defined())
        refuse("not one of its operands has the rows of the loop " + f_.plan->loops()[f_.row].name +
               ", and one has not");
    std::vector<Copy> x_copies;
    f_.w = view(state, w, {Bank::Lm, Bank::Lm0, Bank::Lm1}, "LM, LM0 or LM1", f_.columns_copies, true);
    f_.panel_at = f_.columns_copies.front().at;
    f_.two_panels = buffers_of(f_.columns_copies.front(), 2) == 2;
    f_.x = view(state, x, {Bank::Grf1}, "GRF1, through which its rows pass", x_copies, false);
    buffers_of(x_copies.front(), 1);
    f_.single = f_.x.access.type == f32;
    if (f_.single != (f_.w.access.type == f32) || (!f_.single && (f_.x.access.type != f16 || f_.w.access.type != f16)))
        throw Unsupported(f_.who() + "the matrix unit multiplies f16 by f16 and f32 by f32, not " +
                          type_name(f_.x.access.type) + " by " + type_name(f_.w.access.type));
    f_.side = f_.single ? 8 : 16, f_.sum_words = f_.single ? 1 : 2;
}

// Checks that k is distributed 16 elements to each MAB, set after set.
void ProductAnalysis::check_mabs() const {
    const auto &loops = f_.plan->loops();
    const Axis &axis = f_.stage.def.reduction_axes.front();
    const Affine &k = f_.plan->axis(axis.name());
    if (f_.mab == SIZE_MAX) refuse("no loop of its reduction is bound to MAB");
    if (k.coefficients[f_.column] != 1 || k.coefficients[f_.mab] != f_.side ||
        loops[f_.mab].extent * f_.sides != f_.mabs || loops[f_.column].extent != f_.side)
        refuse(fmt::format("of each {} along {}, MAB m does not have the {} behind {}·m", set_of_k(), axis.name(),
                           f_.side, f_.side));
}

// Checks that blocks of k alternate between the halves of the L1Bs.
void ProductAnalysis::check_halves() const {
    const Axis &axis = f_.stage.def.reduction_axes.front();
    const Affine &k = f_.plan->axis(axis.name());
    const int64_t block = set_of_k() * f_.sets_of_block;
    if (k.coefficients[f_.column] != 1 || k.coefficients[f_.part] != block ||
        f_.plan->loops()[f_.column].extent != f_.side)
        refuse(fmt::format("of each {} along {}, the halves of the L1Bs do not have {} each", f_.parts * block,
                           axis.name(), block));
}

// The sequential loops: outside of the sums, along k, over matrices, over rows.
void ProductAnalysis::analyze_time() {
    const auto &loops = f_.plan->loops();
    const size_t accumulate_at = f_.plan->loop(f_.stage.accumulate->loop);
    for (size_t l = 0; l < loops.size(); l++) {
        if (loops[l].kind != PlannedLoop::Kind::Time) continue;
        if (l <= accumulate_at) {
            if (loops[l].reduction) refuse("reduction loop " + loops[l].name + " is outside of the sums' loop");
            f_.outer.push_back(l);
        } else if (loops[l].reduction) {
            if (!f_.tile_loops.empty() || f_.vector != SIZE_MAX)
                refuse("reduction loop " + loops[l].name + " stands inside");
            f_.set_loops.push_back(l);
            f_.sets *= loops[l].extent;
        } else if (f_.w.access.depends(l)) {
            if (f_.vector != SIZE_MAX) refuse("loop " + loops[l].name + " of columns is inside of the rows'");
            f_.tile_loops.push_back(l);
            f_.matrices *= loops[l].extent;
        } else {
            if (f_.vector != SIZE_MAX) refuse("several loops of rows are inside");
            f_.vector = l;
            f_.vectors = loops[l].extent;
        }
    }
    if (f_.vector == SIZE_MAX || f_.vectors % cycles_per_step != 0)
        refuse("no loop of rows, a multiple of 4, is inside");
    for (size_t l = 0; l < loops.size(); l++) {
        if (loops[l].kind == PlannedLoop::Kind::Unit && loops[l].level == Tier::L1b && l != f_.part &&
            f_.x.access.depends(l))
            refuse("loop " + loops[l].name + ", bound to L1B, divides the rows");
        if (loops[l].kind == PlannedLoop::Kind::Time && l > f_.panel_at && l <= accumulate_at && f_.w.access.depends(l))
            refuse("loop " + loops[l].name + " is inside the copy of the matrices and selects them");
    }
}

// Counts the sets along k for each unit.
void ProductAnalysis::count_sets() {
    const Axis &axis = f_.stage.def.reduction_axes.front();
    const Affine &k = f_.plan->axis(axis.name());
    const int64_t K = f_.plan->extent_of(axis), set = set_of_k(), block = set * f_.sets_of_block;
    for (const size_t l : f_.set_loops) {
        const int64_t c = k.coefficients[l];
        if (c % set || (f_.parts > 1 && c % (f_.parts * block) && c * f_.plan->loops()[l].extent > block))
            refuse("loop " + f_.plan->loops()[l].name + " does not step over whole sets of k");
    }
    const int64_t alternate = f_.sides > 1 ? 2 : 1; // words of two sets alternate
    f_.sets = std::min(round_up(f_.sets, alternate), ceil_div(K, alternate * set) * alternate);
    if (f_.parts > 1) { // all but the last of their blocks are whole
        const int64_t whole = (K - 1) / (f_.parts * block);
        f_.sets = whole * f_.sets_of_block +
                  round_up(ceil_div(std::min(K - whole * f_.parts * block, block), set), alternate);
    }
    f_.blocks = ceil_div(f_.sets, f_.sets_of_block);
}

void ProductAnalysis::analyze_result(const ScheduleState &state) {
    f_.type = f_.stage.def.type;
    if (f_.finished) {
        const Expr &v = f_.finished->def.value;
        f_.type = v.type();
        f_.epilogue = v;
        if (const ir::Cast *cast = v.as<ir::Cast>(); cast && f_.type == f16) f_.epilogue = cast->value;
        if (f_.epilogue.type() != f32 || (f_.type != f16 && f_.type != f32))
            throw Unsupported(
                "stage " + f_.finished->name() + " finishes " + f_.stage.name() + " with " + to_string(v) +
                "; the epilogue of a product is computed in f32, and its last operation may be a cast to f16");
        if (const ir::Call *read = f_.epilogue.as<ir::Call>(); read && read->name == f_.stage.name())
            f_.epilogue = Expr();
    }
    f_.narrows = f_.type == f16;
    if (f_.narrows && f_.single)
        throw Unsupported(f_.who() + "products of f32 with results of f16; results of f32 are supported");
    f_.of_piece = f_.parts == 1 && (f_.narrows || f_.single) ? 2 : 1;
    if (f_.sides > 1 && f_.single) throw Unsupported(f_.who() + "products of f32 whose columns are bound to MABs");
    f_.pieces = f_.parts > 1 ? (f_.narrows ? 4 : 8) : f_.l1b_matrices() / f_.of_piece;
    f_.row_words = f_.pieces * 8 * f_.l1bs;
    const int64_t granule = c_.config.moves.granule;
    if (f_.row_words % (c_.config.groups > 1 ? block_words : granule))
        throw Unsupported(fmt::format(
            "{}an L2B has {} LW of each row of {}; multiples of {} LW are supported, and of {} LW on "
            "chips of one group",
            f_.who(), f_.row_words, f_.finished ? f_.finished->name() : f_.stage.name(), block_words, granule));
    TensorAccess own = f_.plan->own();
    own.type = f_.type;
    std::vector<size_t> order(own.index.size());
    std::iota(order.begin(), order.end(), 0);
    f_.y = dram_view(c_, own, f_.finished ? f_.finished->name() : f_.stage.name(), true, order, result_pitch(own));
}

// If the last L2B has only some blocks of a row, each of its rows would be a separate move, and
// moves are issued one by one. Rows padded to all of the L2B's blocks are stored together, if that
// takes DRAM no longer.
int64_t ProductAnalysis::result_pitch(const TensorAccess &own) const {
    const int64_t words = ceil_div(ceil_div(own.extents.back() * own.type.bytes(), 8), block_words) * block_words;
    const int64_t more = ceil_div(words, f_.row_words) * f_.row_words - words;
    const bool leave = f_.row_words % block_words == 0 && more < int64_t(c_.config.moves.dram_rate) * c_.config.groups *
                                                                     c_.config.moves.issue_steps * cycles_per_step;
    return leave ? f_.row_words : block_words;
}

// Assigns pieces of 8 LW of a result row to the L1Bs round-robin.
void ProductAnalysis::columns_of_l1bs() {
    Values values(f_.plan->loops().size(), 0);
    const int64_t first = f_.y.last(values);
    bool fits = f_.l1b_matrices() % f_.of_piece == 0 && f_.plan->used(Tier::L1b) == f_.l1bs;
    f_.of_l1b.assign(size_t(f_.l1b_matrices()), {-1, -1});
    f_.piece_of.assign(size_t(f_.l1b_matrices()), 0);
    for (int l = 0; fits && l < f_.l1bs; l++) {
        for (int64_t t = 0; fits && t < f_.l1b_matrices(); t++) {
            const ProductForm::Matrix m{t / f_.sides, t % f_.sides};
            f_.plan->set_unit(values, Tier::L1b, l);
            f_.plan->set_unit(values, Tier::Mab, int(m.side));
            f_.set_tile(values, m.number);
            const int64_t n = (f_.y.last(values) - first) / f_.side, e = n % f_.of_piece,
                          at = n / (f_.of_piece * f_.l1bs) * f_.of_piece + e;
            fits =
                (f_.y.last(values) - first) % f_.side == 0 && n / f_.of_piece % f_.l1bs == l && at < f_.l1b_matrices();
            if (fits && !l) f_.of_l1b[size_t(at)] = m;
            fits = fits && f_.of_l1b[size_t(at)].number == m.number && f_.of_l1b[size_t(at)].side == m.side;
            if (fits) f_.piece_of[size_t(t)] = at / f_.of_piece;
        }
    }
    if (!fits || f_.y.access.index.back().coefficients[f_.row] != 1)
        refuse(fmt::format("pieces of {} columns are not distributed to the {} L1Bs round-robin", f_.side * f_.of_piece,
                           f_.l1bs));
    if (f_.narrows) { // rows collected in one MAB, four at a time
        const int64_t half = std::max<int64_t>(f_.mabs / 2, 1), apart = half / std::gcd(f_.pieces, half);
        if (f_.mabs < 2 || f_.vectors % (4 * apart))
            refuse(fmt::format("{} rows of {} columns are no multiple of {} rows", f_.vectors, 16 * f_.l1b_matrices(),
                               4 * apart));
    }
    if (f_.w.across) { // blocks of 64 LW shared by all L1Bs of one L2B
        const int64_t of_block = std::max<int64_t>(1, block_words / (8 * f_.l1bs));
        if (!f_.narrows || f_.sides > 1 || block_words % (8 * f_.l1bs) || f_.pieces % of_block)
            throw Unsupported(fmt::format(
                "{}{} is stored in DRAM with contiguous columns; that is supported for results of f16 with a multiple "
                "of {} "
                "columns for each L1B, k over all MABs; prepack(\"{}\", …) with {} last stores it otherwise",
                f_.who(), f_.w.access.tensor, 32 * of_block, f_.w.access.tensor,
                f_.stage.def.reduction_axes.front().name()));
        f_.chunk_pieces = of_block > 1 || f_.pieces % 2 ? of_block : 2;
    }
}

// f16: L1B p has columns 256 p + 16 m in MAB m. f32: 128 p + 16 · (m / 2) + 512 · (m mod 2), so
// that neighbours in a scatter are neighbours in a row.
void ProductAnalysis::columns_of_halves() {
    Values values(f_.plan->loops().size(), 0);
    const int64_t first = f_.y.last(values);
    bool fits = f_.plan->used(Tier::L1b) == f_.l1bs && f_.plan->used(Tier::Mab) == f_.mabs && f_.matrices == 1 &&
                f_.y.access.index.back().coefficients[f_.row] == 1;
    for (int l = 0; fits && l < f_.l1bs; l++) {
        for (int m = 0; fits && m < f_.mabs; m++) {
            f_.plan->set_unit(values, Tier::L1b, l);
            f_.plan->set_unit(values, Tier::Mab, m);
            const int64_t p = l % half_l1bs;
            fits = values[f_.part] == l / half_l1bs &&
                   f_.y.last(values) - first == (f_.narrows ? 256 * p + 16 * m : 128 * p + m / 2 * 16 + m % 2 * 512);
        }
    }
    if (!fits)
        throw Unsupported(
            fmt::format("stage {}: halves of the L1Bs have parts of its reduction, and of 1024 columns L1B p "
                        "and MAB m do not have the 16 behind {}",
                        f_.stage.name(), f_.narrows ? "256·p + 16·m" : "128·p + 16·(m / 2) + 512·(m mod 2)"));
    if (f_.vectors % half_chunk || f_.vectors * f_.sets_of_step > c_.config.sizes.grf)
        throw Unsupported(
            fmt::format("stage {}: tiles of {} rows under halves of the L1Bs; multiples of {} up to {} are supported",
                        f_.stage.name(), f_.vectors, half_chunk, c_.config.sizes.grf / f_.sets_of_step));
    if (f_.w.across)
        throw Unsupported(fmt::format("stage {}: {} is stored in DRAM with contiguous columns; with halves of the "
                                      "L1Bs, the reduction must be contiguous",
                                      f_.stage.name(), f_.w.access.tensor));
    f_.piece_of.resize(size_t(f_.mabs));
    std::iota(f_.piece_of.begin(), f_.piece_of.end(), 0);
}

// The row tiles, and the column panels that they use.
void ProductAnalysis::order_tiles() {
    const auto &loops = f_.plan->loops();
    Values values(loops.size(), 0);
    std::vector<int64_t> key, last;
    const std::function<void(size_t)> walk = [&](size_t depth) {
        if (depth < f_.outer.size()) {
            for (int64_t v = 0; v < loops[f_.outer[depth]].extent; v++) {
                values[f_.outer[depth]] = v;
                walk(depth + 1);
            }
            values[f_.outer[depth]] = 0;
            return;
        }
        key.clear();
        for (const size_t l : f_.outer) {
            if (l <= f_.panel_at && f_.w.access.depends(l)) key.push_back(values[l]);
        }
        if (f_.panels.empty() || key != last) {
            f_.panels.push_back({f_.tiles.size(), 0, 0, {}, 0});
            last = key;
        }
        f_.panels.back().tiles++;
        f_.tiles.push_back(values);
    };
    walk(0);
}

ProductView dram_view(Context &c, TensorAccess access, const std::string &name, bool output, std::vector<size_t> order,
                      int64_t pitch) {
    ProductView v;
    v.access = std::move(access);
    const int bytes = v.access.type.bytes();
    if (bytes != 2 && bytes != 4)
        throw Unsupported(name + " has elements of " + type_name(v.access.type) +
                          "; the chip has types of 16 and 32 bits");
    v.order = std::make_shared<const DramOrder>(v.access.extents, bytes, c.config, std::move(order), pitch);
    v.dram = c.take_dram(v.order, name, output);
    return v;
}

ProductView ProductAnalysis::view(const ScheduleState &state, const Expr &read, const std::vector<Bank> &legal,
                                  const std::string &names, std::vector<Copy> &copies, bool columns) {
    const TensorAccess access = f_.plan->access(state, read);
    std::string source;
    const StageState *packed = nullptr;
    copies = copies_of(state, *f_.plan, access.tensor, source, &packed);
    if (copies.size() != 1 || std::find(legal.begin(), legal.end(), copies.front().memory) == legal.end())
        throw Unsupported(
            fmt::format("{} of {}, whose reduction is bound to MABs, is placed in {}; here it comes from {}", source,
                        f_.stage.name(), memory_name(copies.front().memory), names));
    std::vector<size_t> order = storage_order(state, source, packed);
    ProductView v = dram_view(c_, access, source, false, order);
    // Contiguous along k, from its first element; or along the columns.
    const std::string &k = f_.stage.def.reduction_axes.front().name();
    const auto same = [](const Affine &a, const Affine &b) {
        return a.constant == b.constant && a.coefficients == b.coefficients;
    };
    for (size_t d = 0; d < order.size(); d++) {
        if (same(access.index[d], f_.plan->axis(k))) v.k = d;
    }
    v.across = v.k != order.back() && same(access.index[order.back()], f_.plan->own().index.back());
    if (order.size() < 2 || v.k == SIZE_MAX || (v.k != order.back() && !(v.across && columns)))
        throw Unsupported(fmt::format("{} of {} is stored in DRAM with another axis than {} contiguous; "
                                      "prepack(\"{}\", …) with that axis last stores it so",
                                      source, f_.stage.name(), k, source));
    return v;
}

} // namespace kumiko::chip
