// Bounded reductions, made with `where` (dsl/reduction.h): a term whose condition is false is
// replaced by the identity. Loops skip steps for which the condition is known to be false.
#pragma once

#include "dsl/halide_passes.h"
#include "dsl/op.h"

namespace kumiko {

// Splits a conjunction into the part that reads no tensor and the part that does. A part is
// undefined if it is empty.
std::pair<Expr, Expr> split_by_reads(const Expr &condition);

// The conditions under which a term contributes: comparisons of int32 over axes and sizes. Where
// one is false, the term is the identity. Empty if the stage is not bounded.
std::vector<Expr> term_bounds(const Stage &stage);

// The first and last step along a reduction axis at which the bounds can hold, given the ranges of
// the stage's other axes in `scope`. max < min if there is no such step. Only comparisons in which
// the axis has a constant coefficient restrict the range.
Halide::Internal::Interval steps_of_terms(const Stage &stage, const Axis &axis,
                                          const Halide::Internal::Scope<Halide::Internal::Interval> &scope);

// Whether `bound`, one of term_bounds(stage), holds at every step of steps_of_terms: the range is
// then exact and the test can be dropped. No other axis in the bound may range in `scope`.
bool bounds_exactly(const Expr &bound, const Axis &axis,
                    const Halide::Internal::Scope<Halide::Internal::Interval> &scope);
// The term, simplified under the assumption that `bounds` hold.
Expr term_where_hold(const Stage &stage, const std::vector<Expr> &bounds);

} // namespace kumiko
