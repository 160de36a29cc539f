// Arrays as files of NumPy (format 1.0 to 3.0), of the element types that NumPy has: bool, integers
// of 8 to 64 bits, f16, f32 and f64, little-endian.
#pragma once

#include "dsl/buffers.h"

namespace kumiko {

// Throws UserError with the file name if the file cannot be read or is not an array of these
// formats; Unsupported for other element types, and for arrays in column-major order.
Buffer<> load_npy(const std::string &path);
// Throws UserError if the file cannot be written; Unsupported for bf16.
void save_npy(const std::string &path, const Buffer<> &array);

} // namespace kumiko
