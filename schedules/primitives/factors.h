// Sums of products, which offset, extend and expand rewrite before any other directive changes
// them.
#pragma once

#include "schedules/primitive.h"

namespace kumiko {

struct Factors {
    const Halide::Internal::Call *read = nullptr; // of the tensor
    Expr other;
    bool first = false; // the tensor is the product's first factor
};

// The factors of the sum's terms; refuses stages that are no sum, and terms that are no product of
// the tensor, cast or not, and something else.
Factors factors_of(const ScheduleState &state, const StageState &stage, const std::string &tensor, const Directive &d);

// The read of a tensor that the expression is, but for one cast; null when it is something else.
const Halide::Internal::Call *read_under_cast(const Expr &e);

// The sum of `term` over the steps of `sum`. Its axes are those of `sum` that the term uses. If the
// term uses a reduction axis, a new stage `name` in `made` computes it. Returns the value as `sum`
// reads it.
Expr sum_apart(const Stage &sum, const Expr &term, const std::string &name, std::vector<StageState> &made);

// Refuses a stage that other directives have shaped already.
void refuse_touched(const ScheduleState &state, const StageState &stage, const Directive &d);

// The stage as an op would have it: its axes are its loops, at the root.
StageState stage_of(Stage def);

// Puts stages, producers first, before the one of that name, which is to read them.
void insert_before(ScheduleState &state, const std::string &name, std::vector<StageState> made);

} // namespace kumiko
