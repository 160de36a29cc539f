// The reads of tensors in an expression.
#pragma once

#include "dsl/axis.h"
#include "dsl/halide.h"

#include <functional>
#include <vector>

namespace kumiko {

// Each read of a tensor, in the expression's order; those inside of indices behind the read. Parts
// of the expression that are shared count once.
std::vector<const Halide::Internal::Call *> tensor_reads(const Expr &e);

// Whether each index of the read is the axis of its position.
bool reads_at(const Halide::Internal::Call *read, const std::vector<Axis> &axes);

// The expression with each read of a tensor, its indices done, replaced by f(read, the same as an expression).
Expr map_reads(const Expr &e, const std::function<Expr(const Halide::Internal::Call *, const Expr &)> &f);

} // namespace kumiko
