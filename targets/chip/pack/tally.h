// What a program does, counted in program order while none is made: steps of each unit, words of each memory, moves; and the time
// that its data alone would take, if there were units and ports enough (packer.h, Packing::Counted).
#pragma once

#include "targets/chip/pack/micro.h"

namespace kumiko::chip {

constexpr int unit_count = int(Unit::F32) + 1;

struct Tally {
    // Moves in one direction, between DRAM and L2BM.
    struct Moves {
        int64_t count = 0, indirect = 0;
        int64_t dram_words = 0, l2bm_words = 0; // LW, over the chip
        int64_t cycles = 0;                     // in which they keep a group's DRAM busy, all groups together
    };

    int64_t operations = 0;
    std::array<int64_t, unit_count> busy{}; // steps
    std::array<int64_t, sim::l1_op_count> l1{};
    std::array<int64_t, sim::l2_op_count> l2{};
    int64_t matrix_f16 = 0, matrix_f32 = 0, vector_f16 = 0,
            vector_f32 = 0;                                  // steps of the MAU; passes are no arithmetic
    int64_t rotations = 0;                                   // of values among the PEs of a MAB
    std::array<std::array<int64_t, 2>, space_count> words{}; // LW read, written, of one memory of each kind
    Moves loads, stores;
    int64_t reducing_moves = 0;
    std::array<int64_t, 16> dram_cycles{}; // of each group
    int64_t turns = 0;                     // changes of direction between moves, in program order
    int64_t flow = 0;                      // steps until all is done, each operation as soon as its data is there

    void add(const Micro &micro, int64_t step);
    void add(const sim::Mv &move, const sim::Config &config);
    // The steps after which a move that is issued at `step` is complete, when its groups have nothing else to do.
    static int64_t done(const sim::Mv &move, int64_t step, const sim::Config &config);
    // Steps that the busiest unit, or port, works; cycles of the busiest DRAM.
    int64_t busiest() const;
    int64_t dram() const;

private:
    int direction_ = 0; // of the last move
};

} // namespace kumiko::chip
