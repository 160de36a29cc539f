#include "schedules/primitives/steps.h"
#include "schedules/schedule.h"

namespace kumiko {

namespace {

void apply_parallel(ScheduleState &state, const Directive &d, size_t) {
    StageState &stage = stage_argument(state, d);
    const LoopState loop = loop_argument(stage, d);
    if (loop.reduction) {
        refuse(state, d, "loop " + loop.name + " reduces: its iterations change the same elements", &stage, loop.name,
               "rfactor(\"" + loop.name + "\") first; the stage that it makes has " + loop.name +
                   " as an axis, which may be parallel");
    }
    if (loop.kind != LoopKind::Serial) {
        refuse(state, d, "loop " + loop.name + " is already " + kind_name(loop.kind), &stage, loop.name,
               "a serial loop");
    }
    stage.loop(loop.name).kind = LoopKind::Parallel;
}

} // namespace

StageHandle &StageHandle::parallel(LoopName loop, Place where) {
    return apply("parallel", {{"loop", loop.name}}, where);
}

const Primitive &parallel_primitive() {
    static const Primitive record = {
        "parallel",
        "loops",
        "Distributes the iterations of a loop over the cores. "
        "The result does not depend on the number of cores.",
        "The loop is serial and not a reduction loop. "
        "Its iterations do not read each other's results, as those along a scan do.",
        {{"stage", ArgumentKind::Stage, "the stage"}, {"loop", ArgumentKind::Loop, "the loop"}},
        apply_parallel,
        {"matmul", {}, {"parallel", {{"stage", "C"}, {"loop", "i"}}, {}}},
        {.order = 70},
    };
    return record;
}

} // namespace kumiko
