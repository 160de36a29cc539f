// Convolutions on the chip's matrix units, one matrix product per tap of the window. A matrix has
// 16 output channels as rows and 16 input channels as columns (8 × 8 for f32); pixels are its
// vectors. Each MAB holds a tile of the image with the halo of its windows. Weights stream through
// L1BM as matrices, broadcast to all MABs of an L1B. L1Bs, L2Bs and groups divide output channels
// or tiles. The host packs image and weights in consumption order and unpacks the result.
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

struct ChipConvParameters {
    BOOST_HANA_DEFINE_STRUCT(ChipConvParameters, (Tile, rows), (Tile, columns), // the output tile
                             // 16-channel output matrices per tile
                             (Tile, blocks),
                             // 16-channel input steps per weight copy
                             (Tile, depth),
                             // groups that divide output channels
                             (Tile, groups),
                             // same: L2Bs per group, L1Bs per L2B
                             (Tile, l2bs), (Tile, l1bs),
                             // the image is copied to LM per "tile" or, inside it, per "channels",
                             // window "row" or "tap"
                             (Choice, image),
                             // weights are copied to L1BM per "channels", window "row" or "tap"
                             (Choice, weights),
                             // store results during the next tile
                             (Flag, write_back));
};

bool is_chip_conv(const Op &op); // fp16 or fp32 operands, fp32 sums; dense or in groups
ChipConvParameters chip_conv_parameters(const Op &op, const Machine &machine);
Schedule schedule_chip_conv(const Op &op, const Machine &machine, const ChipConvParameters &p);

// Estimated time in cycles; infinite if the point does not fit the memories.
double chip_conv_cycles(const Op &op, const Machine &machine, const ChipConvParameters &p);

} // namespace kumiko::library
