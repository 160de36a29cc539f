// The runtime for generated libraries, carried as bytes: runtime/ compiled for this architecture
// when Kumiko was built, and its sources for other architectures.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kumiko {

struct RuntimeObject {
    std::string name;       // "errors.o"
    std::string_view bytes; // ELF, for the architecture that Kumiko itself was built for
};

const std::vector<RuntimeObject> &runtime_objects();
// That architecture as LLVM names it: "x86_64", "aarch64".
std::string runtime_architecture();

// The runtime of the library `name` as one C11 source, which needs no other file: its symbols begin
// with <name>_. A freestanding one needs neither libc nor libm, and has the functions
// <name>_math_exp, … of runtime/kumiko_math.h besides.
std::string runtime_source(const std::string &name, bool freestanding);

} // namespace kumiko
