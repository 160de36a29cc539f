// Scans: prefix folds along an axis; element j holds the fold of all terms up to j. A running sum:
//
//   compute("Y", {i, j}, scan([](Expr a, Expr b) { return a + b; }, 0, X(i, j), j))
//   // Y(i, 0) = 0 + X(i, 0), Y(i, j) = Y(i, j − 1) + X(i, j)
//
// A scan may appear inside a larger expression. It then becomes a stage of its own, named after the
// stage that contains it. In the stages it is a recurrence of distance 1 (dsl/recurrence.h).
#pragma once

#include "dsl/tuple.h"

namespace kumiko {

// Inclusive scan: combiner(value so far, e) along `axis`, starting from `identity`, a number of e's
// type. The tensor must range over `axis`. For an exclusive scan, shift e by one: scan(f, 0,
// zero_padded(X)(i, j - 1), j) if the identity is 0. Throws UserError for undefined expressions and
// for mixed types.
Element scan(const std::function<Expr(Expr, Expr)> &combiner, const Expr &identity, const Expr &e, const Axis &axis,
             Place where = Place::current());

// A scan of several values together, like reduce (dsl/tuple.h).
Tuple scan(const std::function<Values(const Values &, const Values &)> &combiner, const Values &identities,
           const Values &terms, const Axis &axis, Place where = Place::current());

} // namespace kumiko
