// Scans: values folded along an axis, of which each element keeps what there is so far. A running sum along j:
//
//   compute("Y", {i, j}, scan([](Expr a, Expr b) { return a + b; }, 0, X(i, j), j))
//   // Y(i, 0) = 0 + X(i, 0), Y(i, j) = Y(i, j − 1) + X(i, j)
//
// A scan may stand inside a larger expression; it then becomes a stage of its own, named after the
// one it stands in. In the stages it is a recurrence of distance 1 (dsl/recurrence.h).
#pragma once

#include "dsl/tuple.h"

namespace kumiko {

// combiner(so far, e), starting from `identity`, a number of e's type, along `axis`, over which the
// tensor ranges. For what comes before an element alone, shift e: scan(f, 0, zero_padded(X)(i, j -
// 1), j) where the identity is 0. Throws UserError for expressions that are undefined or of several
// types.
Element scan(const std::function<Expr(Expr, Expr)> &combiner, const Expr &identity, const Expr &e, const Axis &axis,
             Place where = Place::current());

// Several values together, as of reduce (dsl/tuple.h).
Tuple scan(const std::function<Values(const Values &, const Values &)> &combiner, const Values &identities,
           const Values &terms, const Axis &axis, Place where = Place::current());

} // namespace kumiko
