// The one header that includes Halide. Kumiko's expressions are Halide's; what users need of them is re-exported by name,
// never wholesale, because Halide has reductions and axes of its own whose names are ours here.
#pragma once

#include <Halide.h>

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
