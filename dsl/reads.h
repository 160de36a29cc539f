// The reads of tensors in an expression.
#pragma once

#include "dsl/axis.h"
#include "dsl/halide.h"

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace kumiko {

struct Stage;

// All reads of tensors, in order of occurrence; reads inside an index follow the read. Shared
// subexpressions are visited once.
std::vector<const Halide::Internal::Call *> tensor_reads(const Expr &e);

// The reads of these tensors in several expressions, in order of occurrence. Subexpressions that
// expressions share are visited once. The expressions own the reads.
std::vector<const Halide::Internal::Call *> reads_of_tensors(const std::vector<Expr> &all,
                                                             const std::set<std::string> &tensors);

// The operands of the outermost operation, in order.
std::vector<Expr> children_of(const Expr &e);

// Whether every index of the read is the axis at its position.
bool reads_at(const Halide::Internal::Call *read, const std::vector<Axis> &axes);

// Replaces each read of a tensor by f(read, e), where e is the read after its indices are
// rewritten.
Expr map_reads(const Expr &e, const std::function<Expr(const Halide::Internal::Call *, const Expr &)> &f);

// The difference of an int32 expression at variable + 1 and at the variable, not simplified.
Expr difference_along(const Expr &e, const std::string &variable);

// The slope of an index along an int32 variable: the change per step, in elements; nullopt if it is
// not constant.
std::optional<int64_t> slope_of(const Expr &index, const std::string &variable);

// Replaces each read of a tensor by a read of another one at the same indices.
Expr redirect_reads(const Expr &e, const std::string &from, const std::string &to);

// The expression with indices in place of axes.
Expr at_indices(const Expr &e, const std::vector<Axis> &axes, const std::vector<Expr> &indices);

// Replaces each read of a stage that `inlined` returns by the stage's value at the indices of the
// read; reads in that value are replaced too. `inlined` returns null for the other tensors.
Expr inline_stages(const Expr &e, const std::function<const Stage *(const std::string &name)> &inlined);

} // namespace kumiko
