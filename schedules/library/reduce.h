// Reductions that keep the last axis of what they read, or keep none: rows are added to rows, many at a time, or everything to vectors of
// partial results.
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

struct ReduceParameters {
    BOOST_HANA_DEFINE_STRUCT(ReduceParameters,
                             (Tile, steps),     // of the reduction, between which results stay in registers
                             (Tile, vectors),   // of results, side by side
                             (Tile, block),     // results whose partial sums wait in the first cache
                             (Flag, parallel)); // spread results over cores
};

bool is_reduce(const Op &op);
ReduceParameters reduce_parameters(const Op &op, const Machine &machine);
Schedule schedule_reduce(const Op &op, const Machine &machine, const ReduceParameters &p);

} // namespace kumiko::library
