// Running sums.
#pragma once

#include "dsl/op.h"

#include <vector>

namespace kumiko::ops {

// Y(i0, …) = the sum of X along the axis at position `axis` (negative counts from the end) up to this element, or up to the one before where
// it is exclusive. X has axes i0, i1, … of the extents given. Types as in a reduction's sum: f16 and bf16 are summed in f32 and
// rounded at each element, 8- and 16-bit integers become i32.
Op cumulative_sum(Type t, const std::vector<Expr> &extents, int axis, bool exclusive = false);

} // namespace kumiko::ops
