// Direct convolutions, dense and depthwise, over images, sequences or volumes, and transposed ones by phases: a register tile over
// output channels, rows and a run of the contiguous axis; the padded image copied once so that the tile tests no border.
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

struct ConvParameters {
    BOOST_HANA_DEFINE_STRUCT(ConvParameters,
                             (Tile, channels),   // output channels (NHWC: columns of the image) in registers
                             (Tile, image_rows), // rows of the image in registers
                             (Tile, vectors),    // vectors along the contiguous axis in registers
                             (Choice, outer),    // what the outermost loop steps through: "rows" or "channels"
                             (Choice, pad), // the padded image is made "whole", per "channel", or not at all ("inline")
                             (Flag, pack_weights), // copy the weights into reading order
                             (Choice, unroll),     // "none", "kx" or "ky kx" of the window, or four "channels"
                             (Flag, parallel));    // spread the outermost loop over cores
};

bool is_conv(const Op &op);
ConvParameters conv_parameters(const Op &op, const Machine &machine);
Schedule schedule_conv(const Op &op, const Machine &machine, const ConvParameters &p);

} // namespace kumiko::library
