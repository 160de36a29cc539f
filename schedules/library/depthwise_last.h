// Depthwise convolutions over NHWC images, whose channels are contiguous, with vectors along
// channels. The register tile has several pixels of a row, which share the weights of each tap. All
// taps of a filter row are unrolled.
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

struct DepthwiseLastParameters {
    BOOST_HANA_DEFINE_STRUCT(
        // pixels of a row in registers
        DepthwiseLastParameters, (Tile, pixels),
        // vectors of channels in registers
        (Tile, vectors),
        // outermost: "rows" of the image or blocks of "channels"
        (Choice, order),
        // padded copy "whole", per output "row", or none ("inline")
        (Choice, pad),
        // unroll the rows of the filter too
        (Flag, taps),
        // distribute rows, or blocks of channels, over cores
        (Flag, parallel));
};

bool is_depthwise_last(const Op &op);
DepthwiseLastParameters depthwise_last_parameters(const Op &op, const Machine &machine);
Schedule schedule_depthwise_last(const Op &op, const Machine &machine, const DepthwiseLastParameters &p);

} // namespace kumiko::library
