// Reductions of a chain over units: the tree combines the values of MABs, L1Bs, L2Bs and groups and
// broadcasts the results.
#include "targets/chip/stage/chain_folding.h"

#include "support/error.h"

#include <fmt/format.h>

namespace kumiko::chip {

using namespace sim;

// The first word of a pair with its 32-bit lanes swapped; the second one is overwritten. Halves are
// narrowed into a word in which they can be shifted past each other.
Operand Chain::swapped_lanes(const Operand &pair) {
    const Operand halves = code_->take(2, 1), result = code_->take(1, 1);
    alu(AluOp::Shr, sim::Type::U32, pair, immediate_i32(16), next_word(pair, 1));
    // Low 0, low 1, high 0, high 1.
    alu(AluOp::Narrow, sim::Type::I32, pair, std::nullopt, next_word(halves, 1));
    alu(AluOp::Shr, sim::Type::U32, next_word(halves, 1), immediate_i32(16), halves);
    // Low 1, high 1, low 0, high 0.
    alu(AluOp::Narrow, sim::Type::I32, halves, std::nullopt, result);
    code_->give_back(halves);
    return result;
}

void Chain::over_units(const ChainStage &s, const Folding &f, const std::vector<Operand> &values,
                       const std::function<void(size_t, uint32_t, int64_t)> &arrived) {
    const StagePlan &plan = *s.plan;
    const TensorAccess own = plan.own();
    bool l1bs = false, l2bs = false;
    for (size_t l = plan.first_own(); l < plan.loops().size(); l++) {
        const PlannedLoop &p = plan.loops()[l];
        if (!p.reduction || p.kind != PlannedLoop::Kind::Unit || p.extent == 1) continue;
        l1bs = l1bs || p.level <= Tier::L1b;
        l2bs = l2bs || p.level <= Tier::L2b;
    }
    if (f.kind == "product")
        throw Unsupported("stage " + s.name +
                          " reduces by product over units; the tree reduces by sum, maximum and minimum");
    // For each part, the units that share a result.
    const auto sets = [&](Tier tier, bool all) {
        std::vector<uint32_t> sets(size_t(plan.parts(own, tier)));
        for (int u = 0; u < (all ? units_of(c_.config, tier) : int(plan.used(tier))); u++)
            sets[size_t(plan.part(own, tier, u))] |= 1u << u;
        return sets;
    };
    const auto from_mabs = sets(Tier::Mab, false), to_mabs = sets(Tier::Mab, true), from_l1bs = sets(Tier::L1b, false),
               to_l1bs = sets(Tier::L1b, true);
    const int64_t step = pes_per_mab * cycles_per_step; // words of a value in L1BM
    // The number of values that L2 transfers at a time.
    const size_t together = l1bs ? size_t(64 / step) : size_t(1);
    for (size_t first = 0; first < values.size(); first += together) {
        for (size_t q = 0; q < from_mabs.size(); q++) {
            const int64_t l1bm = tree_l1bm_.next(step * int64_t(together));
            for (size_t i = 0; i < together; i++) { // fill words must be defined
                MicroOp m;
                L1 l1;
                l1.op = L1Op::MabReduce;
                l1.reduction = f.tree();
                l1.mabs = from_mabs[q];
                l1.at.at = uint16_t(l1bm + int64_t(i) * step);
                l1.from = m.read(values[std::min(first + i, values.size() - 1)]);
                m.word().l1 = l1;
                c_.packer.place(m);
            }
            for (size_t r = 0; l1bs && r < from_l1bs.size(); r++) {
                const int64_t l2bm = tree_l2bm_.next(64);
                for (const bool up : {true, false}) {
                    if (!up && l2bs) over_l2bs(s, f, l2bm);
                    MicroOp m;
                    L2 l2;
                    l2.op = up ? L2Op::Reduce : L2Op::Broadcast;
                    l2.reduction = f.tree();
                    const uint32_t set = up ? from_l1bs[r] : to_l1bs[r];
                    if (set != (1u << c_.config.l1bs) - 1) l2.l1bs = set;
                    l2.l2bm.at = uint16_t(l2bm);
                    l2.l1bm.at = uint16_t(l1bm);
                    m.word().l2 = l2;
                    c_.packer.place(m);
                }
            }
            for (size_t i = 0; i < together && first + i < values.size(); i++)
                arrived(first + i, to_mabs[q], l1bm + int64_t(i) * step);
        }
    }
}

// Reduces 64 LW of L2BM over the L2Bs that share a result: via DRAM, and back to all of them.
void Chain::over_l2bs(const ChainStage &s, const Folding &f, int64_t l2bm) {
    const StagePlan &plan = *s.plan;
    const TensorAccess own = plan.own();
    const int per_group = c_.config.l2bs, groups = c_.config.groups;
    struct Set {
        uint32_t from = 0, to = 0;
    };
    std::map<std::pair<int64_t, int64_t>, Set> sets;
    for (int u = 0; u < c_.config.total_l2bs(); u++) {
        const int g = u / per_group, l = u % per_group;
        Set &set = sets[{plan.part(own, Tier::Group, g), plan.part(own, Tier::L2b, l)}];
        set.to |= 1u << u;
        if (g < plan.used(Tier::Group) && l < plan.used(Tier::L2b)) set.from |= 1u << u;
    }
    std::vector<Mv> up, down;
    for (const auto &[part, set] : sets) {
        const size_t n = up.size(), group = n % size_t(groups), slot = n / size_t(groups);
        if (slot == tree_dram_.size())
            tree_dram_.push_back(c_.planner.take(Bank::Dram, c_.config.moves.block, "sums over L2Bs"));
        Mv m;
        m.op = MvOp::Reduce;
        m.reduction = f.tree();
        m.chip = true;
        m.groups = uint16_t(1u << group);
        m.l2bs = set.from;
        m.address = uint32_t(tree_dram_[slot]);
        m.l2bm = uint16_t(l2bm);
        up.push_back(m);
        m.op = MvOp::Broadcast;
        m.reduction = {};
        m.l2bs = set.to;
        down.push_back(m);
    }
    tree_done_ = c_.packer.place(down, c_.packer.place(up, tree_done_));
}

} // namespace kumiko::chip
