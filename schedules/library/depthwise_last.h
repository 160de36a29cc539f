// Convolutions of each channel with filters of its own, over images whose channels follow each other (NHWC): vectors of channels, a
// register tile of several pixels of a row, which share the weights of each tap; all taps of a row of the filter are copies.
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

struct DepthwiseLastParameters {
    BOOST_HANA_DEFINE_STRUCT(
        DepthwiseLastParameters, (Tile, pixels), // of a row, in registers
        (Tile, vectors),                         // of channels, in registers
        (Choice, order),                         // which is outside: "rows" of the image or blocks of "channels"
        (Choice, pad),     // the padded image is made "whole", for each "row" of the output, or not at all ("inline")
        (Flag, taps),      // the rows of the filter are copies too
        (Flag, parallel)); // spread rows, or blocks of channels, over cores
};

bool is_depthwise_last(const Op &op);
DepthwiseLastParameters depthwise_last_parameters(const Op &op, const Machine &machine);
Schedule schedule_depthwise_last(const Op &op, const Machine &machine, const DepthwiseLastParameters &p);

} // namespace kumiko::library
