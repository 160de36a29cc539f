// Bounded reductions, which `where` makes (dsl/reduction.h): terms for which a condition fails are
// the identity. Loops skip steps for which the condition is known to fail.
#pragma once

#include "dsl/halide_passes.h"
#include "dsl/op.h"

namespace kumiko {

// Splits a conjunction into the part that reads no tensor and the part that does. A part is
// undefined if it is empty.
std::pair<Expr, Expr> split_by_reads(const Expr &condition);

// The conditions without which a term is the identity: comparisons of int32 over axes and sizes.
// Empty for stages that are not bounded.
std::vector<Expr> term_bounds(const Stage &stage);

// The first and the last step along a reduction axis at which the bounds may hold, where the other
// axes of the stage range as in `scope`; max < min if there is none. A comparison bounds the steps only
// if the axis is multiplied by a number in it.
Halide::Internal::Interval steps_of_terms(const Stage &stage, const Axis &axis,
                                          const Halide::Internal::Scope<Halide::Internal::Interval> &scope);

// Whether the bound, one of term_bounds(stage), holds at all of these steps: no other axis of it
// ranges in `scope`.
bool bounds_exactly(const Expr &bound, const Axis &axis,
                    const Halide::Internal::Scope<Halide::Internal::Interval> &scope);
// The term without `bounds`, which hold.
Expr term_where_hold(const Stage &stage, const std::vector<Expr> &bounds);

} // namespace kumiko
