#include "targets/chip/pack/tally.h"

#include "targets/chip/pack/move_times.h"

#include <algorithm>
#include <bit>

namespace kumiko::chip {

using sim::Mv;
using sim::MvOp;

void Tally::add(const Micro &m, int64_t step) {
    operations++;
    flow = std::max(flow, step + m.parts());
    for (int p = 0; p < m.parts(); p++) {
        for (uint32_t left = m.uses(p); left; left &= left - 1) busy[size_t(std::countr_zero(left))]++;
        const sim::Word &w = m.word(p);
        l1[size_t(w.l1.op)]++;
        l2[size_t(w.l2.op)]++;
        rotations += w.alu.op == sim::AluOp::Rotate;
        if (w.mau.op == sim::MauOp::None || w.mau.op == sim::MauOp::Pass) continue;
        const bool matrix = w.mau.op == sim::MauOp::Mfma || w.mau.op == sim::MauOp::Mmul,
                   half = w.mau.precision == sim::Type::F16;
        (matrix ? half ? matrix_f16 : matrix_f32 : half ? vector_f16 : vector_f32)++;
    }
    for (const Touch &t : m.touches()) words[size_t(t.space)][t.write] += int64_t(t.width) * t.times;
}

void Tally::add(const Mv &m, const sim::Config &config) {
    operations++;
    const bool load = is_load(m), dealt = m.op == MvOp::Scatter || m.op == MvOp::Gather;
    Moves &all = load ? loads : stores;
    const int64_t n = words_of(m, config), cycles = cycles_of(m, config);
    const uint16_t there = uint16_t((1u << config.groups) - 1);
    const int groups = std::popcount(uint16_t(m.groups & there));
    int l2bs = 0; // participating L2Bs
    for (int g = 0; g < config.groups; g++) {
        const uint32_t own = ((1u << config.l2bs) - 1) << (g * config.l2bs);
        if (m.chip || m.groups >> g & 1) l2bs += std::popcount(m.l2bs & own);
    }
    all.count++;
    all.indirect += m.indirect;
    all.dram_words += n * groups;
    all.l2bm_words += dealt ? n * groups : n * l2bs;
    all.cycles += cycles * groups;
    reducing_moves += m.op == MvOp::Reduce || m.op == MvOp::ReduceTo;
    for (uint32_t left = m.groups & there; left; left &= left - 1)
        dram_cycles[size_t(std::countr_zero(left))] += cycles;
    const int direction = load ? 1 : 2;
    turns += direction_ && direction != direction_;
    direction_ = direction;
}

int64_t Tally::done(const Mv &m, int64_t step, const sim::Config &config) {
    const int64_t cycles = config.moves.dram_start + cycles_of(m, config);
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
