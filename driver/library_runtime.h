// The runtime of a generated library: from the bytes in this program, or compiled here for another
// architecture, or as a source that the library's user compiles.
#pragma once

#include "targets/cpu/cpu_target.h"

#include <string>
#include <utility>
#include <vector>

namespace kumiko {

struct LibraryRuntime {
    std::vector<std::pair<std::string, std::string>> members; // of the archive: name, bytes
    std::string source;   // <name>_runtime.c, to be compiled with programs; "" where there are members
    std::string compiler; // the command that compiled the members; "" where none was needed
    std::string warning;  // why there is a source; "" where there is none
};

// `compiler`: a C compiler for the target, with arguments ("clang --target=aarch64-linux-gnu").
// Where it is empty, the members are this program's own for its own architecture; for others the
// usual cross compilers are looked for in PATH. Throws UserError when a compiler that was named
// does not compile the runtime, or compiles for another architecture.
LibraryRuntime make_runtime(const std::string &name, const CpuTarget &target, const std::string &compiler);

// The usual name of a C compiler for the target: "aarch64-linux-gnu-gcc".
std::string usual_compiler(const CpuTarget &target);

// Throws InternalError when kernels need a function that neither the runtime nor what programs for
// the target always have gives. `externs`: functions that the program brings.
void check_complete(const std::string &name, const CpuTarget &target,
                    const std::vector<std::pair<std::string, std::string>> &members,
                    const std::vector<std::string> &externs);

// Whether it is a function of the C library or of its mathematics, as they are on this machine.
bool in_c_library(const std::string &symbol);

// The functions of the runtime without their prefix: "malloc", "set_memory".
const std::vector<std::string> &runtime_functions();

} // namespace kumiko
