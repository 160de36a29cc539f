// Factors of sums of products. offset, extend and expand rewrite them before any other directive
// changes the stage.
#pragma once

#include "schedules/primitive.h"

namespace kumiko {

// A product of an element of a tensor and another factor.
struct Factors {
    const Halide::Internal::Call *read = nullptr; // the read of the tensor
    Expr other;
    bool first = false; // the tensor is the product's first factor
};

// The factors of the sum's term. Rejects stages that are not sums, and terms that are not a product
// of the tensor, with or without a cast, and another factor.
Factors factors_of(const ScheduleState &state, const StageState &stage, const std::string &tensor, const Directive &d);

// The read of a tensor, looking through at most one cast; null for other expressions.
const Halide::Internal::Call *read_under_cast(const Expr &e);

// Sums `term` over the steps of `sum`. The result's axes are those of `sum` that the term uses. If
// the term uses a reduction axis, a new stage `name` in `made` computes the sum. Returns the value
// in terms of the axes of `sum`.
Expr sum_apart(const Stage &sum, const Expr &term, const std::string &name, std::vector<StageState> &made);

// Rejects a stage that other directives have already changed.
void refuse_touched(const ScheduleState &state, const StageState &stage, const Directive &d);

// The stage in its initial state: its loops are its axes, computed at the root.
StageState stage_of(Stage def);

// Inserts stages, producers first, before the stage `name` that will read them.
void insert_before(ScheduleState &state, const std::string &name, std::vector<StageState> made);

} // namespace kumiko
