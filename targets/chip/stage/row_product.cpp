#include "targets/chip/stage/row_product.h"

#include "support/error.h"

#include <algorithm>
#include <fmt/format.h>

namespace kumiko::chip {

using namespace sim;

bool RowProduct::is_one(const StageState &stage) {
    for (const std::string &name : stage.order) {
        const LoopState &l = stage.loop(name);
        if (l.kind == LoopKind::Bound && l.reduction &&
            (l.unit == level_names[size_t(Tier::Mab)] || l.unit == level_names[size_t(Tier::L1b)]))
            return true;
    }
    return false;
}

RowProduct::RowProduct(Context &c, const ScheduleState &state, const StageState &stage, const StageState *finished)
    : c_(c), f_(c.config, state, stage, finished), epilogue_(c, f_, m_), faces_(c, f_) {
    if (block_words % (pes_per_mab * f_.mabs) != 0)
        throw Unsupported(fmt::format("an L1B of {} has {} MABs; row products are supported for 1, 2, 4, 8 and 16",
                                      c.config.name, f_.mabs));
    ProductAnalysis(c, f_).analyze(state);
    ProductPlanner(c, f_, m_, epilogue_).plan(state);
    columns_ = make_columns(c, f_, m_, faces_);
    if (f_.parts > 1)
        rows_ = std::make_unique<HalvesRows>(c, f_, m_);
    else
        rows_ = std::make_unique<MabRows>(c, f_, m_);
    drain_ = make_drain(c, f_, m_, epilogue_);
    panels_ = f_.panels;
    for (size_t p = 0; p < panels_.size(); p++) {
        panels_[p].at = m_.panel_slots[p % m_.panel_slots.size()];
        panels_[p].loaded.assign(size_t(f_.blocks), std::vector<bool>(size_t(columns_->pieces())));
    }
    describe();
}

// Computes the sets of k in [begin, end) of a row tile with some pieces of the columns. Its sums
// are loaded from LM1 unless they begin here, and stored there at sums_at; −1: they stay in GRF0.
void RowProduct::compute_part(size_t number, ColumnPanel &panel, PieceSpan pieces, int64_t begin, int64_t end,
                              int64_t sums_at) {
    rows_->begin(end - begin < f_.sets);
    for (int64_t s = begin; s < end; s++) {
        for (int64_t t = 0; t < f_.matrices; t++) {
            if (m_.late && !pieces.has(f_.piece_of[size_t(t)])) continue;
            for (int64_t side = 0; side < f_.sides; side++)
                columns_->require(panel, s / f_.sets_of_block, f_.piece_of[size_t(t * f_.sides + side)]);
            if (const int64_t group = s / f_.sets_of_step; !rows_->holds(group)) begin_group(f_.tiles[number], group);
            // Before their place is reused.
            if (sums_at == m_.complete && end == f_.sets && s + 1 == f_.sets) drain_->finish();
            columns_->before_matrix();
            faces_.write(f_.face_at(panel, t, s));
            multiply(t, s, s == begin, s + 1 == end, sums_at);
            faces_.next();
        }
    }
}

// Loads a group of sets of the rows, and places a share of what else has to be moved.
void RowProduct::begin_group(const Values &tile, int64_t group) {
    // Results are stored between the rows being loaded.
    if (m_.complete >= 0 && group % drain_->store_each() == 0) drain_->store_next();
    rows_->load(tile, group);
    if (m_.late) columns_->share_late();
    if (drain_->waiting() && group % m_.drain_each == 0) drain_->next();
}

// Multiplies the matrix in the current face with the vectors of set s. `first`, `last`: of the sets
// that are computed together.
void RowProduct::multiply(int64_t t, int64_t s, bool first, bool last, int64_t sums_at) {
    const int width = int(f_.sum_words);
    const int64_t all = f_.vectors * (f_.single ? 2 : 1); // f32: each half of the words
    for (int64_t n = 0; n < all; n += cycles_per_step) {
        const int64_t v = n % f_.vectors, sum = f_.sum_words * (t * f_.vectors + v);
        const bool begins = n < f_.vectors, ends = n + f_.vectors >= all;
        const Operand here = grf0(int(sum), width), there = lm1(int(std::max<int64_t>(sums_at, 0) + sum), width);
        MicroOp m;
        Mau mau;
        mau.op = !s && begins ? MauOp::Mmul : MauOp::Mfma;
        mau.precision = f_.single ? sim::Type::F32 : sim::Type::F16;
        mau.face = uint8_t(faces_.current());
        mau.half = uint8_t(n / f_.vectors);
        std::array<int, 4> at;
        for (int64_t i = 0; i < cycles_per_step; i++) at[size_t(i)] = int(rows_->at(s % f_.sets_of_step, v + i));
        mau.a = m.read(four_of(Source::Grf1, at));
        if (mau.op == MauOp::Mfma) mau.c = m.read(first && s && begins ? there : here);
        mau.to = m.write(last && sums_at >= 0 && ends ? there : here);
        m.word().mau = mau;
        c_.packer.place(m);
    }
}

// Computes the first tiles of a panel block by block of k while its columns are loaded, except for
// the last blocks; returns the first of these.
int64_t RowProduct::compute_while_loading(ColumnPanel &panel) {
    int64_t block = 0;
    for (; (block + 1) * f_.sets_of_block + 1 < f_.sets;
         block++) { // at least two sets: a step cannot read and write the same sums
        for (int64_t n = 0; n < m_.spilled_tiles; n++) {
            compute_part(panel.first + size_t(n), panel, f_.all_pieces(), block * f_.sets_of_block,
                         (block + 1) * f_.sets_of_block, spilled_sums_at(n));
            // A share of the next blocks' loads.
            const int64_t now = columns_->loads_until(block + 1), next = columns_->loads_until(block + 2);
            while (int64_t(panel.loads_done) < now + (next - now) * (n + 1) / m_.spilled_tiles)
                columns_->load_next(panel);
        }
    }
    return block;
}

// Sums are stored together with those of all other pieces, so these must be defined.
void RowProduct::zero_sums(PieceSpan pieces) {
    for (int64_t t = 0; t < f_.matrices; t++) {
        if (!pieces.has(f_.piece_of[size_t(t)])) continue;
        for (int64_t v = 0; v < f_.vectors; v += cycles_per_step) {
            const int width = int(f_.sum_words);
            pass(c_.packer, immediate(0), grf0(int(f_.sum_words * (t * f_.vectors + v)), width), width);
        }
    }
}

// Computes the first tiles of a panel with all columns but the late ones, which are loaded
// meanwhile.
void RowProduct::compute_before_late(ColumnPanel &panel) {
    if (!panel.first) zero_sums(m_.late_pieces(f_));
    const Ring loads = m_.l1_loads;
    for (int64_t n = 0; n < m_.before_late; n++) {
        const size_t number = panel.first + size_t(n);
        compute_part(number, panel, m_.early_pieces(f_), 0, f_.sets, m_.complete);
        drain_->drain(f_.tiles[number], m_.complete, m_.early_pieces(f_));
        drain_->store_waiting();
        if (n) continue;
        columns_->queue_late(panel);
        // late_l1 is the rest.
        m_.l1_loads = Ring(loads.begin(), loads.words() - m_.late_l1.words());
    }
    columns_->transfer_all();
    m_.l1_loads = loads;
}

// Computes a tile from a block of k on, and queues its sums.
void RowProduct::finish_tile(ColumnPanel &panel, size_t n, PieceSpan pieces, int64_t block, int64_t sums_at) {
    compute_part(panel.first + n, panel, pieces, block * f_.sets_of_block, f_.sets, sums_at);
    drain_->drain(f_.tiles[panel.first + n], sums_at, pieces);
}

void RowProduct::run_panel(size_t p) {
    ColumnPanel &panel = panels_[p];
    if (m_.ahead == 1) {
        drain_->finish();
        drain_->store_all();
    }
    const size_t loads = size_t(columns_->loads_until(f_.blocks)); // of a panel
    const size_t begun = size_t(m_.late ? m_.before_late : m_.spilled_tiles), others = panel.tiles - begun;
    const int64_t last = m_.spilled_tiles ? compute_while_loading(panel) : 0;
    if (m_.late) compute_before_late(panel);
    // Tiles that have been started are finished between the others, so that there is work while
    // results are stored and rows are loaded.
    size_t ended = 0;
    for (size_t n = 0; n < std::max(others, size_t(1)); n++) {
        if (n < others) finish_tile(panel, begun + n, f_.all_pieces(), 0, m_.complete);
        // A share of the next columns' loads, if there is room beside these.
        if (m_.ahead > 1 && p + 1 < panels_.size()) {
            while (panels_[p + 1].loads_done < loads * (n + 1) / panel.tiles) columns_->load_next(panels_[p + 1]);
        }
        drain_->store_waiting();
        for (const size_t until = others ? begun * (n + 1) / others : begun; ended < until; ended++) {
            m_.late ? finish_tile(panel, ended, m_.late_pieces(f_), 0, m_.complete)
                    : finish_tile(panel, ended, f_.all_pieces(), last, spilled_sums_at(int64_t(ended)));
            drain_->store_waiting();
        }
    }
}

void RowProduct::run() {
    for (size_t p = 0; p < panels_.size(); p++) run_panel(p);
    drain_->finish();
    drain_->store_all();
}

void RowProduct::describe() {
    std::string indent;
    const auto line = [&](const std::string &t) { c_.l2 += indent + t + "\n"; };
    line("stage " + (f_.finished ? f_.finished->name() : f_.stage.name()));
    const auto &loops = f_.plan->loops();
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
        if (l == f_.panel_at)
            line(fmt::format(
                "  move {} to LM: {} matrices of {} sets{}", f_.w.access.tensor, f_.matrices, f_.sets,
                m_.late ? fmt::format(
                              "; a quarter of them is loaded while the first {} tiles are multiplied with the others",
                              m_.before_late)
                        : ""));
        if (f_.stage.accumulate->loop == p.name)
            line(fmt::format("  sums in GRF0, {} LW; at the end: reduced over {}, moved to DRAM by rows of {} LW",
                             f_.sum_words * f_.vectors * f_.matrices, f_.parts > 1 ? "halves of the L1Bs" : "MABs",
                             f_.row_words));
    }
    indent += "  ";
    line(fmt::format("move {} vectors to GRF1; {}: {} times {}", f_.vectors, f_.stage.tensorize->instruction,
                     f_.w.access.tensor, f_.x.access.tensor));
    c_.l2 += c_.planner.to_string();
}

} // namespace kumiko::chip
