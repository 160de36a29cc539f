// Direct convolutions over images, sequences or volumes: dense, depthwise, and transposed by
// phases. The register tile spans output channels, rows and a run of the contiguous axis. The
// padded image is copied once, so that the tile tests no border.
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

// Parameters of schedule_conv().
struct ConvParameters {
    BOOST_HANA_DEFINE_STRUCT(ConvParameters,
                             // output channels (NHWC: columns of the image) in registers
                             (Tile, channels),
                             // rows of the image in registers
                             (Tile, image_rows),
                             // vectors along the contiguous axis in registers
                             (Tile, vectors),
                             // axis of the outermost loop: "rows" or "channels"
                             (Choice, outer),
                             // padded copy "whole", per "channel" or none ("inline")
                             (Choice, pad),
                             // copy the weights into reading order
                             (Flag, pack_weights),
                             // "none", "kx" or "ky kx" of the window, or four "channels"
                             (Choice, unroll),
                             // distribute the outermost loop over cores
                             (Flag, parallel));
};

bool is_conv(const Op &op);
ConvParameters conv_parameters(const Op &op, const Machine &machine);
Schedule schedule_conv(const Op &op, const Machine &machine, const ConvParameters &p);

} // namespace kumiko::library
