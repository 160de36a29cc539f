// Exact conversions between types.
#pragma once

#include "dsl/types.h"

namespace kumiko {

// Whether `wide` represents every value of `narrow` exactly: i16 for u8, f32 for bf16. False for
// f32 and i32.
bool has_all_values(Type wide, Type narrow);

} // namespace kumiko
