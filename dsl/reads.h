// The reads of tensors in an expression.
#pragma once

#include "dsl/axis.h"
#include "dsl/halide.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace kumiko {

struct Stage;

// All reads of tensors, in order of occurrence; reads inside an index follow the read. Shared
// subexpressions are visited once.
std::vector<const Halide::Internal::Call *> tensor_reads(const Expr &e);

// The operands of the outermost operation, in order.
std::vector<Expr> children_of(const Expr &e);

// Whether every index of the read is the axis at its position.
bool reads_at(const Halide::Internal::Call *read, const std::vector<Axis> &axes);

// Replaces each read of a tensor by f(read, e), where e is the read after its indices are
// rewritten.
Expr map_reads(const Expr &e, const std::function<Expr(const Halide::Internal::Call *, const Expr &)> &f);

// The constant by which an index grows with a variable; nothing if it is not constant.
std::optional<int64_t> slope_of(const Expr &index, const std::string &variable);

// The expression with indices in place of axes.
Expr at_indices(const Expr &e, const std::vector<Axis> &axes, const std::vector<Expr> &indices);

// Replaces each read of a stage that `inlined` returns by the stage's value at the indices of the
// read; reads in that value are replaced too. `inlined` returns null for the other tensors.
Expr inline_stages(const Expr &e, const std::function<const Stage *(const std::string &name)> &inlined);

} // namespace kumiko
