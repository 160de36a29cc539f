// Products of matrices on the chip, with both operands packed ahead of time in the order in which the chip takes them (prepack), and
// the result unpacked likewise: for reductions so long that columns do not fit LM (chip_matmul.h has the rest). Rows of the one operand are dealt to MABs as vectors of their matrix units and stay in LM; the
// other operand streams through as matrices, the same for all MABs of an L1B. Sums of a tile stay in one GRF while the tile before
// leaves from the other.
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

struct ChipPackedMatmulParameters {
    BOOST_HANA_DEFINE_STRUCT(ChipPackedMatmulParameters, (Tile, vectors), // rows of a MAB: vectors of one matrix
                             (Tile, columns),            // matrices of 16 columns (of f32: 8) of a tile of sums
                             (Tile, depth),              // matrices along the reduction in one copy in L1BM
                             (Tile, panel),              // such copies in one of L2BM; 0: they only pass through
                             (Tile, groups),             // so many groups share rows and divide columns
                             (Tile, l2bs), (Tile, l1bs), // the same of a group's L2Bs, of an L2B's L1Bs
                             (Flag, resident),           // rows' vectors stay for all columns; else they pass by panels
                             (Flag, write_back));        // results leave under the next tile's work
};

bool is_chip_packed_matmul(const Op &op); // fp16 or fp32 operands, fp32 sums
ChipPackedMatmulParameters chip_packed_matmul_parameters(const Op &op, const Machine &machine);
Schedule schedule_chip_packed_matmul(const Op &op, const Machine &machine, const ChipPackedMatmulParameters &p);

// About how long it takes, in cycles: the busiest of matrix units, DRAM, L2BM's ports, the L2 and L1 slots, with what cannot overlap.
double chip_packed_matmul_cycles(const Op &op, const Machine &machine, const ChipPackedMatmulParameters &p);

} // namespace kumiko::library
