// For which machine kernels are compiled: its table, which schedules and their defaults consult, and what code generation
// needs to know of the processor.
#pragma once

#include "machine/machine.h"
#include "targets/cpu/cpu_target.h"

namespace kumiko {

struct Target {
    Machine machine;
    CpuTarget cpu;

    // This machine, detected at run time.
    static Target host();
    // A named level ("x86-64-avx2", "aarch64", …) for libraries that run elsewhere. Throws UserError for an unknown one.
    static Target named(const std::string &name);
};

} // namespace kumiko
