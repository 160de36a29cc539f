// Reductions that keep the last axis of the tensor they read, or keep none. Rows are added to rows,
// several at a time; a reduction over all axes uses vectors of partial results.
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

// Parameters of schedule_reduce().
struct ReduceParameters {
    BOOST_HANA_DEFINE_STRUCT(ReduceParameters,
                             // reduction steps per visit to the results
                             (Tile, steps),
                             // vectors of results side by side
                             (Tile, vectors),
                             // results whose partial sums stay in L1
                             (Tile, block),
                             // distribute results over cores
                             (Flag, parallel));
};

bool is_reduce(const Op &op);
ReduceParameters reduce_parameters(const Op &op, const Machine &machine);
Schedule schedule_reduce(const Op &op, const Machine &machine, const ReduceParameters &p);

} // namespace kumiko::library
