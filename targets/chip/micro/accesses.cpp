// The reads and writes of a word, and the minimum distance between two words.
#include "sim/operations.h"
#include "targets/chip/micro/micro_op.h"

#include <algorithm>

namespace kumiko::chip {

using namespace sim;

namespace {

class Collector {
public:
    Collector(const Word &word, const Config &config) : w(word), c(config) {}

    std::vector<Access> all;

    void run() {
        control();
        move();
        l2();
        l1();
        if (w.mw.on) {
            read(w.mw.from, w.mw.width, Slot::MatrixWrite);
            add(Resource::Face, w.mw.face, w.mw.face + 1, true, Slot::MatrixWrite);
        }
        if (w.mau.op != MauOp::None) {
            read(w.mau.a, mau_a_width(w.mau), Slot::Mau);
            read(w.mau.b, 1, Slot::Mau);
            read(w.mau.c, mau_c_width(w.mau), Slot::Mau);
            if (info(w.mau.op).matrix) add(Resource::Face, w.mau.face, w.mau.face + 1, false, Slot::Mau);
            write(w.mau.to, mau_result_width(w.mau), Slot::Mau);
            add(Resource::Forward, 1, 2, true, Slot::Mau);
        }
        if (w.mr.on) {
            add(Resource::Face, w.mr.face, w.mr.face + 1, false, Slot::MatrixRead);
            write(w.mr.to, w.mr.width, Slot::MatrixRead);
            add(Resource::Forward, 3, 4, true, Slot::MatrixRead);
        }
        if (w.alu.op != AluOp::None) {
            read(w.alu.a, alu_operand_width(w.alu), Slot::Alu);
            read(w.alu.b, alu_operand_width(w.alu), Slot::Alu);
            write(w.alu.to, alu_result_width(w.alu), Slot::Alu);
            if (w.alu.mask) add(Resource::Mask, w.alu.mask, w.alu.mask + 1, true, Slot::Alu);
            add(Resource::Forward, 0, 1, true, Slot::Alu);
        }
        if (w.mask.mode != MaskMode::None)
            add(Resource::Mask, w.mask.entry, w.mask.entry + 1, false, w.alu.op != AluOp::None ? Slot::Alu : Slot::Mau);
    }

private:
    const Word &w;
    const Config &c;

    void add(Resource r, int64_t begin, int64_t end, bool writes, Slot slot) {
        const Access a{r, begin, end, writes, slot};
        if (begin < end && std::find(all.begin(), all.end(), a) == all.end()) all.push_back(a);
    }

    void control() {
        // Anything after a wait may use the words of its move, so a wait writes all of L2BM.
        if (w.control.wait) {
            add(Resource::Move, *w.control.wait, *w.control.wait + 1, false, Slot::Control);
            add(Resource::L2bm, 0, c.sizes.l2bm, true, Slot::Control);
        }
        if (w.control.base) add(Resource::Base, *w.control.base, *w.control.base + 1, true, Slot::Control);
        if (w.control.base && w.control.base_add)
            add(Resource::Base, *w.control.base, *w.control.base + 1, false, Slot::Control);
    }

    void move() {
        const Mv &m = w.mv;
        if (m.op == MvOp::None) return;
        const int64_t words = int64_t(m.blocks) * m.size * c.moves.block;
        const bool in = m.op == MvOp::Broadcast || m.op == MvOp::Scatter;
        const bool inside = m.op == MvOp::Copy || m.op == MvOp::ReduceTo;
        add(Resource::Move, m.tag, m.tag + 1, true, Slot::Mv);
        // A scatter or gather touches less of each L2BM; one range is used for all.
        add(Resource::L2bm, m.l2bm, m.l2bm + words, in, Slot::Mv);
        if (inside) add(Resource::L2bm, m.to, m.to + words, true, Slot::Mv);
    }

    void l2() {
        const L2 &l = w.l2;
        if (l.op == L2Op::None) return;
        const bool dealt = l.op == L2Op::Scatter || l.op == L2Op::Gather;
        const bool up = l.op == L2Op::Gather || l.op == L2Op::Reduce || l.op == L2Op::UnicastUp;
        const int64_t b = int64_t(cycles_per_step) * c.links.l2_broadcast,
                      s = int64_t(cycles_per_step) * c.links.l2_scatter;
        add(Resource::L1bm, l.l1bm.at, l.l1bm.at + (dealt ? s : b), !up, Slot::L2);
        if (l.op == L2Op::Multicast) {
            add(Resource::L1bm, l.second.at, l.second.at + b, false, Slot::L2);
            return;
        }
        add(Resource::L2bm, l.l2bm.at, l.l2bm.at + (dealt ? s * c.l1bs : b), up, Slot::L2);
        if (l.op == L2Op::Broadcast2) add(Resource::L2bm, l.second.at, l.second.at + b, false, Slot::L2);
    }

    void l1() {
        const L1 &l = w.l1;
        if (l.op == L1Op::None) return;
        int64_t a_cycle = c.pes_per_l1b();
        if (l.op == L1Op::PeBroadcast) a_cycle = l.width;
        if (l.op == L1Op::MabBroadcast || l.op == L1Op::MabReduce) a_cycle = 4 * l.width;
        if (l.op == L1Op::MabBroadcast4 || l.op == L1Op::MabReduce4) a_cycle = l.width * c.mabs;
        add(Resource::L1bm, l.at.at, l.at.at + cycles_per_step * a_cycle, is_upward(l.op), Slot::L1);
        if (is_upward(l.op)) {
            read(l.from, l.width, Slot::L1);
        } else {
            write(l.to, l.width, Slot::L1);
            add(Resource::Forward, 2, 3, true, Slot::L1);
        }
    }

