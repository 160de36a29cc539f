#include "machine/machine.h"
#include "schedules/primitives/table.h"

namespace kumiko {

namespace {

void apply(ScheduleState &state, const Directive &d, size_t index) {
    StageState &stage = stage_argument(state, d);
    const LoopState loop = loop_argument(stage, d);
    if (!stage.def.is_reduction()) {
        refuse(state, d, stage.name() + " does not accumulate", &stage, loop.name, "accumulate_in on a reduction");
    }
    if (loop.kind == LoopKind::Vectorized || loop.kind == LoopKind::Unrolled) {
        refuse(state, d, "loop " + loop.name + " is " + kind_name(loop.kind), &stage, loop.name,
               "a serial or parallel loop");
    }
    const std::string level = text_argument(d, "level");
    level_argument(state, d);
    bool reduces = false;
    for (size_t i = stage.position(loop.name) + 1; i < stage.order.size(); i++)
        reduces = reduces || stage.loop(stage.order[i]).reduction;
    if (!reduces) {
        refuse(state, d, "no reduction loop stands inside loop " + loop.name + ", so nothing accumulates there", &stage,
               loop.name, "a loop outside of a reduction loop");
    }
    const bool join = text_argument(d, "rounds", "reload") == "join";
    if (join && !stage.def.properties.associative) {
        refuse(state, d,
               "the combiner of " + stage.name() + " is not stated to be associative, so its partial results cannot be "
               "joined",
               &stage, loop.name, "\"reload\", or state the combiner's properties in reduce(…)");
    }
    stage.accumulate = Accumulate{level, loop.name, join};
    state.obligations.push_back({index, [name = stage.name(), l = loop.name](const ScheduleState &s) -> std::string {
                                     const StageState *stage = s.find(name);
                                     if (!stage->has_loop(l))
                                         return "loop " + l + " of stage " + name + " no longer stands";
                                     for (size_t i = stage->position(l) + 1; i < stage->order.size(); i++) {
                                         if (stage->loop(stage->order[i]).reduction) return "";
                                     }
                                     return "no reduction loop stands inside loop " + l + " any more";
                                 }});
}

} // namespace

const Primitive accumulate_in_primitive = {
    "accumulate_in",
    "memory",
    "Keeps the partial results of a reduction, as much of them as is touched below a loop, in a memory level: they "
    "start from the "
    "identity, or from what an earlier round left where a reduction loop stands outside, and are stored on leaving. With "
    "rounds = \"join\" every round starts from the identity and joins what the earlier ones left on leaving, which "
    "spares it waiting for them. In \"registers\", loops that step through the accumulators are unrolled.",
    "The stage is a reduction; the loop is serial or parallel and a reduction loop stands inside it; "
    "\"join\" needs an associative combiner.",
    {{"stage", ArgumentKind::Stage, "the reduction"},
     {"level", ArgumentKind::Level, "the memory level"},
     {"loop", ArgumentKind::Loop, "the loop below which they are kept"},
     {"rounds",
      ArgumentKind::Text,
      "how a later round takes up what earlier ones left: \"reload\" on entering, or \"join\" on leaving",
      true,
      {"reload", "join"}}},
    apply,
    {"matmul",
     {{"tile", {{"stage", "C"}, {"loops", {"i", "j"}}, {"factors", {4, 16}}}, {}},
      {"reorder", {{"stage", "C"}, {"loops", {"i.o", "j.o", "k", "i.i", "j.i"}}}, {}}},
     {"accumulate_in", {{"stage", "C"}, {"level", "registers"}, {"loop", "j.o"}}, {}}},
};

} // namespace kumiko
