// Transposes and axis permutations on the simulated chip: copies with another last axis. The matrix
// units transpose 16 × 16 elements (8 × 8 of 32 bits) at a time, from DRAM to DRAM.
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

struct ChipTransposeParameters {
    // elements of an input row per MAB
    BOOST_HANA_DEFINE_STRUCT(ChipTransposeParameters, (Tile, run));
};

// Whether the op is one stage that reads an input at a permutation of its axes, with another one
// last.
bool is_chip_transpose(const Op &op);
ChipTransposeParameters chip_transpose_parameters(const Op &op, const Machine &machine);
Schedule schedule_chip_transpose(const Op &op, const Machine &machine, const ChipTransposeParameters &p);

} // namespace kumiko::library
