// Which types have all values of another.
#pragma once

#include "dsl/types.h"

namespace kumiko {

// Whether each value of `narrow` is exactly one of `wide`: of u8 in i16, of bf16 in f32; i32 has values that f32 has not.
bool has_all_values(Type wide, Type narrow);

} // namespace kumiko
