// The runtime for generated libraries, embedded in this program: runtime/ compiled for the host's
// architecture at build time, and its sources for other architectures.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kumiko {

struct RuntimeObject {
    std::string name;       // "errors.o"
    std::string_view bytes; // ELF, for the architecture that Kumiko was built for
};

const std::vector<RuntimeObject> &runtime_objects();
// That architecture in LLVM's naming: "x86_64", "aarch64".
std::string runtime_architecture();

// runtime/kumiko_context.h, for headers of libraries with models.
std::string_view context_header();

// The runtime of the library `name` as a single self-contained C11 source; its symbols start with
// <name>_. A freestanding one needs neither libc nor libm, and also has the functions
// <name>_math_exp, … of runtime/kumiko_math.h.
std::string runtime_source(const std::string &name, bool freestanding);

} // namespace kumiko
