// Counts what a program does, in program order, without generating it: steps of each unit, words of
// each memory, moves; and the data-flow time, the time with unlimited units and ports (packer.h,
// Packing::Counted).
#pragma once

#include "sim/accesses.h"
#include "targets/chip/pack/units.h"

namespace kumiko::chip {

struct Tally {
    // Moves in one direction, between DRAM and L2BM.
    struct Moves {
        int64_t count = 0, indirect = 0;
        int64_t dram_words = 0, l2bm_words = 0; // LW, summed over the chip
        // Cycles for which they occupy DRAM, summed over all groups.
        int64_t cycles = 0;
    };

    int64_t operations = 0;
    std::array<int64_t, unit_count> busy{}; // steps
    std::array<int64_t, sim::l1_op_count> l1{};
    std::array<int64_t, sim::l2_op_count> l2{};
    // Steps of the MAU with arithmetic, without passes.
    int64_t matrix_f16 = 0, matrix_f32 = 0, vector_f16 = 0, vector_f32 = 0;
    // Rotations of values among the PEs of a MAB.
    int64_t rotations = 0;
    // LW read and written, of one memory of each kind.
    std::array<std::array<int64_t, 2>, sim::resource_count> words{};
    Moves loads, stores;
    int64_t reducing_moves = 0;
    std::array<int64_t, 16> dram_cycles{}; // of each group
    // Changes of direction between consecutive moves, in program order.
    int64_t turns = 0;
    // Steps until everything is done, if each operation starts once its data is ready.
    int64_t flow = 0;

    // A word in that step, with its units and accesses.
    void add(const sim::Word &word, uint32_t units, const sim::Accesses &accesses, int64_t step);
    void add(const sim::Mv &move, const sim::Config &config);
    // The step at which a move issued at `step` completes if its groups are otherwise idle.
    static int64_t done(const sim::Mv &move, int64_t step, const sim::Config &config);
    // The busy steps of the busiest unit or port, and the busy cycles of the busiest DRAM.
    int64_t busiest() const;
    int64_t dram() const;

private:
    int direction_ = 0; // of the last move
};

} // namespace kumiko::chip
