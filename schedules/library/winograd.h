// Convolutions by minimal filtering, with any pointwise epilogue (ops/conv.h, winograd_conv2d).
// Blocks of tile rows of the image are transformed, multiplied in vectors of filters, and
// transformed back while they are in cache.
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

// Parameters of schedule_winograd().
struct WinogradParameters {
    // tiles whose products are summed in registers
    BOOST_HANA_DEFINE_STRUCT(WinogradParameters, (Tile, tiles),
                             // vectors of filters in registers
                             (Tile, vectors),
                             // tile rows that go through all steps together
                             (Tile, rows),
                             // zeros around the image: padded copy "whole", or "inline"
                             (Choice, pad),
                             // weights "transformed" by the kernel or "ahead" of it
                             (Choice, weights),
                             // distribute blocks of rows over cores
                             (Flag, parallel));
};

// Whether the op consists of the stages of such a convolution, recognised by their structure
// (winograd_roles.h).
bool is_winograd(const Op &op);
WinogradParameters winograd_parameters(const Op &op, const Machine &machine);
Schedule schedule_winograd(const Op &op, const Machine &machine, const WinogradParameters &p);

} // namespace kumiko::library
