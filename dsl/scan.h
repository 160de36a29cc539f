// Scans: values folded along an axis, of which each element keeps what there is so far. A running sum along j:
//
//   compute("Y", {i, j}, scan([](Expr a, Expr b) { return a + b; }, 0, X(i, j), j))
//   // Y(i, 0) = 0 + X(i, 0), Y(i, j) = Y(i, j − 1) + X(i, j)
//
// A scan may stand inside a larger expression; it then becomes a stage of its own, named after the one it stands in. In the stages it is
// pointwise, with a read of the element before, so its elements are computed in order along the axis.
#pragma once

#include "dsl/op.h"

namespace kumiko {

// combiner(so far, e), starting from `identity`, a number of e's type, along `axis`, over which the tensor ranges. For what comes before
// an element alone, shift e: scan(f, 0, zero_padded(X)(i, j - 1), j) where the identity is 0.
// Throws UserError for expressions that are undefined or of several types.
Element scan(const std::function<Expr(Expr, Expr)> &combiner, const Expr &identity, const Expr &e, const Axis &axis,
             Place where = Place::current());

// The axis along which a stage is computed in order, since it reads itself; "" when it is none such.
std::string scanned_axis(const Stage &stage);

} // namespace kumiko
