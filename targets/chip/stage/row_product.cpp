#include "targets/chip/stage/row_product.h"

#include "support/error.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace kumiko::chip {

using namespace sim;

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
        if (l.kind == LoopKind::Bound && l.reduction &&
            (l.unit == level_names[size_t(Tier::Mab)] || l.unit == level_names[size_t(Tier::L1b)]))
            return true;
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
    : c_(c), stage_(stage), finished_(finished), plan_(std::make_shared<StagePlan>(stage, c.config)),
      mabs_(c.config.mabs), l1bs_(c.config.l1bs) {
    if (block_words % (pes_per_mab * mabs_) != 0)
        throw Unsupported(fmt::format("an L1B of {} has {} MABs; products of rows are built for 1, 2, 4, 8 and 16",
                                      c.config.name, mabs_));
    analyze(state);
    take_columns(state);
    begin_memory();
    describe();
}

uint32_t RowProduct::mabs_of(int64_t side) const {
    uint32_t mabs = 0;
    for (int64_t m = side; m < mabs_; m += sides_) mabs |= 1u << m;
    return mabs;
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

// The moves of each class for blocks [block, block + blocks) of the rows, row after row. Results of
// rows beyond the last are not stored, so L2Bs with only such rows load another class's.
std::vector<std::vector<Mv>> RowProduct::loads(const View &view, std::vector<Class> classes, int64_t block,
                                               int64_t blocks, int64_t l2bm) const {
    const auto beyond = [&](const Class &c) {
        return !view.across &&
               std::all_of(c.rows.begin(), c.rows.end(), [&](int64_t r) { return r == view.order->zero_row(); });
    };
    const auto first = std::find_if_not(classes.begin(), classes.end(), beyond);
    if (first != classes.end()) {
        for (const Class &c : classes) first->l2bs |= beyond(c) ? c.l2bs : 0;
        std::erase_if(classes, beyond);
    }
    std::vector<std::vector<Mv>> all;
    for (const Class &c : classes) {
        std::vector<DramPlace> list;
        for (const int64_t r : c.rows) {
            for (int64_t b = 0; b < blocks; b++) {
                const int64_t word = c.word + (block + b) * block_words;
                const bool beyond = word >= view.order->pitch();
                list.push_back(view.order->place(beyond ? view.order->zero_row() : r, beyond ? 0 : word));
            }
        }
        all.emplace_back();
        for (const BlockRun &run : join_blocks(list)) {
            Mv m = between(c.l2bs, run.at.group, false);
            m.address = uint32_t(view.dram + run.at.address);
            m.blocks = uint16_t(run.count);
            m.size = uint16_t(run.size);
            m.stride = int32_t(run.stride);
            m.l2bm = uint16_t(l2bm + run.first * block_words);
            all.back().push_back(m);
        }
    }
    return all;
}

void RowProduct::load(const View &view, const std::vector<Class> &classes, int64_t block, int64_t blocks,
                      int64_t l2bm) {
    std::vector<Mv> all;
    for (const auto &moves : loads(view, classes, block, blocks, l2bm))
        all.insert(all.end(), moves.begin(), moves.end());
    c_.packer.place(all);
}

void RowProduct::l2_step(L2 slot, int64_t l2bm, int64_t l1bm) {
    MicroOp m;
    slot.l2bm.at = uint16_t(l2bm);
    slot.l1bm.at = uint16_t(l1bm);
    m.word().l2 = slot;
    c_.packer.place(m);
}

// One L1 step to four addresses.
void RowProduct::to_pes(L1Op op, int width, int64_t l1bm, std::array<int, 4> at, bool to_lm, uint32_t mabs) {
    Source memory = Source::Grf1;
    if (to_lm) {
        const int lm = int(c_.config.sizes.lm);
        memory = at[0] >= lm ? Source::Lm1 : Source::Lm0;
        for (int &a : at) a -= memory == Source::Lm1 ? lm : 0;
    }
    MicroOp m;
    m.word().l1.op = op;
    m.word().l1.width = uint8_t(width);
    m.word().l1.mabs = mabs;
    m.word().l1.at.at = uint16_t(l1bm);
    m.word().l1.to = m.write(four_of(memory, at));
    c_.packer.place(m);
}

// Distributes rows of 64 LW, whose words belong to some sets of some rows.
void RowProduct::deal(int64_t l1bm, const std::function<int64_t(int64_t row, int64_t set)> &to, bool to_lm,
                      uint32_t mabs) {
    std::array<int, 4> at;
    const int64_t a_cycle = sides_ > 1 ? 2 : 1, of_row = sets_of_step_ / a_cycle;
    for (int t = 0; t < cycles_per_step; t++) at[size_t(t)] = int(to(t / of_row, t % of_row * a_cycle));
    to_pes(sides_ > 1 ? L1Op::MabBroadcast4 : L1Op::Scatter, int(a_cycle), l1bm, at, to_lm, mabs);
}

// The address in GRF1. For two alternating sets, both words of a row are adjacent.
int64_t RowProduct::vector_at(int64_t set, int64_t row) const {
    if (parts_ > 1) return x_pairs_[size_t(set / 2 * vectors_ + row)] + set % 2;
    return sides_ > 1 ? x_at_ + (set / 2 * vectors_ + row) * 2 + set % 2 : x_at_ + set * vectors_ + row;
}

void RowProduct::load_vectors(const Values &tile, int64_t group) {
    const int64_t block = group * sets_of_step_ / sets_of_block_, move = block / x_blocks_;
    const int64_t count = std::min(x_blocks_, blocks_ - move * x_blocks_) * parts_;
    if (x_l2bm_[size_t(move)] < 0) {
        x_l2bm_[size_t(move)] = x_loads_.next(vectors_ * count * block_words);
        const auto all = classes(tile, [&](Values &values, Class &c) {
            for (int64_t v = 0; v < vectors_; v++) {
                values[vector_] = v;
                c.rows.push_back(x_.row(values));
            }
        });
        load(x_, all, move * x_blocks_ * parts_, count, x_l2bm_[size_t(move)]);
    }
    x_group_ = group;
    const int64_t within = group * sets_of_step_ % sets_of_block_ * distribution_;
    if (parts_ > 1) return load_pairs(x_l2bm_[size_t(move)] + block % x_blocks_ * parts_ * block_words, count, within);
    x_at_ = vectors_ring_.next(set_words_);
    for (int64_t r = 0; r < vectors_; r += rows_of_step_) {
        const int64_t l1bm = l1_loads_.next(rows_of_step_ * block_words);
        for (int64_t i = 0; i < rows_of_step_; i++) {
            L2 s;
            s.op = L2Op::Broadcast;
            l2_step(s, x_l2bm_[size_t(move)] + ((r + i) * count + block - move * x_blocks_) * block_words,
                    l1bm + i * block_words);
        }
        deal(
            l1bm + within, [&](int64_t row, int64_t set) { return vector_at(set, r + row); }, false, all_units);
    }
}

// Computes the sets of k in [begin, end) of a row tile with some pieces of the columns. Its sums
// are loaded from LM1 unless they begin here, and stored there at sums_at; −1: they stay in GRF0.
void RowProduct::part(size_t number, Panel &panel, Span pieces, int64_t begin, int64_t end, int64_t sums_at) {
    const Values &values = tiles_[number];
    x_blocks_ = end - begin < sets_ ? 1 : whole_x_blocks_;
    x_l2bm_.assign(size_t(ceil_div(blocks_, x_blocks_)), -1);
    x_group_ = -1;
    const int width = int(sum_words_);
    for (int64_t s = begin; s < end; s++) {
        for (int64_t t = 0; t < matrices_; t++) {
            if (late_ && !pieces.has(piece_of_[size_t(t)])) continue;
            for (int64_t side = 0; side < sides_; side++) {
                const size_t piece = size_t(piece_of_[size_t(t * sides_ + side)]);
                while (!panel.there[size_t(s / sets_of_block_)][piece])
                    dealt_.empty() ? load_next(panel) : distribute_next();
            }
            if (s / sets_of_step_ != x_group_) {
                // Results are stored between the rows being loaded.
                if (complete_ >= 0 && s / sets_of_step_ % (parts_ > 1 ? 1 : 2) == 0 && !stores_.empty()) {
                    c_.packer.place(stores_.front().moves);
                    stores_.pop_front();
                }
                load_vectors(values, s / sets_of_step_);
                if (late_) late_share();
                if (!drains_.empty() && s / sets_of_step_ % drain_each_ == 0) drain_next();
            }
            // Before their place is reused.
            if (sums_at == complete_ && end == sets_ && s + 1 == sets_) finish_drains();
            if (dealt_pieces_ > 1) distribute_next();
            write_face(face_at(panel, t, s));
            // f32: each half of the words.
            for (int64_t n = 0; n < vectors_ * (single_ ? 2 : 1); n += cycles_per_step) {
                const int64_t v = n % vectors_, sum = sum_words_ * (t * vectors_ + v);
                const bool first = n < vectors_, last = n + vectors_ >= vectors_ * (single_ ? 2 : 1);
                const Operand here = grf0(int(sum), width),
                              there = lm1(int(std::max<int64_t>(sums_at, 0) + sum), width);
                MicroOp m;
                Mau mau;
                mau.op = !s && first ? MauOp::Mmul : MauOp::Mfma;
                mau.precision = single_ ? sim::Type::F32 : sim::Type::F16;
                mau.face = uint8_t(face_);
                mau.half = uint8_t(n / vectors_);
                std::array<int, 4> at;
                for (int64_t i = 0; i < cycles_per_step; i++) at[size_t(i)] = int(vector_at(s % sets_of_step_, v + i));
                mau.a = m.read(four_of(Source::Grf1, at));
                if (mau.op == MauOp::Mfma) mau.c = m.read(s == begin && s && first ? there : here);
                mau.to = m.write(s + 1 == end && sums_at >= 0 && last ? there : here);
                m.word().mau = mau;
                c_.packer.place(m);
            }
            face_ ^= 1;
        }
    }
}

// Stores the results up to this number to DRAM.
void RowProduct::leave(int64_t number) {
    for (; !stores_.empty() && stores_.front().number <= number; stores_.pop_front())
        c_.packer.place(stores_.front().moves);
}

void RowProduct::finish_drains() {
    while (!drains_.empty()) drain_next();
}

// Computes the first tiles of a panel block by block of k while its columns are loaded, except for
// the last blocks; returns the first of these.
int64_t RowProduct::under_columns(Panel &panel) {
    int64_t block = 0;
    for (; (block + 1) * sets_of_block_ + 1 < sets_;
         block++) { // at least two sets: a step cannot read and write the same sums
        for (int64_t n = 0; n < kept_; n++) {
            part(panel.first + size_t(n), panel, all_pieces(), block * sets_of_block_, (block + 1) * sets_of_block_,
                 kept_at(n));
            // A share of the next blocks' loads.
            const int64_t now = loads_until(block + 1), next = loads_until(block + 2);
            while (int64_t(panel.brought) < now + (next - now) * (n + 1) / kept_) load_next(panel);
        }
    }
    return block;
}

// Transfers a group of sets' share of the late columns.
void RowProduct::late_share() {
    const int64_t groups = (before_late_ - 1) * ceil_div(sets_, sets_of_step_);
    late_groups_++;
    while (!dealt_.empty() && (late_steps_ - int64_t(dealt_.size())) * groups < late_steps_ * late_groups_)
        distribute_next();
}

// Sums are stored together with those of all other pieces, so these must be defined.
void RowProduct::zero_sums(Span pieces) {
    for (int64_t t = 0; t < matrices_; t++) {
        if (!pieces.has(piece_of_[size_t(t)])) continue;
        for (int64_t v = 0; v < vectors_; v += cycles_per_step) {
            const int width = int(sum_words_);
            pass(c_.packer, immediate(0), grf0(int(sum_words_ * (t * vectors_ + v)), width), width);
        }
    }
}

// Computes the first tiles of a panel with all columns but the late ones, which are loaded
// meanwhile.
void RowProduct::under_late(Panel &panel) {
    if (!panel.first) zero_sums(late_pieces());
    const Ring loads = l1_loads_;
    for (int64_t n = 0; n < before_late_; n++) {
        const size_t number = panel.first + size_t(n);
        part(number, panel, early_pieces(), 0, sets_, complete_);
        drain(tiles_[number], complete_, early_pieces());
        leave(drained_ - 1 - lag_);
        if (n) continue;
        queue_late(panel);
        l1_loads_ = Ring(loads.begin(), loads.words() - late_l1_.words()); // late_l1_ is the rest
    }
    while (!dealt_.empty()) distribute_next();
    l1_loads_ = loads;
}

void RowProduct::run() {
    const size_t all = size_t(loads_until(blocks_)); // loads of a panel
    for (size_t p = 0; p < panels_.size(); p++) {
        panels_[p].at = panel_slots_[p % panel_slots_.size()];
        panels_[p].there.assign(size_t(blocks_), std::vector<bool>(size_t(column_pieces())));
    }
    for (size_t p = 0; p < panels_.size(); p++) {
        Panel &panel = panels_[p];
        if (ahead_ == 1) {
            finish_drains();
            leave(drained_);
        }
        const auto finish = [&](size_t n, Span pieces, int64_t block, int64_t sums_at) {
            part(panel.first + n, panel, pieces, block * sets_of_block_, sets_, sums_at);
            drain(tiles_[panel.first + n], sums_at, pieces);
        };
        const size_t begun = size_t(late_ ? before_late_ : kept_), others = panel.tiles - begun;
        const int64_t last = kept_ ? under_columns(panel) : 0;
        if (late_) under_late(panel);
        // Tiles that have been started are finished between the others, so that there is work while
        // results are stored and rows are loaded.
        size_t ended = 0;
        for (size_t n = 0; n < std::max(others, size_t(1)); n++) {
            if (n < others) finish(begun + n, all_pieces(), 0, complete_);
            // A share of the next columns' loads, if there is room beside these.
            if (ahead_ > 1 && p + 1 < panels_.size()) {
                while (panels_[p + 1].brought < all * (n + 1) / panel.tiles) load_next(panels_[p + 1]);
            }
            leave(drained_ - 1 - lag_);
            for (const size_t until = others ? begun * (n + 1) / others : begun; ended < until; ended++) {
                late_ ? finish(ended, late_pieces(), 0, complete_)
                      : finish(ended, all_pieces(), last, kept_at(int64_t(ended)));
                leave(drained_ - 1 - lag_);
            }
        }
    }
    finish_drains();
    leave(drained_);
}

} // namespace kumiko::chip
