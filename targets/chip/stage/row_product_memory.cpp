// Allocates the memory of a row product.
#include "targets/chip/stage/row_product_memory.h"

#include "support/error.h"
#include "targets/chip/stage/row_product_epilogue.h"

#include <algorithm>
#include <fmt/format.h>

namespace kumiko::chip {

using namespace sim;

void ProductPlanner::plan(const ScheduleState &state) {
    m_.l1_rows = m_.w_rows = f_.side;
    take_columns(state);
    f_.parts > 1 ? begin_halves() : begin_memory();
}

// LM: the columns, and beside them complete sums, or sums spilled while columns are loaded. GRFs:
// registers of the epilogue.
void ProductPlanner::take_columns(const ScheduleState &state) {
    const Bank bank = f_.columns_copies.front().memory;
    const int64_t words = ceil_div(f_.sets, f_.sets_of_step) * f_.sets_of_step * f_.matrices * f_.side;
    m_.ahead = f_.two_panels && f_.panels.size() > 1 ? 2 : 1;
    for (int64_t n = 0; n < m_.ahead; n++)
        m_.panel_slots.push_back(
            c_.planner.take(bank, words, f_.columns_copies.front().stage->name() + (n ? " (second)" : "")) +
            (bank == Bank::Lm1 ? c_.config.sizes.lm : 0));
    m_.set_words = f_.vectors * f_.sets_of_step;
    const int64_t lm = c_.config.sizes.lm, beside = 2 * lm - std::max(lm, m_.panel_slots.back() + words),
                  sums = f_.sum_words * f_.vectors * f_.matrices;
    if (f_.sides > 1 && beside >= sums + 16 * f_.sides)
        m_.complete = c_.planner.take(Bank::Lm1, sums, "complete sums of " + f_.stage.name());
    if (f_.parts > 1 && m_.complete < 0)
        throw UserError(fmt::format("{}its columns take {} of {} LW of LM, which leaves no room for complete sums; use "
                                    "a shorter reduction with halves of the L1Bs, or bind it to MABs",
                                    f_.who(), words, 2 * c_.config.sizes.lm));
    if (f_.parts > 1 && m_.ahead > 1)
        throw Unsupported(f_.who() + "double_buffer of the columns with halves of the L1Bs; leave out double_buffer");
    epilogue_.begin(state);
    if (f_.parts > 1 && f_.epilogue.defined())
        throw Unsupported(f_.who() + "an epilogue with halves of the L1Bs; only a cast to f16 is supported");
    m_.drain_rows = m_.store_rows = f_.vectors;
    if (m_.complete < 0) return stream_late();
    m_.drain_rows = cycles_per_step * f_.apart;
    m_.store_rows = f_.vectors / m_.drain_rows % 2 ? m_.drain_rows : 2 * m_.drain_rows;
    plan_sums(beside - sums - epilogue_.registers().words());
}

// The cycles needed to load `rows` rows of a tensor into every L2B.
double ProductPlanner::load_cycles(const ProductView &view, double rows) const {
    const double rate = double(c_.config.moves.dram_rate * c_.config.groups);
    std::vector<L2bRows> all =
        f_.classes(f_.tiles.front(), [&](Values &values, L2bRows &c) { c.rows.push_back(view.row(values)); });
    return rows * double(f_.blocks * f_.parts * block_words) * std::max(1.0 / 16, double(all.size()) / rate);
}

// If all MABs have the same columns, no sums are spilled to LM. If rows are loaded fast enough,
// some tiles of a panel are computed with three quarters of the columns while the last quarter is
// loaded.
void ProductPlanner::stream_late() {
    const int64_t late = f_.pieces / 4;
    if (m_.ahead > 1 || f_.sides > 1 || f_.w.across || f_.pieces % 4 || late * 8 * f_.l1bs % block_words) return;
    const double work = 0.75 * double(f_.sets * f_.matrices * f_.vectors) * (f_.single ? 2 : 1),
                 x = load_cycles(f_.x, double(f_.vectors)),
                 w = 0.25 * load_cycles(f_.w, double(f_.l1bs * f_.l1b_matrices() * f_.side));
    const double first = 1.25 * w / std::max(work - x, 1.0) + 2;
    for (const ColumnPanel &p : f_.panels) {
        if (double(p.tiles) < 3 * first) return;
    }
    m_.late = late, m_.before_late = int64_t(first);
}

// Complete sums of a tile are kept in LM1, where the L1Bs reduce them while the next ones are
// computed. If LM1 has more room, the sums of the first tiles are kept there while the columns of a
// panel are loaded: as many tiles as provide work for that time.
void ProductPlanner::plan_sums(int64_t words) {
    const int64_t sums = f_.sum_words * f_.vectors * f_.matrices;
    // Cycles: to compute a tile, to load its rows, and to load the columns.
    const double work = double(f_.sets * f_.matrices * f_.vectors), x = load_cycles(f_.x, double(f_.vectors)),
                 w = load_cycles(f_.w, double(f_.l1bs / f_.parts * f_.l1b_matrices() * f_.side));
    int64_t room = std::min<int64_t>(int64_t(f_.panels.front().tiles), words / sums);
    if (work > x) room = std::min(room, int64_t(w / (work - x)) + 1);
    if (m_.ahead > 1 || room < 2 || f_.blocks < 2) return;
    m_.spilled_tiles = room;
    m_.spilled_sums =
        c_.planner.take(Bank::Lm1, m_.spilled_tiles * sums, "sums while " + f_.w.access.tensor + " is loaded");
}

void ProductPlanner::begin_memory() {
    Planner &plan = c_.planner;
    // Vectors: as many sets as fit into GRF1.
    const int64_t groups = std::clamp<int64_t>(plan.free_words(Bank::Grf1) / m_.set_words, 1, 16);
    m_.vectors_ring =
        Ring(plan.take(Bank::Grf1, groups * m_.set_words, "vectors of " + f_.x.access.tensor), groups * m_.set_words);
    // L1BM: sums of a tile, or of what is drained at a time, double-buffered if there is room; the
    // results of one; the rest is for loads.
    const int64_t sums = m_.drain_rows * f_.l1b_matrices() * 4 * f_.sum_words;
    // If sums are reloaded into the PEs, results have a place of their own.
    const bool reloads = f_.narrows || f_.epilogue.defined() || f_.sides > 1;
    const int64_t out = reloads ? sums / (f_.narrows ? 2 : 1) : 0;
    const int64_t step = std::max(f_.rows_of_step * block_words, !epilogue_.operands() ? 0 : f_.epilogue_words()),
                  part = 16 * 8 * f_.chunk_pieces; // transposed columns: of an L1B
    const int64_t times =
        2 * (sums + out) + std::max(4 * step, f_.w.across ? 2 * part : 0) <= plan.free_words(Bank::L1bm) ? 2 : 1;
    m_.l1_sums = Ring(plan.take(Bank::L1bm, times * sums, "sums of " + f_.stage.name()), times * sums);
    if (out) m_.l1_results = Ring(plan.take(Bank::L1bm, times * out, "results"), times * out);
    // Late columns have a part of it to themselves.
    const int64_t late = f_.of_piece * f_.side * block_words;
    const int64_t l1 = std::max(step, std::min(plan.free_words(Bank::L1bm), 64 * step) / step * step);
    if (l1 < 2 * late) m_.late = 0;
    m_.l1_loads = Ring(plan.take(Bank::L1bm, l1, "operands in transit"), l1);
    if (m_.late) m_.late_l1 = Ring(m_.l1_loads.begin() + l1 - late, late);
    // L2BM: results of some tiles, and moves of about 256 cycles.
    const int64_t result = m_.store_rows * f_.row_words;
    const int64_t room = plan.free_words(Bank::L2bm);
    // Blocks of a row in a move of that many cycles.
    const auto blocks_in = [&](int64_t rows, int64_t cycles) {
        const int64_t most = std::min<int64_t>(cycles * c_.config.moves.dram_rate, room / 8);
        return std::clamp<int64_t>(most / (rows * block_words), 1, f_.blocks);
    };
    m_.whole_x_blocks = blocks_in(std::min(f_.vectors, f_.x.order->together()), 128);
    // The number of blocks for which L1BM has room.
    const auto w_room = [&] { return l1 / ((f_.of_piece + 1) * m_.l1_rows * block_words); };
    if (!f_.w.across) {
        while (m_.l1_rows > f_.rows_of_step && (w_room() < 1 || m_.l1_rows * block_words > room / 8)) m_.l1_rows /= 2;
        m_.w_blocks = m_.spilled_tiles || m_.late ? 1 : std::clamp<int64_t>(w_room(), 1, blocks_in(m_.l1_rows, 128));
    }
    if ((f_.w.across ? part : f_.of_piece * m_.l1_rows * m_.w_blocks * block_words) > l1)
        throw UserError(fmt::format("stage {}: L1BM has {} LW for operands in transit; smaller tiles leave more",
                                    f_.stage.name(), l1));
    const int64_t w = f_.w.across ? part * f_.l1bs : m_.w_blocks * m_.l1_rows * block_words;
    const int64_t end = epilogue_.operands() * f_.vectors * f_.row_words;
    const int64_t x = (m_.spilled_tiles ? 1 : m_.whole_x_blocks) * f_.vectors * block_words;
    const auto slots_beside = [&] { return (room - 4 * x - 2 * w - end) / result; };
    const int64_t slots = std::clamp<int64_t>(slots_beside(), 1, m_.complete < 0 ? 3 : 4);
    m_.lag = f_.stage.write_back.empty() ? 0 : slots - 1;
    if (end) m_.epilogue_loads = Ring(plan.take(Bank::L2bm, end, "epilogue operands"), end);
    const int64_t spare = plan.free_words(Bank::L2bm) - slots * result - w;
    const int64_t max_x = std::clamp<int64_t>(spare / x / (m_.ahead > 1 ? 2 : 1), 1, 4) * x;
    m_.whole_x_blocks = std::min(m_.whole_x_blocks, max_x / (f_.vectors * block_words));
    m_.x_loads = Ring(plan.take(Bank::L2bm, max_x, "rows of " + f_.x.access.tensor), max_x);
    const int64_t begin = plan.take(Bank::L2bm, slots * result, "rows of " + f_.y.access.tensor);
    m_.results = Ring(begin, slots * result);
    const int64_t max_w = std::max<int64_t>(1, plan.free_words(Bank::L2bm) / w) * w;
    const int64_t at = plan.take(Bank::L2bm, max_w, "rows of " + f_.w.access.tensor);
    // Columns loaded before the tiles, not during them, may also use the results' room.
    const int64_t w_room2 = m_.ahead > 1 ? max_w : (at + max_w - begin) / w * w;
    m_.w_loads = Ring(m_.ahead > 1 ? at : begin, w_room2);
    m_.late_loads = Ring(at, max_w);
    if (f_.w.across) return;
    // Moves carry more rows than fit in L1BM if L2BM holds those of all L1Bs twice.
    m_.w_rows = m_.l1_rows;
    while (m_.w_rows < f_.side && w_room2 / (2 * m_.w_rows * m_.w_blocks * block_words) >= 2 * f_.of_piece * f_.l1bs)
        m_.w_rows *= 2;
}

void ProductPlanner::begin_halves() {
    Planner &plan = c_.planner;
    const int64_t pairs = f_.vectors * f_.sets_of_step / 2,
                  grf1 = plan.take(Bank::Grf1, 2 * pairs, "vectors of " + f_.x.access.tensor);
    for (int64_t n = 0; n < pairs; n++) m_.x_free.push_back(int(grf1 + 2 * n));
    const auto ring = [&](Bank bank, int64_t words, const std::string &name) {
        return Ring(plan.take(bank, words, name), words);
    };
    // L1BM: rows are freed in the order in which they arrived.
    m_.x_rows = ring(Bank::L1bm, f_.vectors * block_words, "rows in transit");
    const int64_t piece = f_.side * block_words, l1 = plan.free_words(Bank::L1bm) / piece * piece;
    const auto require = [&](const std::string &memory, int64_t has, int64_t needs) {
        if (has < needs)
            throw UserError(fmt::format("stage {}: under halves of the L1Bs, {} LW of {} are left for operands and "
                                        "results in transit, which take {}; smaller tiles of rows leave more",
                                        f_.stage.name(), has, memory, needs));
    };
    const int64_t sums = half_chunk * 2 * block_words, back = half_chunk * block_words,
                  out = half_chunk * f_.pieces * 8;
    require("L1BM", l1, std::max((half_loads + 1) * piece, sums + back + out));
    m_.l1_loads = ring(Bank::L1bm, l1, "columns in transit, and sums of " + f_.stage.name());
    const int64_t at = m_.l1_loads.begin(), times = std::min<int64_t>(l1 / (sums + back + out), 2);
    m_.l1_sums = Ring(at, times * sums);
    m_.reloaded = Ring(at + times * sums, times * back);
    m_.l1_results = Ring(at + times * (sums + back), times * out);
    // Columns are loaded in groups of four; some wait for the faces.
    m_.pending_limit = l1 / piece - half_loads;
    m_.drain_each = std::max<int64_t>(1, ceil_div(f_.sets, f_.sets_of_step) * half_chunk / f_.vectors);
    // L2BM, in the same way.
    const int64_t x = f_.vectors * f_.parts * block_words, w = f_.side * f_.parts * block_words,
                  result = half_chunk * f_.row_words, staged = half_chunk * half_l1bs * 2 * block_words,
                  room = plan.free_words(Bank::L2bm);
    require("L2BM", room, x + std::max(half_loads * w, staged + result));
    const int64_t xs = std::clamp<int64_t>((room - std::max(half_loads * w, staged + 3 * result)) / x, 1, 4);
    m_.x_loads = ring(Bank::L2bm, xs * x, "rows of " + f_.x.access.tensor);
    const int64_t rest = plan.free_words(Bank::L2bm), slots = std::clamp<int64_t>((rest - staged) / result, 1, 6);
    m_.lag = slots - 1;
    m_.w_loads = ring(Bank::L2bm, rest / (half_loads * w) * half_loads * w,
                      "rows of " + f_.w.access.tensor + ", and of " + f_.y.access.tensor);
    const int64_t begin = m_.w_loads.begin();
    m_.staged = Ring(begin, staged);
    m_.results = Ring(begin + staged, slots * result);
}

} // namespace kumiko::chip