    void at_port(Resource r, const Port &port, int width, bool writes, Slot slot) {
        const PortAddress &a = port.address;
        const bool lm = r <= Resource::Lm1;
        if (lm && a.base) add(Resource::Base, a.base - 1, a.base, false, slot);
        if (lm && a.by_t) add(Resource::T, 0, 8, false, slot);
        if (lm && (a.base || a.by_t)) return add(r, 0, c.sizes.lm, writes, slot);
        // Neighbouring cycles become one range, others separate ones.
        std::array<int64_t, 4> at{};
        for (int t = 0; t < 4; t++) at[size_t(t)] = a.listed ? a.at[size_t(t)] : a.at[0] + t * a.stride;
        std::sort(at.begin(), at.end());
        int64_t begin = at[0], end = at[0] + width;
        for (const int64_t x : at) {
            if (x > end) {
                add(r, begin, end, writes, slot);
                begin = x;
            }
            end = x + width;
        }
        add(r, begin, end, writes, slot);
    }
    void read(Source s, int width, Slot slot) {
        switch (s) {
        case Source::Lm0:
            return at_port(Resource::Lm0, w.lm0, width, false, slot);
        case Source::Lm1:
            return at_port(Resource::Lm1, w.lm1, width, false, slot);
        case Source::Grf0:
            return at_port(Resource::Grf0, w.grf0_read, width, false, slot);
        case Source::Grf1:
            return at_port(Resource::Grf1, w.grf1_read, width, false, slot);
        case Source::T:
            return add(Resource::T, 0, 8, false, slot);
        case Source::Aluf:
            return add(Resource::Forward, 0, 1, false, slot);
        case Source::Mauf:
            return add(Resource::Forward, 1, 2, false, slot);
        case Source::Lbf:
            return add(Resource::Forward, 2, 3, false, slot);
        case Source::Mreadf:
            return add(Resource::Forward, 3, 4, false, slot);
        default:
            return;
        }
    }
    void write(uint8_t to, int width, Slot slot) {
        if (to & ToLm0) at_port(Resource::Lm0, w.lm0, width, true, slot);
        if (to & ToLm1) at_port(Resource::Lm1, w.lm1, width, true, slot);
        if (to & ToGrf0) at_port(Resource::Grf0, w.grf0_write, width, true, slot);
        if (to & ToGrf1) at_port(Resource::Grf1, w.grf1_write, width, true, slot);
        if (to & ToT) add(Resource::T, 0, 8, true, slot);
    }
};

// Steps until a value written by `first` may be read by `second`.
int after_write(const Access &first, const Access &second, const Config &c) {
    switch (first.resource) {
    case Resource::Lm0:
    case Resource::Lm1:
        return 1 + c.gaps.lm;
    case Resource::Grf0:
    case Resource::Grf1:
        return 1 + c.gaps.grf;
    case Resource::T:
        return 1 + c.gaps.t;
    case Resource::Mask:
        return 1 + c.gaps.mask;
    case Resource::Base:
        return 1 + c.gaps.base;
    case Resource::Face:
        return 1 + c.gaps.matrix;
    case Resource::L1bm:
        return 1 + (first.slot == Slot::L1    ? c.gaps.l1bm_by_pe
                    : second.slot == Slot::L1 ? c.gaps.l1bm_by_l2
                                              : c.gaps.l1bm_l2_l2);
    case Resource::L2bm:
        return 1 + (second.slot == Slot::Mv ? c.gaps.l2bm_mv : c.gaps.l2bm_l2);
    case Resource::Forward:
    case Resource::Move:
        return 1;
    }
    return 1;
}

} // namespace

std::vector<Access> accesses(const Word &word, const Config &config) {
    Collector collector(word, config);
    collector.run();
    return std::move(collector.all);
}

std::optional<int> least_distance(const std::vector<Access> &first, const std::vector<Access> &second,
                                  const Config &c) {
    std::optional<int> least;
    const auto need = [&](int steps) { least = std::max(least.value_or(steps), steps); };
    for (const Access &a : first)
        for (const Access &b : second) {
            // Forwards are expressed by `follows` alone: any other forward uses the slot in another
            // step.
            if (a.resource != b.resource || a.resource == Resource::Forward) continue;
            if (a.resource == Resource::Move && a.write && b.write) {
                need(c.moves.issue_steps); // H4, for any tag
                continue;
            }
            // H2 applies to the whole LM, everything else to words.
            const bool lm = a.resource <= Resource::Lm1;
            if (lm && a.write != b.write) {
                need(a.write ? after_write(a, b, c) : 0);
                continue;
            }
            if (a.begin >= b.end || b.begin >= a.end) continue;
            if (a.resource == Resource::L2bm && (a.slot == Slot::Control || b.slot == Slot::Control)) {
                // A wait: what follows it may be in the same word.
                need(a.slot == Slot::Mv ? 1 : 0);
                continue;
            }
            if (a.write && !b.write)
                need(after_write(a, b, c));
            else if (a.write && b.write)
                need(1);
            else if (!a.write && b.write)
                // H9: from the step of its issue on, a move owns its destination.
                need(b.slot == Slot::Mv || a.slot == Slot::Mv ? 1 : 0);
        }
    return least;
}

std::optional<int> least_distance(const Word &first, const Word &second, const Config &config) {
    return least_distance(accesses(first, config), accesses(second, config), config);
}

} // namespace kumiko::chip
