// Stages that call functions, as exp: each is a chain of some twenty operations, which wait for one another.
#pragma once

#include "schedules/schedule.h"

namespace kumiko::library {

// Vectors whose chains take turns in the code: as many as the registers of a chain leave room for, so that a processor, which looks some
// sixty operations ahead, finds independent ones.
inline constexpr int64_t vectors_of_functions = 4;

bool calls_functions(const Stage &stage);
// Whether it is such a function. Vectors have an instruction for the square root.
bool is_function(const Halide::Internal::Call *call);

} // namespace kumiko::library
