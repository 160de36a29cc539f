// Values of parameters that are likely legal, for the records of primitives (Candidates in
// schedules/primitive.h). Each function takes the state and the arguments so far.
#pragma once

#include "schedules/primitive.h"

namespace kumiko {

using Values = std::vector<nlohmann::json>;

// These numbers. A repeated number is drawn more often.
template<int64_t... numbers>
Values numbers_of(const ScheduleState &, const Directive &) {
    return {numbers...};
}

// The names of all stages for which the condition holds.
template<typename Condition>
Values stages_where(const ScheduleState &state, const Condition &condition) {
    Values names;
    for (const StageState &s : state.stages) {
        if (condition(s)) names.push_back(s.name());
    }
    return names;
}

// The names of all live loops of the argument "stage" for which the condition holds.
template<typename Condition>
Values loops_where(const ScheduleState &state, const Directive &d, const Condition &condition) {
    Values names;
    const StageState &stage = state.stage(text_argument(d, "stage"));
    for (const std::string &loop : stage.order) {
        if (condition(stage, loop)) names.push_back(loop);
    }
    return names;
}

// Stages that are reductions, and the reduction loops of the argument "stage".
Values reductions(const ScheduleState &state, const Directive &d);
Values reduction_loops(const ScheduleState &state, const Directive &d);

// The stages that read the argument "tensor", or "stage" if there is no tensor.
Values readers_of_argument(const ScheduleState &state, const Directive &d);
// The live loops of the argument "consumer"; none without that argument.
Values consumer_loops(const ScheduleState &state, const Directive &d);

// Stages that sum products of tensors; the tensors that the terms of the argument "stage" read.
Values sums_of_products(const ScheduleState &state, const Directive &d);
Values factor_tensors(const ScheduleState &state, const Directive &d);

} // namespace kumiko
