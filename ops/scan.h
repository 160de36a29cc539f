// Prefix sums.
#pragma once

#include "dsl/op.h"

#include <vector>

namespace kumiko::ops {

// Y(i0, …) = the sum of X along the axis at position `axis` (negative values count from the end) up
// to and including this element, or excluding it if `exclusive`. X has axes i0, i1, … with the
// given extents. Types as in sum reductions: f16 and bf16 are accumulated in f32 and rounded at
// each element; 8- and 16-bit integers become i32.
Op cumulative_sum(Type t, const std::vector<Expr> &extents, int axis, bool exclusive = false);

} // namespace kumiko::ops
