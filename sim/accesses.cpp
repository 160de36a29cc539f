#include "sim/accesses.h"

#include <algorithm>

namespace kumiko::sim {

bool Access::overlaps(const Access &other) const {
    if (resource != other.resource) return false;
    for (int i = 0; i < count; i++) {
        for (int j = 0; j < other.count; j++) {
            const int32_t a = at[size_t(i)], b = other.at[size_t(j)];
            if (a < b + other.width && b < a + width) return true;
        }
    }
    return false;
}

namespace {

constexpr int t_words = 8;

// An access by a memory's port, in all four cycles.
void add_port(Accesses &out, Resource r, const Port &port, int width, bool write, Slot slot, const Config &config) {
    const PortAddress &a = port.address;
    if (a.base) out.add(Resource::Base, a.base - 1, 1, false, slot);
    if (a.by_t) out.add(Resource::T, 0, t_words, false, slot);
    if (a.base || a.by_t) return out.add(r, 0, config.sizes.lm, write, slot);
    Access access{r, write, slot, cycles_per_step, width, {}};
    for (int t = 0; t < cycles_per_step; t++)
        access.at[size_t(t)] = a.listed ? a.at[size_t(t)] : a.at[0] + t * a.stride;
    out.add(access);
}

void add_source(Accesses &out, const Word &w, Source s, int width, Slot slot, const Config &config) {
    switch (s) {
    case Source::Lm0:
        return add_port(out, Resource::Lm0, w.lm0, width, false, slot, config);
    case Source::Lm1:
        return add_port(out, Resource::Lm1, w.lm1, width, false, slot, config);
    case Source::Grf0:
        return add_port(out, Resource::Grf0, w.grf0_read, width, false, slot, config);
    case Source::Grf1:
        return add_port(out, Resource::Grf1, w.grf1_read, width, false, slot, config);
    case Source::T:
        return out.add(Resource::T, 0, t_words, false, slot);
    case Source::Aluf:
    case Source::Mauf:
    case Source::Lbf:
    case Source::Mreadf:
        return out.add(Resource::Forward, int(s) - int(Source::Aluf), 1, false, slot);
    default:
        return;
    }
}

void add_destinations(Accesses &out, const Word &w, uint8_t to, int width, Slot slot, const Config &config) {
    if (to & ToLm0) add_port(out, Resource::Lm0, w.lm0, width, true, slot, config);
    if (to & ToLm1) add_port(out, Resource::Lm1, w.lm1, width, true, slot, config);
    if (to & ToGrf0) add_port(out, Resource::Grf0, w.grf0_write, width, true, slot, config);
    if (to & ToGrf1) add_port(out, Resource::Grf1, w.grf1_write, width, true, slot, config);
    if (to & ToT) out.add(Resource::T, 0, t_words, true, slot);
}

void add_control(Accesses &out, const Control &c, const Config &config) {
    // Anything after a wait may use the words of its move, so a wait writes all of L2BM.
    if (c.wait) {
        out.add(Resource::Move, *c.wait, 1, false, Slot::Control);
        out.add(Resource::L2bm, 0, config.sizes.l2bm, true, Slot::Control);
    }
    if (!c.base) return;
    out.add(Resource::Base, *c.base, 1, true, Slot::Control);
    if (c.base_add) out.add(Resource::Base, *c.base, 1, false, Slot::Control);
}

void add_move(Accesses &out, const Mv &m, const Config &config) {
    const int64_t words = words_of(m, config);
    out.add(Resource::Move, m.tag, 1, true, Slot::Mv);
    // A scatter or gather touches less of each L2BM; one range is used for all.
    out.add(Resource::L2bm, m.l2bm, words, is_load(m), Slot::Mv);
    if (is_inside(m)) out.add(Resource::L2bm, m.to, words, true, Slot::Mv);
}

void add_l2(Accesses &out, const L2 &l, const Config &config) {
    const L2Info &i = info(l.op);
    const int64_t l1bm = l2_words_of_l1bm(l, config);
    out.add(Resource::L1bm, l.l1bm.at, l1bm, !i.up, Slot::L2);
    if (!i.multicast()) out.add(Resource::L2bm, l.l2bm.at, l2_words_of_l2bm(l, config), i.up, Slot::L2);
    if (i.second != L2Second::None)
        out.add(i.second == L2Second::L1bm ? Resource::L1bm : Resource::L2bm, l.second.at, l1bm, false, Slot::L2);
}

} // namespace

void accesses(const Word &w, const Config &config, Accesses &out) {
    out.clear();
    add_control(out, w.control, config);
    if (w.mv.op != MvOp::None) add_move(out, w.mv, config);
    if (w.l2.op != L2Op::None) add_l2(out, w.l2, config);
    if (w.l1.op != L1Op::None)
        out.add(Resource::L1bm, w.l1.at.at, l1_words(w.l1, config), is_upward(w.l1.op), Slot::L1);
    each_read(w, [&](Slot slot, Source s, int width) { add_source(out, w, s, width, slot, config); });
    each_write(w, [&](Slot slot, uint8_t to, int width) { add_destinations(out, w, to, width, slot, config); });
    each_forward(w, [&](Slot slot, int forward, int) { out.add(Resource::Forward, forward, 1, true, slot); });
    if (w.mw.on) out.add(Resource::Face, w.mw.face, 1, true, Slot::MatrixWrite);
    if (info(w.mau.op).matrix) out.add(Resource::Face, w.mau.face, 1, false, Slot::Mau);
    if (w.mr.on) out.add(Resource::Face, w.mr.face, 1, false, Slot::MatrixRead);
    if (w.alu.op != AluOp::None && w.alu.mask) out.add(Resource::Mask, w.alu.mask, 1, true, Slot::Alu);
    if (w.mask.mode != MaskMode::None)
        out.add(Resource::Mask, w.mask.entry, 1, false, w.alu.op != AluOp::None ? Slot::Alu : Slot::Mau);
}

int longest_gap(Resource r, Slot writer, const Config::Gaps &g) {
    return std::max({gap(r, writer, Slot::L1, g), gap(r, writer, Slot::L2, g), gap(r, writer, Slot::Mv, g)});
}

} // namespace kumiko::sim
