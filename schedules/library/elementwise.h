// Anything else: stages computed one after the other, elementwise producers inlined, the last axis in vectors, the first
// over cores.
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

struct ElementwiseParameters {
    BOOST_HANA_DEFINE_STRUCT(ElementwiseParameters, (Tile, unroll), // vectors per iteration
                             (Flag, parallel));                     // spread the outermost loop over cores
};

bool is_elementwise(const Op &op); // any op whatsoever
ElementwiseParameters elementwise_parameters(const Op &op, const Machine &machine);
Schedule schedule_elementwise(const Op &op, const Machine &machine, const ElementwiseParameters &p);

} // namespace kumiko::library
