// The location of the words of a read, for four points of the reading stage.
#include "targets/chip/stage/chain.h"

#include "support/error.h"

#include <algorithm>
#include <fmt/format.h>

namespace kumiko::chip {

using namespace sim;

Operand words_at(const Config &config, Bank bank, const PointAddresses &at) {
    Operand o;
    int64_t below = 0;
    switch (bank) {
    case Bank::Grf0:
        o.source = Source::Grf0;
        break;
    case Bank::Grf1:
        o.source = Source::Grf1;
        break;
    case Bank::Lm1:
        o.source = Source::Lm1;
        break;
    default: // LM0 and LM1, numbered consecutively
        o.source = at[0] >= config.sizes.lm ? Source::Lm1 : Source::Lm0;
        below = at[0] >= config.sizes.lm ? config.sizes.lm : 0;
        for (const int64_t a : at) {
            if ((a >= config.sizes.lm) != (at[0] >= config.sizes.lm))
                throw Unsupported("four words that one operation reads cross the boundary between LM0 and LM1");
        }
    }
    const int64_t stride = at[1] - at[0];
    o.address.at = {uint16_t(at[0] - below), 0, 0, 0};
    o.address.stride = int16_t(stride);
    if (at[2] - at[1] == stride && at[3] - at[2] == stride) return o;
    o.address.listed = true;
    o.address.stride = 0;
    for (size_t t = 0; t < at.size(); t++) o.address.at[t] = uint16_t(at[t] - below);
    return o;
}

Chain::Group Chain::group(ChainStage &s, int64_t first) const {
    Group g;
    g.stage = &s;
    for (int t = 0; t < cycles_per_step; t++) {
        Values v(s.plan->loops().size(), 0);
        for (const size_t l : outer_) v[l] = outer_values_[l];
        if (&s == root_) { // after its last point, the first again
            for (const size_t l : tiles_) v[l] = outer_values_[l];
            int64_t point = (first + t) % s.points;
            s.set(v, point);
        } else {
            s.set(v, first + t);
        }
        g.values[size_t(t)] = std::move(v);
    }
    return g;
}

Values Chain::loader_values(const ChainRead &r, const Values &values) {
    size_t size = values.size();
    for (const auto &[own, path] : r.loops) size = std::max(size, path + 1);
    Values v(size, 0);
    for (const auto &[own, path] : r.loops) v[path] = values[own];
    return v;
}

Operand Chain::read_word(Group &g, int which, int part) {
    ChainRead &r = g.stage->reads[size_t(which)];
    if (r.from) return result_of(g, r, which, part);
    const TransferPath &path = r.loader->path();
    PointAddresses at;
    int64_t last = 0;
    for (size_t t = 0; t < at.size(); t++) {
        const int64_t index = path.index(loader_values(r, g.values[t]));
        last = std::max(last, index);
        at[t] = r.loader->base() + index * path.words() + part;
    }
    r.loader->need(last);
    return words_at(c_.config, Bank::Lm, at);
}

int Chain::lane_mask(int lane, int lanes) {
    // Entries 1 to 3: the 16-bit lanes after the first; 4: the second 32-bit lane.
    const int entry = lanes == 4 ? lane : 4;
    if (!lane_masks_[size_t(entry - 1)]) {
        const uint16_t nibble = lanes == 4 ? uint16_t(1 << lane) : 0xc;
        MicroOp m;
        Alu u;
        u.op = AluOp::SetMask;
        u.type = sim::Type::U16;
        u.mask = uint8_t(entry);
        u.a = m.read(immediate_i16(int16_t(nibble * 0x1111)));
        m.word().alu = u;
        c_.packer.place(m);
        lane_masks_[size_t(entry - 1)] = true;
    }
    return entry;
}

namespace {

// What the loops bound to one unit add to each index.
std::vector<int64_t> offsets_of_unit(const StagePlan &plan, const std::vector<Affine> &index, Tier tier, int unit) {
    Values v(plan.loops().size(), 0);
    const Values zero = v;
    plan.set_unit(v, tier, unit);
    std::vector<int64_t> offsets;
    for (const Affine &a : index) offsets.push_back(a.at(v) - a.at(zero));
    return offsets;
}

// The same for the loops over lanes.
std::vector<int64_t> offsets_of_lane(const StagePlan &plan, const std::vector<size_t> &lanes,
                                     const std::vector<Affine> &index, int64_t lane) {
    Values v(plan.loops().size(), 0);
    const Values zero = v;
    for (size_t i = lanes.size(); i-- > 0;) {
        v[lanes[i]] = lane % plan.loops()[lanes[i]].extent;
        lane /= plan.loops()[lanes[i]].extent;
    }
    std::vector<int64_t> offsets;
    for (const Affine &a : index) offsets.push_back(a.at(v) - a.at(zero));
    return offsets;
}

std::vector<int64_t> minus(std::vector<int64_t> a, const std::vector<int64_t> &b) {
    for (size_t d = 0; d < a.size(); d++) a[d] -= b[d];
    return a;
}

bool is_zero(const std::vector<int64_t> &offsets) {
    return std::all_of(offsets.begin(), offsets.end(), [](int64_t o) { return o == 0; });
}

} // namespace

Chain::Selection Chain::selection(const Group &g, const ChainRead &r) const {
    const ChainStage &from = *r.from;
    const StagePlan &plan = *g.stage->plan, &its = *from.plan;
    const TensorAccess own = its.own();
    Selection s;
    s.of_pe.assign(pes_per_mab, std::vector<int64_t>(own.index.size(), 0));
    for (int tier = 0; tier < level_count; tier++) {
        for (int u = 0; u < units_of(c_.config, Tier(tier)); u++) {
            const auto left = minus(offsets_of_unit(plan, r.access.index, Tier(tier), u),
                                    offsets_of_unit(its, own.index, Tier(tier), u));
            if (is_zero(left)) continue;
            if (Tier(tier) != Tier::Pe || its.parts(own, Tier::Pe) > 1)
                throw Unsupported(fmt::format("stage {} reads {} from other units of level {}; the chip's chains read "
                                              "values of the same unit, or values that all units have",
                                              g.stage->name, from.name, level_names[size_t(tier)]));
            s.by_pe = true;
            s.of_pe[size_t(u)] = left;
        }
    }
    const int lanes = lanes_per_word(from) * code_->parts(vector_type(from.type, from.name));
    for (int lane = 0; lane < lanes; lane++) {
        s.of_lane.push_back(minus(offsets_of_lane(plan, g.stage->lanes, r.access.index, lane),
                                  offsets_of_lane(its, from.lanes, own.index, lane)));
        if (is_zero(s.of_lane.back())) continue;
        bool distributed = false;
        for (const size_t l : from.lanes) distributed = distributed || own.depends(l);
        if (distributed) throw Unsupported("stage " + g.stage->name + " reads " + from.name + " from another lane");
        s.by_lane = true;
    }
    return s;
}

int Chain::lanes_per_word(const ChainStage &s) { return s.type.bits() == 16 ? 4 : 2; }

// The word of the stage's point that each cycle reads, if a unit and a lane read at these offsets.
Operand Chain::words_of_stage(const Group &g, const ChainRead &r, const std::vector<int64_t> &pe,
                              const std::vector<int64_t> &lane, int part) const {
    const ChainStage &from = *r.from;
    const StagePlan &its = *from.plan;
    const TensorAccess own = its.own();
    PointAddresses at;
    for (size_t t = 0; t < at.size(); t++) {
        Values v(its.loops().size(), 0);
        for (const size_t l : outer_) v[l] = outer_values_[l];
        for (size_t d = 0; d < own.index.size(); d++) {
            int64_t rest = r.access.index[d].at(g.values[t]) - own.index[d].at(v) + pe[d] + lane[d];
            std::vector<std::pair<int64_t, size_t>> steps;
            for (const size_t l : from.time) {
                if (own.index[d].depends(l)) steps.push_back({own.index[d].coefficients[l], l});
            }
            std::sort(steps.rbegin(), steps.rend());
            Values found = v;
            for (const auto &[step, l] : steps) {
                found[l] = std::clamp<int64_t>(rest / step, 0, its.loops()[l].extent - 1);
                rest -= found[l] * step;
            }
            if (rest != 0 && steps.empty())
                throw Unsupported("stage " + g.stage->name + " reads " + from.name + " beyond what its loops compute");
            for (const auto &[step, l] : steps) v[l] = found[l];
            // own.index of the axes to come does not depend on these loops
        }
        at[t] = from.at + from.index(v) * code_->parts(vector_type(from.type, from.name)) + part;
    }
    return words_at(c_.config, from.result_bank, at);
}

// Writes `a` to `to`; with `b`, only where the mask is set, and b elsewhere.
void Chain::select_words(sim::Type type, const Operand &a, const Operand *b, int mask, const Operand &to) {
    MicroOp m;
    Alu u;
    u.op = AluOp::Pass;
    u.type = type;
    u.a = m.read(a);
    if (b) { // a comes from the forward: both may be in one GRF
        m.word().alu = u;
        m.next();
        u.op = AluOp::Select;
        u.a = m.read(aluf());
        u.b = m.read(*b);
        m.word().mask.mode = MaskMode::Select;
        m.word().mask.entry = uint8_t(mask);
    }
    u.to = m.write(to);
    m.word().alu = u;
    c_.packer.place(m);
}

// A read of another stage's result. Unit and lane loops must contribute the same to the index in
// both stages. If the result is the same in all lanes or PEs, each selects the one that it needs.
Operand Chain::result_of(Group &g, const ChainRead &r, int which, int part) {
    if (const auto known = g.chosen.find(which); known != g.chosen.end()) {
        Operand o = known->second;
        o.address.at[0] = uint16_t(o.address.at[0] + part);
        return o;
    }
    const ChainStage &from = *r.from;
    const int parts = code_->parts(vector_type(from.type, from.name)), per_word = lanes_per_word(from);
    const Selection s = selection(g, r);
    if (!s.by_pe && !s.by_lane) return words_of_stage(g, r, s.of_pe[0], s.of_lane[0], part);
    const sim::Type type = vector_type(from.type, from.name);
    const int bank = from.result_bank == Bank::Grf1 ? 0 : 1; // the GRF that does not hold it
    const Operand both = code_->take(parts, bank), one = code_->take(1, bank);
    for (int word = 0; word < parts; word++) {
        Operand all = both;
        all.address.at[0] = uint16_t(all.address.at[0] + word);
        for (int p = 0; p < (s.by_pe ? pes_per_mab : 1); p++) {
            const Operand &to = p == 0 ? all : one;
            const auto lane = [&](int e) {
                return words_of_stage(g, r, s.of_pe[size_t(p)], s.of_lane[size_t(word * per_word + e)], word);
            };
            select_words(type, lane(0), nullptr, 0, to);
            for (int e = 1; e < per_word && s.by_lane; e++)
                select_words(type, lane(e), &to, lane_mask(e, per_word), to);
            if (p == 0) continue;
            select_words(type, one, &all, 16 + p, all);
        }
    }
    code_->give_back(one);
    g.chosen[which] = both;
    Operand o = both;
    o.address.at[0] = uint16_t(o.address.at[0] + part);
    return o;
}

void Chain::release(Group &g) {
    for (const auto &[key, registers] : g.chosen) code_->give_back(registers);
    g.chosen.clear();
}

} // namespace kumiko::chip
