// Matrix products on the chip for reductions so long that columns do not fit LM (chip_matmul.h
// handles the others). Both operands are pre-packed in consumption order (prepack); the host
// unpacks the result. Rows of one operand are distributed over MABs as vectors of their matrix
// units and stay in LM. The other operand streams through as matrices, broadcast to all MABs of an
// L1B. The sums of a tile stay in one GRF while the previous tile drains from the other.
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

// Parameters of schedule_chip_packed_matmul().
struct ChipPackedMatmulParameters {
    BOOST_HANA_DEFINE_STRUCT(ChipPackedMatmulParameters, (Tile, vectors), // vectors (rows) per MAB
                             // 16-column (f32: 8) matrices per tile
                             (Tile, columns),
                             // matrices along k per copy in L1BM
                             (Tile, depth),
                             // such copies per L2BM copy; 0: no L2BM copy
                             (Tile, panel),
                             // groups that share rows, divide columns
                             (Tile, groups),
                             // same: L2Bs per group, L1Bs per L2B
                             (Tile, l2bs), (Tile, l1bs),
                             // keep the row vectors in LM for all columns
                             (Flag, resident),
                             // store results during the next tile
                             (Flag, write_back));
};

bool is_chip_packed_matmul(const Op &op); // fp16 or fp32 operands, fp32 sums
ChipPackedMatmulParameters chip_packed_matmul_parameters(const Op &op, const Machine &machine);
Schedule schedule_chip_packed_matmul(const Op &op, const Machine &machine, const ChipPackedMatmulParameters &p);

// Estimated time in cycles: the maximum over matrix units, DRAM, L2BM ports and the L2 and L1
// slots, plus what cannot overlap. Infinite if the point does not fit the memories.
double chip_packed_matmul_cycles(const Op &op, const Machine &machine, const ChipPackedMatmulParameters &p);

} // namespace kumiko::library
