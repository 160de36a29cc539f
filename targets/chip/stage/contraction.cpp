#include "targets/chip/stage/contraction.h"

#include "targets/chip/stage/row_product.h"
#include "targets/chip/stage/stages.h"

#include <algorithm>

namespace kumiko::chip {

using namespace sim;

void Contraction::run() {
    values_.assign(plan_->loops().size(), 0);
    for (int bank = 0; spare_ && bank < (stage_.write_back.empty() ? 1 : 2); bank++)
        pass(c_.packer, immediate(0), sums(sum_words_ * store_->accesses(), sum_words_, bank_ ^ bool(bank)),
             sum_words_);
    load_copies_at(SIZE_MAX);
    walk(0);
    all_loaded_ = true;
    drain_pending();
    release_stores(0);
}

// Loads the copies made at the loop at position `at` (SIZE_MAX: outside of all time loops).
void Contraction::load_copies_at(size_t at) {
    for (Loader *l : {x_.get(), w_.get()}) {
        size_t place = SIZE_MAX; // the innermost time loop not inside the copy's
        for (const size_t t : time_) {
            if (t <= l->copy().at) place = t;
        }
        if (place == at) l->ensure(values_);
    }
}

void Contraction::walk(size_t depth) {
    if (depth == time_.size() - vectors_.size()) {
        multiply_block();
        return;
    }
    const size_t loop = time_[depth];
    for (int64_t v = 0; v < plan_->loops()[loop].extent; v++) {
        values_[loop] = v;
        load_copies_at(loop);
        walk(depth + 1);
        if (loop == accumulate_at_) finish_tile();
    }
    values_[loop] = 0;
}

// Processes one matrix and its vectors.
void Contraction::multiply_block() {
    w_->need(w_->path().index(values_));
    const int64_t from = w_->base() + w_->path().index(values_) * w_->path().access_words();
    for (int h = 0; h < (single_ ? 1 : 2); h++) {
        MicroOp m;
        m.word().l1.op = L1Op::MabBroadcast;
        m.word().l1.width = 2;
        m.word().l1.at.at = uint16_t(from + 32 * h);
        m.next();
        MatrixWrite &mw = m.word().mw;
        mw.on = true;
        mw.precision = precision();
        mw.face = uint8_t(face_);
        mw.part = uint8_t(h);
        mw.from = Source::Lbf;
        c_.packer.place(m);
    }
    // For f32, first the even columns of the matrix, then the odd ones.
    for (int half = 0; half < (single_ ? 2 : 1); half++) multiply_vectors(half);
    face_ ^= 1;
    block_++;
    release_stores(INT64_MAX);
    if (pending_ && ++blocks_ % drain_interval_ == 0)
        drain_part();
    else if (!pending_)
        blocks_++;
}

void Contraction::multiply_vectors(int half) {
    bool first = half == 0;
    for (const size_t t : time_) first = first && (!plan_->loops()[t].reduction || values_[t] == 0);
    const int64_t x = x_->path().index(values_), sum = store_->index(values_), lm = c_.config.sizes.lm;
    for (size_t p = 0; p < points_.size();) {
        PointAddresses from, to;
        size_t n = 0;
        for (; n < from.size() && p < points_.size(); n++, p++) {
            x_->need(x + points_[p].x);
            from[n] = x_->base() + x + points_[p].x;
            to[n] = sum_words_ * (sum + points_[p].sum);
            if ((from[n] >= lm) != (from[0] >= lm)) break;
        }
        for (; n < from.size(); n++) {
            from[n] = from[0];
            to[n] = sum_words_ * (store_->accesses() + int64_t(n));
        }
        MicroOp m;
        Mau mau;
        mau.op = first ? MauOp::Mmul : MauOp::Mfma;
        mau.precision = precision();
        mau.face = uint8_t(face_);
        mau.half = uint8_t(half);
        mau.a = m.read(words_at(c_.config, Bank::Lm, from));
        const Operand sums = words_at(c_.config, bank_ ? Bank::Grf1 : Bank::Grf0, to);
        if (!first) mau.c = m.read(sums);
        mau.to = m.write(sums);
        m.word().mau = mau;
        c_.packer.place(m);
    }
}

// The sums of a tile are complete.
void Contraction::finish_tile() {
    drain_pending(); // of the previous tile
    pending_ = Drain{store_->key(values_), bank_, values_};
    // Distribute the drain over the first half of the next tile's blocks.
    drain_interval_ = std::max<int64_t>(1, blocks_ / (2 * store_parts(*store_, store_rings_)));
    blocks_ = 0;
    if (stage_.write_back.empty())
        drain_pending();
    else
        bank_ = !bank_;
}

void Contraction::drain_pending() {
    while (pending_) drain_part();
}

// Places the moves that are due, and all but `keep` of the others.
void Contraction::release_stores(int64_t keep) {
    const uint32_t all = (1u << plan_->used(Tier::Group)) - 1, reading = w_->path().groups_of(w_->last_key());
    while (!stores_.empty() && int64_t(stores_.size()) > keep) {
        stores_.front().part.place(stores_.front().groups);
        stores_.pop_front();
    }
    if (all_loaded_) return; // one move per group would take one tag each
    if ((reading & all) != all) {
        // Groups that are not being read are free until their turn comes again.
        const TransferPath &w = w_->path();
        int64_t until = 0;
        for (int g = 0; g < c_.config.groups; g++) {
            if (reading >> g & 1) until = std::max(until, c_.packer.group_free(g));
        }
        until += (w.run() - 1 - w_->last_key() % w.run()) * (w.l2_words() / c_.config.moves.dram_rate);
        uint32_t open = all & ~reading;
        for (Store &s : stores_) {
            const int64_t ready = c_.packer.movable(s.part.l2bm, s.part.words);
            const int64_t lasts = plan_->used(Tier::L2b) * s.part.words / c_.config.moves.dram_rate;
            for (int g = 0; g < c_.config.groups; g++) {
                if (!(s.groups & open & 1u << g)) continue;
                const int64_t begin = std::max(ready, c_.packer.group_free(g) + c_.config.moves.turnaround);
                if (begin + lasts + c_.config.moves.turnaround > until) {
                    open &= ~(1u << g);
                    continue;
                }
                s.part.place(1u << g);
                s.groups &= ~(1u << g);
            }
        }
    } else {
        for (Store &s : stores_) {
            if (s.due > block_) break;
            s.part.place(s.groups);
            s.groups = 0;
        }
    }
    while (!stores_.empty() && !stores_.front().groups) stores_.pop_front();
}

void lower_contraction(Context &c, const ScheduleState &state, const StageState &stage, const StageState *finished) {
    if (RowProduct::is_one(stage)) {
        RowProduct(c, state, stage, finished).run();
        return;
    }
    Contraction(c, state, stage, finished).run();
}

} // namespace kumiko::chip
