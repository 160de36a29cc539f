// The element types by their short names.
#pragma once

#include "dsl/halide.h"

namespace kumiko {

// The element types of formulas.
inline const Type boolean = Bool();
inline const Type i8 = Int(8), i16 = Int(16), i32 = Int(32), i64 = Int(64);
inline const Type u8 = UInt(8), u16 = UInt(16), u32 = UInt(32), u64 = UInt(64);
inline const Type f16 = Float(16), bf16 = BFloat(16), f32 = Float(32), f64 = Float(64);

// "f32", "bf16", "i8", "u64", "bool": the names used in files and on the command line.
std::string type_name(Type type);

// The inverse. Throws UserError with the list of names if the name is unknown.
Type type_from_name(const std::string &name);

} // namespace kumiko
