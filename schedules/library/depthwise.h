// Depthwise convolutions over NCHW images, whose rows are contiguous, with vectors along a row. The
// register tile has several rows, which share the rows of the image. All taps of a filter are
// unrolled, and padding is a mask.
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

// Parameters of schedule_depthwise().
struct DepthwiseParameters {
    BOOST_HANA_DEFINE_STRUCT(
        // rows of the output in registers
        DepthwiseParameters, (Tile, image_rows),
        // order: "taps", each tap for all rows; "lines", each row of the window, and its taps for
        // one output row after another; "rows", all taps of one output row after another
        // pad: padded copy "whole", per "channel", or none ("inline")
        (Choice, order), (Choice, pad),
        // channels per task
        (Tile, channels),
        // distribute channels over cores
        (Flag, parallel));
};

bool is_depthwise(const Op &op);
DepthwiseParameters depthwise_parameters(const Op &op, const Machine &machine);
Schedule schedule_depthwise(const Op &op, const Machine &machine, const DepthwiseParameters &p);

} // namespace kumiko::library
