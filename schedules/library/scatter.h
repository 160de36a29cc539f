// Scatters: each step adds a row to the row that its index selects. Vectors run along the last
// axis; cores divide it into blocks.
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

// Parameters of schedule_scatter().
struct ScatterParameters {
    // of the last axis, per pass over the steps
    BOOST_HANA_DEFINE_STRUCT(ScatterParameters, (Tile, block),
                             // distribute blocks over cores
                             (Flag, parallel));
};

bool is_scatter(const Op &op);
ScatterParameters scatter_parameters(const Op &op, const Machine &machine);
Schedule schedule_scatter(const Op &op, const Machine &machine, const ScatterParameters &p);

// Whether the stage is a scatter in which each step may visit only the element that its index
// selects.
bool visits_elements(const Stage &stage);
// Elements of the last axis per pass over the steps, such that each thread has some.
int64_t columns_together(const Stage &stage, const Machine &machine);
// Schedules such a stage: for each `block` of the last axis, the steps in order, in vectors.
// `parallel`: blocks are distributed over cores.
void visit_elements(Schedule &s, const Stage &stage, int64_t block, bool parallel);

} // namespace kumiko::library
