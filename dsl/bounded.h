// Reductions of which some terms do not exist: those that stand as select(condition, term, identity), as `where` writes
// them (dsl/reduction.h). Schedules and lowering leave them out where it is seen before that the condition fails.
#pragma once

#include "dsl/halide_passes.h"
#include "dsl/op.h"

namespace kumiko {

// What has to hold for a term of the reduction to be more than the identity: inequalities and equalities of int32 over
// axes and sizes. None where folding the identity may change a value.
std::vector<Expr> term_bounds(const Stage &stage);

// From the first to the last of the steps along a reduction axis at which a term may exist, when the other axes of the stage
// range as in `scope`; max < min where none does. All steps where nothing bounds them. For conditions over sums in which
// the axis is multiplied by a number.
Halide::Internal::Interval steps_of_terms(const Stage &stage, const Axis &axis,
                                          const Halide::Internal::Scope<Halide::Internal::Interval> &scope);

// Whether the steps that steps_of_terms gives along the axis are just those at which the bound holds: it is one of
// term_bounds(stage), and of its other axes none ranges.
bool bounds_exactly(const Expr &bound, const Axis &axis,
                    const Halide::Internal::Scope<Halide::Internal::Interval> &scope);
// The term of the reduction without these of its bounds.
Expr term_where_hold(const Stage &stage, const std::vector<Expr> &bounds);

} // namespace kumiko
