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

// Whether the stage is a scatter of which each step may visit the one element that its index names.
bool visits_elements(const Stage &stage);
// Elements of the last axis that one pass over the steps fills, so that each thread has some.
int64_t columns_together(const Stage &stage, const Machine &machine);
// The loops of such a stage: the steps in order, for each `block` of the last axis, in vectors.
// `parallel`: blocks are spread over cores.
void visit_elements(Schedule &s, const Stage &stage, int64_t block, bool parallel);

} // namespace kumiko::library
