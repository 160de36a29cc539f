// Runs of a chip's program on arrays of its own.
#pragma once

#include "driver/expected.h"
#include "targets/chip/compile.h"

namespace kumiko {

struct SimulatedRun {
    sim::Run run;
    std::optional<CheckArrays> reference; // what the results were compared with
};

// On random numbers. `check`: the results are compared with the formula's. Throws UserError with the first difference.
SimulatedRun run_simulated(const ChipProgram &program, bool check, const sim::SimulateOptions &options = {});

} // namespace kumiko
