// The runtime as objects, to be put into generated libraries: what is in runtime/, compiled when Kumiko was built.
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

} // namespace kumiko
