// Convolutions on the chip's matrix units: 16 output channels (of f32: 8) are the rows of a matrix, 16 input channels its columns, pixels its vectors,
// for each tap of the window. MABs have tiles of the image, with the halo that their windows reach into; matrices stream through L1BM, the
// same for all MABs of an L1B. L1Bs, L2Bs and groups divide output channels or tiles. The host packs image and weights in the order of their
// use, and unpacks the result.
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

struct ChipConvParameters {
    BOOST_HANA_DEFINE_STRUCT(ChipConvParameters, (Tile, rows), (Tile, columns), // of the output, of a tile
                             (Tile, blocks),             // matrices of 16 output channels of a tile
                             (Tile, depth),              // of 16 input channels in one copy of weights
                             (Tile, groups),             // so many groups divide output channels; the others tiles
                             (Tile, l2bs), (Tile, l1bs), // the same of a group's L2Bs, of an L2B's L1Bs
                             (Choice, image),            // copied to LM for a "tile", or by "channels", a window's
                                                         // "row" or its "tap"
                             (Choice, weights),          // copied to L1BM by "channels", "row" or "tap"
                             (Flag, write_back));        // results leave under the next tile's work
};

bool is_chip_conv(const Op &op); // fp16 or fp32 operands, fp32 sums; dense or in groups
ChipConvParameters chip_conv_parameters(const Op &op, const Machine &machine);
Schedule schedule_chip_conv(const Op &op, const Machine &machine, const ChipConvParameters &p);

// About how long it takes, in cycles; infinite where it does not fit.
double chip_conv_cycles(const Op &op, const Machine &machine, const ChipConvParameters &p);

} // namespace kumiko::library
