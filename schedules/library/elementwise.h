// Any op: stages one after the other, each by the loops that its own reads ask for. Pointwise
// producers are inlined where that is cheap. Vectors run along a stage's last axis where its reads
// are at most 4 elements apart. A reduction that reads rows keeps partial results in vectors; one
// whose rows share vectors, as a product or a convolution, runs in register tiles. The outermost
// loop of each stage is spread over cores.
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
