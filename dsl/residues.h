// Ranges of indices that take remainders, such as d + 1 - 2 * (d % 2).
#pragma once

#include "dsl/float_casts.h"

namespace kumiko {

// Range of `e`, an int32 expression: the union of its ranges over the residue classes of the
// variables whose remainder by a constant it takes, v = m q + r. So it is known that
// d + 1 - 2 * (d % 2) of d in [0, 64) stays in [0, 64); range_of gives [-1, 65). Exclusive or with a
// constant is such a remainder too. The range of `range_of` where there are none, or more than 64
// classes.
Halide::Internal::Interval range_by_residues(const Expr &e, const Ranges &scope);

} // namespace kumiko
