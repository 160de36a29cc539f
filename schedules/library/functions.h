// Stages that call functions such as exp: each call is a chain of about twenty dependent
// operations.
#pragma once

#include "schedules/schedule.h"

namespace kumiko::library {

// Vectors whose chains are interleaved, limited by the registers that a chain needs, so that
// out-of-order execution with a window of about sixty operations finds independent ones.
inline constexpr int64_t vectors_of_functions = 4;

bool calls_functions(const Stage &stage);
// Whether the call is such a function. The square root is not, since vectors have an instruction
// for it.
bool is_function(const Halide::Internal::Call *call);

} // namespace kumiko::library
