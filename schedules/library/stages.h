// Any op. Each stage has loops of its own, with vectors along its last axis if those are legal. The
// last schedule of the library, used if no other applies.
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

struct StagesParameters {
    // false: the plain nest, which every op has
    BOOST_HANA_DEFINE_STRUCT(StagesParameters, (Flag, vectors));
};

bool is_stages(const Op &op); // any op whatsoever
StagesParameters stages_parameters(const Op &op, const Machine &machine);
Schedule schedule_stages(const Op &op, const Machine &machine, const StagesParameters &p);

} // namespace kumiko::library
