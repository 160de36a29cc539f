// The calls of users' functions in a nest (dsl/extern.h).
#pragma once

#include "dsl/extern.h"
#include "targets/lower/nest.h"

namespace kumiko {

// The body contains Evaluate of a call "kumiko.extern_call" with the arguments {symbol, address,
// stage, number of arrays; for each array its buffer's name, its rank, its extents, its strides in
// elements as int64}.
inline constexpr const char *extern_call_name = "kumiko.extern_call";

// An in-memory operand of an instruction: "kumiko.address" of a load of its first element.
inline constexpr const char *address_call_name = "kumiko.address";

struct ExternUse {
    // The symbol that generated code calls: the function's own, or one made from its address.
    std::string stage, symbol;
    ExternFunction function;
};

// Decodes an "kumiko.extern_call".
ExternUse extern_use(const Halide::Internal::Call *call);
std::vector<ExternUse> extern_uses(const Nest &nest); // each symbol once

} // namespace kumiko
