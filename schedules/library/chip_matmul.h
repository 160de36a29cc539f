// Products of matrices on the chip, all tensors row-major in DRAM. The reduction is dealt to the MABs; columns of the result stay in
// LM as matrices, in pieces over the L1Bs and parts over L2Bs and groups; rows stream as vectors, the same for all L1Bs of an L2B. An
// operand in which the reduction is not contiguous is laid so ahead of time (prepack).
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

struct ChipMatmulParameters {
    BOOST_HANA_DEFINE_STRUCT(ChipMatmulParameters, (Tile, vectors), // rows of a tile
                             (Tile, pieces),                        // of 8 LW of a row of the result, of each L1B
                             (Tile, groups), (Tile, l2bs), // so many groups, of each so many L2Bs, divide columns
                             (Flag, twice),                // the next columns come while these are used
                             (Flag, sides),   // four neighbouring MABs have columns of their own and the same part of k
                             (Flag, halves)); // halves of the L1Bs have parts of k, all MABs columns of their own
};

bool is_chip_matmul(const Op &op); // fp16 operands, fp32 sums
// Some point of the space fits the machine's memories.
bool chip_matmul_fits(const Op &op, const Machine &machine);
ChipMatmulParameters chip_matmul_parameters(const Op &op, const Machine &machine);
Schedule schedule_chip_matmul(const Op &op, const Machine &machine, const ChipMatmulParameters &p);

// About how long it takes, in cycles: the busiest of matrix units, DRAM, L2BM's ports, the L2 and L1 slots, with what cannot overlap.
// Infinite where it does not fit.
double chip_matmul_cycles(const Op &op, const Machine &machine, const ChipMatmulParameters &p);

} // namespace kumiko::library
