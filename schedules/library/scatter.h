// Scatters: each step adds a row to the row that its index names, in vectors along the last axis, of which cores take blocks each.
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

struct ScatterParameters {
    BOOST_HANA_DEFINE_STRUCT(ScatterParameters, (Tile, block), // of the last axis, that one pass over the steps fills
                             (Flag, parallel));                // spread blocks over cores
};

bool is_scatter(const Op &op);
ScatterParameters scatter_parameters(const Op &op, const Machine &machine);
Schedule schedule_scatter(const Op &op, const Machine &machine, const ScatterParameters &p);

} // namespace kumiko::library
