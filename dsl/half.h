// Rounding to the two 16-bit float types. Halide converts through float and so rounds twice. That
// gives a different result if the first rounding lands halfway between two values.
#pragma once

#include "dsl/halide.h"

#include <cstdint>

namespace kumiko {

// The bits of `v` as type `t`, f16 or bf16: rounded once, to nearest, ties to even. Infinity on
// overflow.
uint16_t half_bits(Type t, double v);
uint16_t half_bits(Type t, int64_t v);
uint16_t half_bits(Type t, uint64_t v);

// The number that the bits encode.
float half_value(Type t, uint16_t bits);

} // namespace kumiko
