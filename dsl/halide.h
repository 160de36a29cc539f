// Halide's types, expressions and run-time buffers. Kumiko's expressions are Halide's. The names
// that users need are re-exported one by one, because Halide has reductions and axes of its own
// under names that Kumiko redefines. Visitors, the simplifier and passes: dsl/halide_passes.h.
#pragma once

#include <HalideCore.h>

namespace kumiko {

using Halide::BFloat;
using Halide::Bool;
using Halide::Expr;
using Halide::Float;
using Halide::Int;
using Halide::Type;
using Halide::UInt;
using Halide::bfloat16_t;
using Halide::float16_t;

using Halide::abs;
using Halide::cast;
using Halide::ceil;
using Halide::clamp;
using Halide::cos;
using Halide::exp;
using Halide::floor;
using Halide::log;
using Halide::max;
using Halide::min;
using Halide::pow;
using Halide::reinterpret;
using Halide::round;
using Halide::select;
using Halide::sin;
using Halide::sqrt;
using Halide::tanh;
using Halide::trunc;

} // namespace kumiko
