// A run of a chip's program, for the suites that count its cycles.
#pragma once

#include "targets/chip/compile.h"

namespace kumiko::bench {

// On arrays of its own. `check`: the result is compared with the formula's, and a difference thrown as UserError.
sim::Run simulated(const ChipProgram &program, bool check);

} // namespace kumiko::bench
