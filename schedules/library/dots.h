// Matrix products with a few result columns, as dot products along the reduction; vectors along the
// columns would be mostly empty.
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

struct DotsParameters {
    BOOST_HANA_DEFINE_STRUCT(DotsParameters, (Tile, rows), // rows of a tile, with all columns
                             (Flag, parallel));            // distribute rows over cores
};

// A product of constant extents with 2 to 8 result columns, whose operands are contiguous along the
// reduction.
bool is_dots(const Op &op);
// The defaults.
DotsParameters dots_parameters(const Op &op, const Machine &machine);
Schedule schedule_dots_of_rows(const Op &op, const Machine &machine, const DotsParameters &p);

} // namespace kumiko::library
