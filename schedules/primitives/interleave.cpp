#include "schedules/candidates.h"
#include "schedules/primitives/steps.h"
#include "schedules/schedule.h"

namespace kumiko {

namespace {

void apply_interleave(ScheduleState &state, const Directive &d, size_t index) {
    StageState &stage = stage_argument(state, d);
    const LoopState loop = loop_argument(stage, d);
    const int64_t n = integer_argument(d, "n");
    if (!loop.reduction) {
        refuse(state, d, "loop " + loop.name + " does not reduce", &stage, loop.name, "one of the reduction loops");
    }
    if (n < 2 || n > 64) {
        refuse(state, d, std::to_string(n) + " accumulators", &stage, loop.name, "2 to 64");
    }
    split_loop(state, stage, d, loop.name, n, loop.name + ".o", loop.name + ".n", Tail::Auto);
    Directive rf = d;
    rf.primitive = "rfactor";
    rf.arguments = {{"stage", stage.name()}, {"loop", loop.name + ".n"}};
    const std::string name = stage.name();
    primitive("rfactor").apply(state, rf, index);
    for (size_t s = 0; s + 1 < state.stages.size(); s++) {
        if (state.stages[s + 1].name() == name) {
            StageState &made = state.stages[s];
            made.loop(made.order.back()).kind = LoopKind::Unrolled;
        }
    }
}

} // namespace

StageHandle StageHandle::interleave(LoopName loop, int64_t n, Place where) {
    std::set<std::string> names;
    for (const StageState &s : schedule_->state().stages) names.insert(s.name());
    apply("interleave", {{"loop", loop.name}, {"n", n}}, where);
    for (const StageState &s : schedule_->state().stages) {
        if (!names.count(s.name())) return StageHandle(*schedule_, s.name());
    }
    throw InternalError("interleave made no stage");
}

const Primitive &interleave_primitive() {
    static const Primitive record = {
        "interleave",
        "stages",
        "Distributes a reduction over n accumulators, which are combined at the end. "
        "So consecutive steps do not wait for each other. "
        "It is a split of the loop by n, an rfactor of the inner part, and an unroll.",
        "The conditions of rfactor hold. "
        "n is 2 to 64.",
        {{"stage", ArgumentKind::Stage, "the reduction"},
         {"loop", ArgumentKind::Loop, "the reduction loop"},
         {"n", ArgumentKind::Integer, "the number of accumulators"}},
        apply_interleave,
        {"rowsum", {}, {"interleave", {{"stage", "S"}, {"loop", "j"}, {"n", 4}}, {}}},
        {.order = 80,
         .candidates = {{"stage", reductions}, {"loop", reduction_loops}, {"n", numbers_of<2, 3, 4, 5, 6>}}},
    };
    return record;
}

} // namespace kumiko
