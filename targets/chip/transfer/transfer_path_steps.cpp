// The operations of a path below L2BM: to L1BM, to the units, and the transpose there.
#include "targets/chip/transfer/transfer_path.h"

#include "support/error.h"
#include "targets/chip/counts.h"
#include "targets/chip/transfer/transpose.h"

#include <bit>

namespace kumiko::chip {

using namespace sim;

void TransferPath::l2(Packer &p, int64_t n, int64_t l2bm, int64_t l1bm) const {
    const bool up = shape_.store;
    const auto one = [&](L2 slot, int64_t from, int64_t at) {
        MicroOp m;
        slot.l2bm.at = uint16_t(from);
        slot.l1bm.at = uint16_t(at);
        m.word().l2 = slot;
        p.place(m);
    };
    if (interleaved_) {
        const int64_t per_step = int64_t(config_.links.l2_scatter) * cycles_per_step;
        for (int64_t x = 0; x < n; x += per_step) {
            L2 s;
            s.op = up ? L2Op::Gather : L2Op::Scatter;
            one(s, l2bm + x * config_.l1bs, l1bm + x);
        }
        return;
    }
    const int64_t per_step = int64_t(config_.links.l2_broadcast) * cycles_per_step;
    for (int64_t c = 0; c < n; c += chunk_) {
        const auto from = [&](int64_t part) { return l2bm + c * l2_times_ + part * chunk_; };
        for (const auto &[part, other] : pairs_) {
            for (int64_t x = 0; x < chunk_; x += per_step) {
                L2 s;
                if (up) {
                    s.op = L2Op::UnicastUp;
                    s.child = uint8_t(l1b_of_part_[size_t(part)]);
                } else {
                    s.op = L2Op::Broadcast;
                    uint32_t set = l1bs_of_part(part);
                    if (other >= 0) {
                        s.op = L2Op::Broadcast2;
                        s.second.at = uint16_t(from(other) + x);
                        set |= l1bs_of_part(other);
                    }
                    if (set != (1u << config_.l1bs) - 1) s.l1bs = set;
                }
                one(s, from(part) + x, l1bm + c + x);
            }
        }
    }
}

uint32_t TransferPath::mabs_of_part(int64_t part) const {
    uint32_t set = 0;
    for (int u = 0; u < config_.mabs; u++) {
        if (plan_.part(shape_.access, Tier::Mab, u) == part) set |= 1u << u;
    }
    return set;
}

void TransferPath::l1_down(Packer &p, int64_t x, int64_t n, int64_t l1bm, int64_t at) const {
    const int64_t per_step = per_address_ * cycles_per_step;
    for (int64_t i = 0; i < n; i += per_step) {
        std::pair<int64_t, int64_t> at_mab{0, x + i};
        if (by_mab_)
            at_mab = in_segment(x + i, segment_, l1_words_ / segment_, 16 * shape_.transposed / (4 * per_word_),
                                config_.groups);
        const int64_t offset = at_mab.second / per_address_;
        if (offset >= unit_words_) break;
        MicroOp m;
        L1 &l1 = m.word().l1;
        l1.op = distribution_ == Distribution::Scatter ? L1Op::Scatter
                : distribution_ == Distribution::Mab   ? L1Op::MabBroadcast
                                                       : L1Op::PeBroadcast;
        if (by_mab_) l1.mabs = mabs_of_part(at_mab.first);
        l1.at.at = uint16_t(l1bm + i);
        const bool second = at + offset >= config_.sizes.lm;
        const int address = int(second ? at + offset - config_.sizes.lm : at + offset);
        m.word().l1.to = m.write(second ? lm1(address, 1) : lm0(address, 1));
        p.place(m);
    }
}

// Words are written as rows of a face and columns are read to their destination; one face is
// written while the other is read.
void TransferPath::transpose(Packer &p, int64_t from, int64_t to) const {
    if (transposition_.empty()) {
        const int64_t faces = shape_.transposed / (pes_per_mab * per_word_);
        transposition_ = plan_transposition({per_word_, accesses_ / shape_.transposed, faces}, config_);
    }
    const int64_t lm = config_.sizes.lm;
    const auto moved = [&](const sim::Port &port, int64_t by) {
        sim::Operand o{by >= lm ? sim::Source::Lm1 : sim::Source::Lm0, port.address};
        for (uint16_t &at : o.address.at) at = uint16_t(at + by % lm);
        return o;
    };
    for (const MicroOp &op : transposition_) {
        const sim::Word &w = op.word();
        MicroOp m;
        m.word().mw = w.mw;
        m.word().mr = w.mr;
        if (w.mw.on) m.word().mw.from = m.read(moved(w.lm0, from));
        if (w.mr.on) m.word().mr.to = m.write(moved(w.lm1, to));
        p.place(m);
    }
}

} // namespace kumiko::chip
