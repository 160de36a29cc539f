// Convolutions of each channel for itself on the chip's vectors: channels are the lanes, the PEs of a MAB, then MABs; one fused multiply–add
// a lane for each tap, with sums of a tile in registers. Tiles of the image, with their halo, and the taps stand in LM0 and LM1.
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

struct ChipDepthwiseParameters {
    BOOST_HANA_DEFINE_STRUCT(ChipDepthwiseParameters, (Tile, rows), (Tile, columns), // of the output, of a tile
                             (Tile, mabs)); // that divide channels; the others tiles
};

bool is_chip_depthwise(const Op &op); // fp16 operands, fp32 sums and a stage that finishes them; or fp32
ChipDepthwiseParameters chip_depthwise_parameters(const Op &op, const Machine &machine);
Schedule schedule_chip_depthwise(const Op &op, const Machine &machine, const ChipDepthwiseParameters &p);

} // namespace kumiko::library
