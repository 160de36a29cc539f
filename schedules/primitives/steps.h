// Steps shared by several records. A function that rejects a directive throws as refuse() does.

// Splits a loop by `factor` into the loops `outer` and `inner`, and appends the relation. Rejects
// factors, tails and names that are illegal for the loop.
#pragma once

#include "schedules/primitive.h"

namespace kumiko {

void split_loop(ScheduleState &state, StageState &stage, const Directive &d, const std::string &loop, int64_t factor,
                const std::string &outer, const std::string &inner, Tail tail);
// Rejects a split with a shifted tail if its outer loop `blocks` would repeat elements of partial
// sums. Adds that as an obligation.
void check_repeated_sums(ScheduleState &state, const StageState &stage, const Directive &d, size_t index,
                         const std::string &loop, const std::string &blocks);
// Rejects loop names that cannot be saved; legal are letters, digits, _ and dots.
void check_loop_name(const ScheduleState &state, const Directive &d, const StageState &stage, const std::string &loop,
                     const std::string &fresh);
// A pointwise stage `name` that copies the whole of `tensor`.
StageState copy_of(const ScheduleState &state, const std::string &tensor, const std::string &name);
// Redirects the stage's reads of `from` to `to`.
void redirect_reads(StageState &reader, const std::string &from, const std::string &to);
// The first index of a read of `tensor` by the stage that is not proved to be in bounds for all
// values of the stage's axes; nullopt if all are.
std::optional<Expr> index_outside(const ScheduleState &state, const Stage &reader, const std::string &tensor,
                                  const std::vector<Expr> &read);
// Parses a storage order. Rejects one that does not cover each axis exactly once.
std::vector<LayoutTerm> parse_layout(const ScheduleState &state, const StageState &stage, const Directive &d,
                                     const std::vector<std::string> &texts);
// The extent of a loop, if it is a constant, directly or by assumptions.
std::optional<int64_t> known_extent(const ScheduleState &state, const LoopState &loop);

// Rejects directives that are illegal for a recurrence.
void refuse_recurrence(const ScheduleState &state, const Directive &d, const StageState &stage, const std::string &why,
                       const std::string &legal);
// Why an element of a recurrence could be computed before one that it reads; "" if none can.
// Checked after every directive.
std::string broken_recurrence(const ScheduleState &state);

// Why an inout tensor could be read after it is overwritten, or an element written twice
// (dsl/inout.h); "" if neither can happen. Checked after every directive.
std::string broken_inout(const ScheduleState &state);

// Why `stage` cannot be multi-buffered, that is, filled for later iterations while this iteration
// reads it; "" if it can.
std::string not_multi_buffered(const ScheduleState &state, const StageState &stage);

// Why a stage cannot be computed at loop `loop` of `consumer`: a reader runs elsewhere, or
// iterations would not write disjoint parts of an output; "" if it can.
std::string uncovered(const ScheduleState &state, const std::string &name, const std::string &consumer,
                      const std::string &loop);
// Moves a stage to a placement, together with the consumer that is finished in it.
void place_stage(ScheduleState &state, StageState &stage, const Placement &placement);
// Why `reader` does not run inside loop `loop` of stage `c`; "" if it does.
std::string runs_outside(const ScheduleState &state, const std::string &reader, const StageState &c,
                         const std::string &loop);
// Why a stage placed with store_at cannot be computed at loop `loop` of stage `reader`; "" if it
// can.
std::string not_inside(const ScheduleState &state, const std::string &name, const std::string &reader,
                       const std::string &loop);
// The expression with inlined stages substituted.
Expr with_inlined(const ScheduleState &state, const Expr &e);
// The reads (calls) of these tensors in the stage's expressions, with inlined stages substituted.
std::vector<Expr> reads_with_inlined(const ScheduleState &state, const StageState &reader,
                                     const std::set<std::string> &tensors);

} // namespace kumiko
