// Convolutions by minimal filtering (ops/conv.h, winograd_conv2d): blocks of tile rows of the image are transformed, multiplied in
// vectors of filters, and transformed back, while they are in the caches.
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

struct WinogradParameters {
    BOOST_HANA_DEFINE_STRUCT(WinogradParameters, (Tile, tiles), // whose products are summed in registers side by side
                             (Tile, vectors),                   // vectors of filters in registers
                             (Tile, rows),                      // rows of tiles that go through all steps together
                             (Choice, pad), // zeros around the image: a padded copy "whole"; or "inline", as it is read
                             (Choice, weights), // transformed by the kernel: "transformed"; or "ahead" of it
                             (Flag, parallel)); // spread blocks of rows over cores
};

bool is_winograd(const Op &op);
WinogradParameters winograd_parameters(const Op &op, const Machine &machine);
Schedule schedule_winograd(const Op &op, const Machine &machine, const WinogradParameters &p);

} // namespace kumiko::library
