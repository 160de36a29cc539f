#include "schedules/candidates.h"
#include "schedules/primitives/steps.h"
#include "schedules/schedule.h"

namespace kumiko {

namespace {

constexpr int most_stages = 8;

void apply_pipeline(ScheduleState &state, const Directive &d, size_t index) {
    const StageState &stage = stage_argument(state, d);
    const LoopState loop = loop_argument(stage, d);
    const int64_t stages = integer_argument(d, "stages");
    if (stages < 2 || stages > most_stages) {
        refuse(state, d, "a pipeline of " + std::to_string(stages) + (stages == 1 ? " stage" : " stages"), &stage,
               loop.name, "2 (as double_buffer) to " + std::to_string(most_stages));
    }
    if (loop.kind != LoopKind::Serial) {
        refuse(state, d, "loop " + loop.name + " is " + kind_name(loop.kind), &stage, loop.name, "a serial loop");
    }
    bool any = false;
    for (StageState &copy : state.stages) {
        if (!copy.is_copy || copy.placement.kind != Placement::Kind::At || copy.placement.consumer != stage.name() ||
            copy.placement.loop != loop.name)
            continue;
        any = true;
        if (copy.buffers > 1) {
            refuse(state, d, "copy " + copy.name() + " has " + std::to_string(copy.buffers) + " buffers already",
                   &stage, loop.name, "one pipeline of a loop, or one double_buffer of a copy");
        }
        if (const std::string why = not_multi_buffered(state, copy); !why.empty()) {
            refuse(state, d, why, &stage, loop.name,
                   "copies that are stored in memory and read no stage that is computed at the same loop");
        }
        copy.buffers = int(stages);
        state.obligations.push_back(
            {index, [name = copy.name()](const ScheduleState &s) { return not_multi_buffered(s, *s.find(name)); }});
    }
    if (!any) {
        refuse(state, d, "no copy is made at loop " + loop.name + " of stage " + stage.name(), &stage, loop.name,
               "place_in(tensor, level, \"" + stage.name() + "\", \"" + loop.name + "\") first");
    }
}

} // namespace

StageHandle &StageHandle::pipeline(LoopName loop, int64_t stages, Place where) {
    return apply("pipeline", {{"loop", loop.name}, {"stages", stages}}, where);
}

namespace {

Values hosts_of_copies(const ScheduleState &state, const Directive &) {
    Values names;
    for (const StageState &s : state.stages) {
        if (s.is_copy && s.placement.kind == Placement::Kind::At) names.push_back(s.placement.consumer);
    }
    return names;
}

Values loops_of_copies(const ScheduleState &state, const Directive &d) {
    Values loops;
    for (const StageState &s : state.stages) {
        if (s.is_copy && s.placement.consumer == text_argument(d, "stage")) loops.push_back(s.placement.loop);
    }
    return loops;
}

} // namespace

const Primitive &pipeline_primitive() {
    static const Primitive record = {
        "pipeline",
        "machine",
        "Pipelines a loop: each copy that place_in makes at it gets the given number of buffers. "
        "An iteration fills the buffer that is used stages - 1 iterations later. "
        "The first buffers are filled before the loop. "
        "Two stages are the same as double_buffer for each copy. "
        "More stages hide a transfer that takes longer than one iteration.",
        "The loop exists and is serial. "
        "Copies are made at it, in memory, and none of them copies another. "
        "stages is 2 to 8.",
        {{"stage", ArgumentKind::Stage, "the stage"},
         {"loop", ArgumentKind::Loop, "the loop at which the copies are made"},
         {"stages", ArgumentKind::Integer, "the number of buffers of each copy"}},
        apply_pipeline,
        {"matmul",
         {{"split", {{"stage", "C"}, {"loop", "k"}, {"factor", 64}}, {}},
          {"reorder", {{"stage", "C"}, {"loops", {"k.o", "i", "j", "k.i"}}}, {}},
          {"place_in", {{"tensor", "B"}, {"level", "L2"}, {"consumer", "C"}, {"loop", "k.o"}}, {}}},
         {"pipeline", {{"stage", "C"}, {"loop", "k.o"}, {"stages", 3}}, {}}},
        {.order = 20,
         .candidates = {{"stage", hosts_of_copies}, {"loop", loops_of_copies}, {"stages", numbers_of<2, 3, 4>}}},
    };
    return record;
}

} // namespace kumiko
