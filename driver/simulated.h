// Runs a chip program on generated arrays.
#pragma once

#include "driver/expected.h"
#include "targets/chip/compile.h"

namespace kumiko {

struct SimulatedRun {
    sim::Run run;
    std::optional<CheckArrays> reference; // what the results were compared with
};

// Runs on random inputs. `check`: compares the results with the interpreter's. Throws UserError
// with the first difference.
SimulatedRun run_simulated(const ChipProgram &program, bool check, const sim::SimulateOptions &options = {});

} // namespace kumiko
