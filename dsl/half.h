// Rounding to the two 16-bit floats. Halide's own go through float and so round twice, which differs where the first
// rounding lands halfway between two results.
#pragma once

#include "dsl/halide.h"

#include <cstdint>

namespace kumiko {

// The bits of `v` in the type `t`, f16 or bf16: to nearest, ties to even, once. Beyond the range: infinity.
uint16_t half_bits(Type t, double v);
uint16_t half_bits(Type t, int64_t v);
uint16_t half_bits(Type t, uint64_t v);

// The number that bits stand for.
float half_value(Type t, uint16_t bits);

} // namespace kumiko
