#include "targets/chip/pack/tally.h"

#include "sim/move_times.h"
#include "sim/operations.h"

#include <algorithm>
#include <bit>

namespace kumiko::chip {

using sim::Mv;

void Tally::add(const sim::Word &w, uint32_t units, const sim::Accesses &accesses, int64_t step) {
    flow = std::max(flow, step + 1);
    for (uint32_t left = units; left; left &= left - 1) busy[size_t(std::countr_zero(left))]++;
    l1[size_t(w.l1.op)]++;
    l2[size_t(w.l2.op)]++;
    rotations += w.alu.op == sim::AluOp::Rotate;
    for (const sim::Access &a : accesses) words[size_t(a.resource)][a.write] += int64_t(a.width) * a.count;
    if (w.mau.op == sim::MauOp::None || w.mau.op == sim::MauOp::Pass) return;
    const bool matrix = info(w.mau.op).matrix, half = w.mau.precision == sim::Type::F16;
    (matrix ? half ? matrix_f16 : matrix_f32 : half ? vector_f16 : vector_f32)++;
}

void Tally::add(const Mv &m, const sim::Config &config) {
    operations++;
    const bool load = is_load(m);
    Moves &all = load ? loads : stores;
    const sim::MoveDemand demand = demand_of(m, config);
    const int64_t n = words_of(m, config), cycles = demand.cycles;
    const int groups = std::popcount(demand.groups);
    int l2bs = 0; // participating L2Bs
    for (int g = 0; g < config.groups; g++) {
        const uint32_t own = ((1u << config.l2bs) - 1) << (g * config.l2bs);
        if (m.chip || m.groups >> g & 1) l2bs += std::popcount(m.l2bs & own);
    }
    all.count++;
    all.indirect += m.indirect;
    all.dram_words += n * groups;
    all.l2bm_words += info(m.op).distributes ? n * groups : n * l2bs;
    all.cycles += cycles * groups;
    reducing_moves += info(m.op).reduces;
    for (uint32_t left = demand.groups; left; left &= left - 1) dram_cycles[size_t(std::countr_zero(left))] += cycles;
    const int direction = load ? 1 : 2;
    turns += direction_ && direction != direction_;
    direction_ = direction;
}

int64_t Tally::done(const Mv &m, int64_t step, const sim::Config &config) {
    const int64_t cycles = config.moves.dram_start + demand_of(m, config).cycles;
    return step + (cycles + sim::cycles_per_step - 1) / sim::cycles_per_step;
}

int64_t Tally::busiest() const {
    const auto of = [&](Unit u) { return busy[size_t(u)]; };
    int64_t most = 0;
    for (const Unit u : {Unit::L2, Unit::L1, Unit::Mw, Unit::Mr, Unit::Mau, Unit::Alu, Unit::Mask, Unit::Grf0Read,
                         Unit::Grf0Write, Unit::Grf1Read, Unit::Grf1Write, Unit::TRead, Unit::TWrite})
        most = std::max(most, of(u));
    most = std::max({most, of(Unit::Lm0Read) + of(Unit::Lm0Write), of(Unit::Lm1Read) + of(Unit::Lm1Write)});
    // Two of the three at a time.
    return std::max(most, (of(Unit::Mau) + of(Unit::Mw) + of(Unit::Mr) + 1) / 2);
}

int64_t Tally::dram() const { return *std::max_element(dram_cycles.begin(), dram_cycles.end()); }

} // namespace kumiko::chip
