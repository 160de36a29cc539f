// Convolutions of each channel with filters of its own, over images of rows that follow each other (NCHW), in vectors along a row: a
// register tile of several rows, which share the rows of the image; all taps of a filter are copies, and padding is a mask.
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

struct DepthwiseParameters {
    BOOST_HANA_DEFINE_STRUCT(
        DepthwiseParameters, (Tile, image_rows), // rows of the output in registers
        // "taps": each tap for all rows; "lines": each row of the window, its taps for one row of the
        // output after another; "rows": all taps of one row after another
        (Choice, order), (Choice, pad), // the padded image is made "whole", per "channel", or not at all ("inline")
        (Tile, channels),               // channels of one task
        (Flag, parallel));              // spread channels over cores
};

bool is_depthwise(const Op &op);
DepthwiseParameters depthwise_parameters(const Op &op, const Machine &machine);
Schedule schedule_depthwise(const Op &op, const Machine &machine, const DepthwiseParameters &p);

} // namespace kumiko::library
