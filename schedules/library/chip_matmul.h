// Matrix products on the chip with all tensors row-major in DRAM. The reduction is distributed over
// the MABs. Columns of the result stay in LM as matrices: L1Bs hold pieces, L2Bs and groups hold
// parts. Rows stream as vectors, broadcast to all L1Bs of an L2B. An operand whose reduction axis
// is not contiguous is pre-packed so that it is (prepack).
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

// Parameters of schedule_chip_matmul().
struct ChipMatmulParameters {
    BOOST_HANA_DEFINE_STRUCT(ChipMatmulParameters, (Tile, vectors), // rows per tile
                             // 8-LW pieces of a result row per L1B
                             (Tile, pieces),
                             // groups, and L2Bs of each, for columns
                             (Tile, groups), (Tile, l2bs),
                             // double-buffer the columns
                             (Flag, twice),
                             // four neighbouring MABs divide columns, share a part of k
                             (Flag, sides),
                             // halves of the L1Bs divide k, all MABs divide columns
                             (Flag, halves));
};

bool is_chip_matmul(const Op &op); // fp16 operands, fp32 sums
// Whether some point of the space fits the machine's memories.
bool chip_matmul_fits(const Op &op, const Machine &machine);
ChipMatmulParameters chip_matmul_parameters(const Op &op, const Machine &machine);
Schedule schedule_chip_matmul(const Op &op, const Machine &machine, const ChipMatmulParameters &p);

// Estimated time in cycles: the maximum over matrix units, DRAM, L2BM ports and the L2 and L1
// slots, plus what cannot overlap. Infinite if the point does not fit the memories.
double chip_matmul_cycles(const Op &op, const Machine &machine, const ChipMatmulParameters &p);

} // namespace kumiko::library
