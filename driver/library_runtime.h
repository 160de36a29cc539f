// The runtime of a generated library: the objects embedded in this program, objects compiled here
// for another architecture, or source that the library's user compiles.
#pragma once

#include "targets/cpu/cpu_target.h"

#include <string>
#include <utility>
#include <vector>

namespace kumiko {

struct LibraryRuntime {
    std::vector<std::pair<std::string, std::string>> members; // archive members: name, bytes
    std::string source;   // <name>_runtime.c, to be compiled into programs; "" if there are members
    std::string compiler; // command that compiled the members; "" if none was needed
    std::string warning;  // why there is only source; "" otherwise
};

// `compiler`: a C compiler for the target, with arguments ("clang --target=aarch64-linux-gnu"). If
// empty, the embedded objects are used for the host's architecture; for others, PATH is searched
// for the usual cross compilers. Throws UserError if a given compiler cannot compile the runtime or
// targets another architecture.
LibraryRuntime make_runtime(const std::string &name, const CpuTarget &target, const std::string &compiler);

// The usual C compiler for the target: "aarch64-linux-gnu-gcc".
std::string usual_compiler(const CpuTarget &target);

// Throws InternalError if a kernel needs a function that neither the runtime nor the target's
// system libraries provide. `externs`: functions that the program provides.
void check_complete(const std::string &name, const CpuTarget &target,
                    const std::vector<std::pair<std::string, std::string>> &members,
                    const std::vector<std::string> &externs);

// Whether this machine's libc or libm has the function.
bool in_c_library(const std::string &symbol);

// The runtime's functions without their prefix: "malloc", "set_memory".
const std::vector<std::string> &runtime_functions();

} // namespace kumiko
