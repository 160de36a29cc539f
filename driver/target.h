// The machine that kernels are compiled for: its parameters, which schedules and their defaults
// use, and the processor description for code generation.
#pragma once

#include "machine/machine.h"
#include "targets/cpu/cpu_target.h"

namespace kumiko {

// A machine table, and the processor that code is generated for.
struct Target {
    Machine machine;
    CpuTarget cpu;

    // This machine, detected at run time.
    static Target host();
    // A named level ("x86-64-avx2", "aarch64", …), for libraries that run on other machines. Throws
    // UserError for an unknown name.
    static Target named(const std::string &name);
};

} // namespace kumiko
