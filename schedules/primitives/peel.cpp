#include "schedules/candidates.h"
#include "schedules/primitives/steps.h"
#include "schedules/schedule.h"

namespace kumiko {

namespace {

void apply_peel(ScheduleState &state, const Directive &d, size_t index) {
    StageState &stage = stage_argument(state, d);
    const LoopState loop = loop_argument(stage, d);
    const int64_t first = integer_argument(d, "first"), last = integer_argument(d, "last");
    if (first < 0 || last < 0 || first + last == 0) {
        refuse(state, d,
               "it peels " + std::to_string(first) + " first and " + std::to_string(last) + " last iterations", &stage,
               loop.name, "counts of 0 or more, not both 0");
    }
    if (loop.kind != LoopKind::Serial) {
        refuse(state, d, "loop " + loop.name + " is " + kind_name(loop.kind), &stage, loop.name, "a serial loop");
    }
    if (const auto extent = Halide::Internal::as_const_int(loop.extent); extent && first + last > *extent) {
        refuse(state, d, "loop " + loop.name + " has only " + std::to_string(*extent) + " iterations", &stage,
               loop.name, "at most " + std::to_string(*extent) + " in all");
    }
    for (const Peel &p : stage.peels) {
        if (p.loop == loop.name)
            refuse(state, d, "loop " + loop.name + " is peeled already", &stage, loop.name, "one peel of a loop");
    }
    stage.peels.push_back({loop.name, first, last});
    const std::string name = stage.name();
    state.obligations.push_back({index, [name, l = loop.name](const ScheduleState &s) -> std::string {
                                     const StageState *stage = s.find(name);
                                     if (!stage->has_loop(l))
                                         return "loop " + l + " of stage " + name + " no longer exists";
                                     return stage->loop(l).kind == LoopKind::Serial
                                                ? ""
                                                : "loop " + l + " of stage " + name + " is no longer serial";
                                 }});
}

} // namespace

StageHandle &StageHandle::peel(LoopName loop, int64_t first, int64_t last, Place where) {
    return apply("peel", {{"loop", loop.name}, {"first", first}, {"last", last}}, where);
}

const Primitive &peel_primitive() {
    static const Primitive record = {
        "peel",
        "loops",
        "Gives the first and the last iterations of a loop their own copies of the body. "
        "Conditions that matter only at the borders then disappear from the interior.",
        "The loop exists, is serial, and has at least that many iterations.",
        {{"stage", ArgumentKind::Stage, "the stage"},
         {"loop", ArgumentKind::Loop, "the loop"},
         {"first", ArgumentKind::Integer, "the number of iterations at the begin"},
         {"last", ArgumentKind::Integer, "the number of iterations at the end"}},
        apply_peel,
        {"conv", {}, {"peel", {{"stage", "Y"}, {"loop", "y"}, {"first", 1}, {"last", 1}}, {}}},
        {.order = 80, .candidates = {{"first", numbers_of<0, 1, 2, 3>}, {"last", numbers_of<0, 1, 2, 3>}}},
    };
    return record;
}

} // namespace kumiko
