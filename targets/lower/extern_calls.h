// The calls of users' functions in a nest (dsl/extern.h).
#pragma once

#include "dsl/extern.h"
#include "targets/lower/nest.h"

namespace kumiko {

// In the body: Evaluate of a call "kumiko.extern_call", with the arguments {symbol, address, stage, number of arrays; for each array its
// buffer's name, the number of its axes, their extents, their strides in elements as int64}.
inline constexpr const char *extern_call_name = "kumiko.extern_call";

// Of an instruction's operand in memory: "kumiko.address" of a load of its first element.
inline constexpr const char *address_call_name = "kumiko.address";

struct ExternUse {
    std::string stage, symbol; // the symbol under which code calls it: its own, or one made from its address
    ExternFunction function;
};

ExternUse extern_use(const Halide::Internal::Call *call);
std::vector<ExternUse> extern_uses(const Nest &nest); // each symbol once

} // namespace kumiko
