// Elementwise stages on the chip: elements are dealt to lanes, PEs and the units above, the rest runs in time; operands pass through
// LM0 and LM1 in turn, results leave by the forwards.
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

struct ChipElementwiseParameters {
    BOOST_HANA_DEFINE_STRUCT(ChipElementwiseParameters, (Tile, words)); // LW of an operand in a PE at a time
};

bool is_chip_elementwise(const Op &op); // one output, every other stage inlined into it
ChipElementwiseParameters chip_elementwise_parameters(const Op &op, const Machine &machine);
Schedule schedule_chip_elementwise(const Op &op, const Machine &machine, const ChipElementwiseParameters &p);

} // namespace kumiko::library
