// Depthwise convolutions on the chip's vector units. Channels map to lanes, then to the PEs of a
// MAB, then to MABs. A tap is one fused multiply–add per lane; the sums of a tile stay in
// registers. Tiles of the image, with their halo, are in LM0, the taps in LM1.
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

struct ChipDepthwiseParameters {
    // the output tile
    BOOST_HANA_DEFINE_STRUCT(ChipDepthwiseParameters, (Tile, rows), (Tile, columns),
                             (Tile, mabs)); // MABs that divide channels; the others divide tiles
};

bool is_chip_depthwise(const Op &op); // fp16 operands, fp32 sums and a consumer; or fp32
ChipDepthwiseParameters chip_depthwise_parameters(const Op &op, const Machine &machine);
Schedule schedule_chip_depthwise(const Op &op, const Machine &machine, const ChipDepthwiseParameters &p);

} // namespace kumiko::library
