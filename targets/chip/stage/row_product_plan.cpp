// Allocates the memory of a row product.
#include "targets/chip/stage/row_product.h"

#include "support/error.h"

#include <algorithm>
#include <fmt/format.h>

namespace kumiko::chip {

using namespace sim;

// LM: the columns, and beside them complete sums, or sums spilled while columns are loaded. GRFs:
// registers of the epilogue.
void RowProduct::take_columns(const ScheduleState &state) {
    const Bank bank = columns_copies_.front().memory;
    const int64_t words = ceil_div(sets_, sets_of_step_) * sets_of_step_ * matrices_ * side_;
    ahead_ = twice_ && panels_.size() > 1 ? 2 : 1;
    for (int64_t n = 0; n < ahead_; n++)
        panel_slots_.push_back(
            c_.planner.take(bank, words, columns_copies_.front().stage->name() + (n ? " (second)" : "")) +
            (bank == Bank::Lm1 ? c_.config.sizes.lm : 0));
    set_words_ = vectors_ * sets_of_step_;
    const int64_t lm = c_.config.sizes.lm, beside = 2 * lm - std::max(lm, panel_slots_.back() + words),
                  sums = sum_words_ * vectors_ * matrices_;
    if (sides_ > 1 && beside >= sums + 16 * sides_)
        complete_ = c_.planner.take(Bank::Lm1, sums, "complete sums of " + stage_.name());
    if (parts_ > 1 && complete_ < 0)
        throw UserError(fmt::format("{}its columns take {} of {} LW of LM, which leaves no room for complete sums; use "
                                    "a shorter reduction with halves of the L1Bs, or bind it to MABs",
                                    who(), words, 2 * c_.config.sizes.lm));
    if (parts_ > 1 && ahead_ > 1)
        throw Unsupported(who() + "double_buffer of the columns with halves of the L1Bs; leave out double_buffer");
    begin_epilogue(state);
    if (parts_ > 1 && end_.defined())
        throw Unsupported(who() + "an epilogue with halves of the L1Bs; only a cast to f16 is supported");
    drain_rows_ = store_rows_ = vectors_;
    if (complete_ < 0) return stream_late();
    drain_rows_ = cycles_per_step * apart_;
    store_rows_ = vectors_ / drain_rows_ % 2 ? drain_rows_ : 2 * drain_rows_;
    keep_sums(beside - sums - registers_.words());
}

// The cycles needed to load `rows` rows of a tensor into every L2B.
double RowProduct::come(const View &view, double rows) const {
    const double rate = double(c_.config.moves.dram_rate * c_.config.groups);
    std::vector<Class> all =
        classes(tiles_.front(), [&](Values &values, Class &c) { c.rows.push_back(view.row(values)); });
    return rows * double(blocks_ * parts_ * block_words) * std::max(1.0 / 16, double(all.size()) / rate);
}

// If all MABs have the same columns, no sums are spilled to LM. If rows are loaded fast enough,
// some tiles of a panel are computed with three quarters of the columns while the last quarter is
// loaded.
void RowProduct::stream_late() {
    const int64_t late = pieces_ / 4;
    if (ahead_ > 1 || sides_ > 1 || w_.across || pieces_ % 4 || late * 8 * l1bs_ % block_words) return;
    const double work = 0.75 * double(sets_ * matrices_ * vectors_) * (single_ ? 2 : 1), x = come(x_, double(vectors_)),
                 w = 0.25 * come(w_, double(l1bs_ * l1b_matrices() * side_));
    const double first = 1.25 * w / std::max(work - x, 1.0) + 2;
    for (const Panel &p : panels_) {
        if (double(p.tiles) < 3 * first) return;
    }
    late_ = late, before_late_ = int64_t(first);
}

// Complete sums of a tile are kept in LM1, where the L1Bs reduce them while the next ones are
// computed. If LM1 has more room, the sums of the first tiles are kept there while the columns of a
// panel are loaded: as many tiles as provide work for that time.
void RowProduct::keep_sums(int64_t words) {
    const int64_t sums = sum_words_ * vectors_ * matrices_;
    // Cycles: to compute a tile, to load its rows, and to load the columns.
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
    // Vectors: as many sets as fit into GRF1.
    const int64_t groups = std::clamp<int64_t>(plan.free_words(Bank::Grf1) / set_words_, 1, 16);
    vectors_ring_ =
        Ring(plan.take(Bank::Grf1, groups * set_words_, "vectors of " + x_.access.tensor), groups * set_words_);
    // L1BM: sums of a tile, or of what is drained at a time, double-buffered if there is room; the
    // results of one; the rest is for loads.
    const int64_t sums = drain_rows_ * l1b_matrices() * 4 * sum_words_;
    const bool back = narrows_ || end_.defined() || sides_ > 1; // sums are reloaded into the PEs
    const int64_t out = back ? sums / (narrows_ ? 2 : 1) : 0;
    const int64_t step = std::max(rows_of_step_ * block_words, end_operands_.empty() ? 0 : end_words()),
                  part = 16 * 8 * chunk_pieces_; // transposed columns: of an L1B
    const int64_t times =
        2 * (sums + out) + std::max(4 * step, w_.across ? 2 * part : 0) <= plan.free_words(Bank::L1bm) ? 2 : 1;
    l1_sums_ = Ring(plan.take(Bank::L1bm, times * sums, "sums of " + stage_.name()), times * sums);
    if (out) l1_results_ = Ring(plan.take(Bank::L1bm, times * out, "results"), times * out);
    // Late columns have a part of it to themselves.
    const int64_t late = of_piece_ * side_ * block_words;
    const int64_t l1 = std::max(step, std::min(plan.free_words(Bank::L1bm), 64 * step) / step * step);
    if (l1 < 2 * late) late_ = 0;
    l1_loads_ = Ring(plan.take(Bank::L1bm, l1, "operands on their way"), l1);
    if (late_) late_l1_ = Ring(l1_loads_.begin() + l1 - late, late);
    // L2BM: results of some tiles, and moves of about 256 cycles.
    const int64_t result = store_rows_ * row_words_;
    const int64_t room = plan.free_words(Bank::L2bm);
    // Blocks of a row in a move of that many cycles.
    const auto blocks_in = [&](int64_t rows, int64_t cycles) {
        const int64_t most = std::min<int64_t>(cycles * c_.config.moves.dram_rate, room / 8);
        return std::clamp<int64_t>(most / (rows * block_words), 1, blocks_);
    };
    whole_x_blocks_ = blocks_in(std::min(vectors_, x_.order->together()), 128);
    // The number of blocks for which L1BM has room.
    const auto w_room = [&] { return l1 / ((of_piece_ + 1) * l1_rows_ * block_words); };
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
    // Columns loaded before the tiles, not during them, may also use the results' room.
    const int64_t w_room2 = ahead_ > 1 ? most_w : (at + most_w - begin) / w * w;
    w_loads_ = Ring(ahead_ > 1 ? at : begin, w_room2);
    late_loads_ = Ring(at, most_w);
    if (w_.across) return;
    // Moves carry more rows than fit in L1BM if L2BM holds those of all L1Bs twice.
    w_rows_ = l1_rows_;
    while (w_rows_ < side_ && w_room2 / (2 * w_rows_ * w_blocks_ * block_words) >= 2 * of_piece_ * l1bs_) w_rows_ *= 2;
}

} // namespace kumiko::chip
