// Copies with another last axis on the simulated chip: matrices transposed, axes permuted. Elements change places in the matrix units, 16 × 16 (8 × 8
// of 32 bits) at a time, on their way from DRAM to DRAM.
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

struct ChipTransposeParameters {
    BOOST_HANA_DEFINE_STRUCT(ChipTransposeParameters, (Tile, run)); // elements of a row of the input in a MAB at a time
};

// One stage, which reads an input at all its axes in another order, with another one last.
bool is_chip_transpose(const Op &op);
ChipTransposeParameters chip_transpose_parameters(const Op &op, const Machine &machine);
Schedule schedule_chip_transpose(const Op &op, const Machine &machine, const ChipTransposeParameters &p);

} // namespace kumiko::library
