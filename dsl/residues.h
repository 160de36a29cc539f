// Ranges of indices that contain remainders, such as d + 1 - 2 * (d % 2).
#pragma once

#include "dsl/float_casts.h"

namespace kumiko {

// Range of `e`, an int32 expression. Each variable v whose remainder by a constant m appears in it
// is split into residue classes, v = m q + r, and the ranges of all classes are joined. For d in
// [0, 64) this proves that d + 1 - 2 * (d % 2) is in [0, 64), where range_of gives [-1, 65). An
// exclusive or with a constant counts as a remainder. Falls back to range_of if there are no
// remainders or more than 64 classes.
Halide::Internal::Interval range_by_residues(const Expr &e, const Ranges &scope);

} // namespace kumiko
