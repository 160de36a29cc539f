#include "schedules/primitives/steps.h"
#include "schedules/schedule.h"

namespace kumiko {

namespace {

void apply_unroll(ScheduleState &state, const Directive &d, size_t) {
    StageState &stage = stage_argument(state, d);
    LoopState loop = loop_argument(stage, d);
    // split_loop rejects factors < 1.
    if (const int64_t factor = integer_argument(d, "factor"); factor != 0) {
        split_loop(state, stage, d, loop.name, factor, loop.name + ".o", loop.name + ".u", Tail::Auto);
        loop = stage.loop(loop.name + ".u");
    }
    if (loop.kind != LoopKind::Serial) {
        refuse(state, d, "loop " + loop.name + " is already " + kind_name(loop.kind), &stage, loop.name,
               "a serial loop");
    }
    const auto extent = known_extent(state, loop);
    if (!extent) {
        refuse(state, d, "the extent of loop " + loop.name + " is known only at run time", &stage, loop.name,
               "unroll(\"" + loop.name + "\", factor), which splits it first");
    }
    if (*extent > 1024) {
        refuse(state, d, "loop " + loop.name + " has " + std::to_string(*extent) + " iterations, too many to copy",
               &stage, loop.name, "at most 1024, or unroll(\"" + loop.name + "\", factor)");
    }
    stage.loop(loop.name).kind = LoopKind::Unrolled;
}

} // namespace

StageHandle &StageHandle::unroll(LoopName loop, int64_t factor, Place where) {
    nlohmann::json args = {{"loop", loop.name}};
    if (factor) args["factor"] = factor;
    return apply("unroll", args, where);
}

const Primitive &unroll_primitive() {
    static const Primitive record = {
        "unroll",
        "loops",
        "Replaces a loop by copies of its body, in the same order. "
        "With a factor, the loop is split first and its inner part, <loop>.u, is unrolled.",
        "The loop is serial, and its extent is constant and at most 1024.",
        {{"stage", ArgumentKind::Stage, "the stage"},
         {"loop", ArgumentKind::Loop, "the loop"},
         {"factor", ArgumentKind::Integer, "the number of copies; all iterations by default", true}},
        apply_unroll,
        {"matmul", {}, {"unroll", {{"stage", "C"}, {"loop", "k"}, {"factor", 4}}, {}}},
        {.order = 50},
    };
    return record;
}

} // namespace kumiko
