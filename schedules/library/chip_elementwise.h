// Elementwise stages on the chip. Elements are distributed over lanes, PEs and the units above; the
// rest is iterated in time. Operands pass through LM0 and LM1 alternately; results leave through
// the slots' forwards.
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

// Parameters of schedule_chip_elementwise().
struct ChipElementwiseParameters {
    // LW of an operand per PE at a time
    BOOST_HANA_DEFINE_STRUCT(ChipElementwiseParameters, (Tile, words));
};

bool is_chip_elementwise(const Op &op); // one output, every other stage inlined into it
ChipElementwiseParameters chip_elementwise_parameters(const Op &op, const Machine &machine);
Schedule schedule_chip_elementwise(const Op &op, const Machine &machine, const ChipElementwiseParameters &p);

} // namespace kumiko::library
