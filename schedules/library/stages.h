// Any op. Each stage has loops of its own, with vectors along its last axis where those are legal.
// The last schedule of the library: it is taken where no other applies.
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

struct StagesParameters {
    BOOST_HANA_DEFINE_STRUCT(StagesParameters, (Flag, vectors)); // false: the plain nest, which every op has
};

bool is_stages(const Op &op); // any op whatsoever
StagesParameters stages_parameters(const Op &op, const Machine &machine);
Schedule schedule_stages(const Op &op, const Machine &machine, const StagesParameters &p);

} // namespace kumiko::library
