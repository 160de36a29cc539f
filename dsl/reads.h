// The reads of tensors in an expression.
#pragma once

#include "dsl/axis.h"
#include "dsl/halide.h"

#include <functional>
#include <vector>

namespace kumiko {

// All reads of tensors, in order of occurrence; reads inside an index follow the read. Shared
// subexpressions are visited once.
std::vector<const Halide::Internal::Call *> tensor_reads(const Expr &e);

// Whether every index of the read is the axis at its position.
bool reads_at(const Halide::Internal::Call *read, const std::vector<Axis> &axes);

// Replaces each read of a tensor by f(read, e), where e is the read after its indices are
// rewritten.
Expr map_reads(const Expr &e, const std::function<Expr(const Halide::Internal::Call *, const Expr &)> &f);

} // namespace kumiko
