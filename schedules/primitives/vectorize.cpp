#include "schedules/primitives/table.h"

namespace kumiko {

namespace {

void apply(ScheduleState &state, const Directive &d, size_t index) {
    StageState &stage = stage_argument(state, d);
    LoopState loop = loop_argument(stage, d);
    const int64_t width = integer_argument(d, "width");
    const Tail tail = tail_from_name(text_argument(d, "tail", "auto"));
    if (loop.kind != LoopKind::Serial) {
        refuse(state, d, "loop " + loop.name + " is already " + kind_name(loop.kind), &stage, loop.name, "a serial loop");
    }
    if (loop.reduction) {
        refuse(state, d, "loop " + loop.name + " reduces, so its lanes would all add to the same elements", &stage, loop.name,
               "rfactor(\"" + loop.name + "\") after a split by the vector width, and vectorize the stage that it makes");
    }
    if (stage.order.back() != loop.name) {
        refuse(state, d, "loop " + loop.name + " is not innermost", &stage, loop.name,
               "vectorize(\"" + stage.order.back() + "\", …), or reorder " + loop.name + " inside " + stage.order.back() + " first");
    }
    const auto extent = Halide::Internal::as_const_int(loop.extent);
    if (width < 0 || width > 256) {
        refuse(state, d, "the width " + std::to_string(width) + " is not a number of lanes", &stage, loop.name, "1 to 256 lanes");
    }
    if (width == 0 && !extent) {
        refuse(state, d, "the extent of loop " + loop.name + " is known only at run time, and no width and tail are given", &stage, loop.name,
               "vectorize(\"" + loop.name + "\", width), which splits it and masks the tail");
    }
    if (width == 0 && *extent > 256) {
        refuse(state, d, "loop " + loop.name + " has " + std::to_string(*extent) + " iterations, too many for one vector", &stage, loop.name,
               "vectorize(\"" + loop.name + "\", width)");
    }
    std::string lanes = loop.name;
    if (width && !(extent && *extent == width)) {
        split_loop(state, stage, d, loop.name, width, loop.name + ".o", loop.name + ".v", tail);
        lanes = loop.name + ".v";
    }
    stage.loop(lanes).kind = LoopKind::Vectorized;
    const std::string name = stage.name();
    state.obligations.push_back({index, [name, lanes](const ScheduleState &s) -> std::string {
        const StageState *stage = s.find(name);
        if (!stage || !stage->has_loop(lanes)) return "the vectorized loop " + lanes + " no longer stands";
        return stage->order.back() == lanes ? "" : "loop " + lanes + " of stage " + name + " is no longer innermost";
    }});
}

} // namespace

const Primitive vectorize_primitive = {
    "vectorize",
    "loops",
    "Runs the iterations of the innermost loop as lanes of one vector. With a width, the loop is split first and its inner part, "
    "<loop>.v, becomes the lanes; the rest of the extent is masked.",
    "The loop is serial, innermost, and does not reduce; without a width its extent is a number.",
    {{"stage", ArgumentKind::Stage, "the stage"},
     {"loop", ArgumentKind::Loop, "the loop"},
     {"width", ArgumentKind::Integer, "lanes; the whole extent when absent", true},
     {"tail", ArgumentKind::Text, "what happens at the end", true, {"auto", "guard", "mask", "shift", "pad"}}},
    apply,
    {"add", {}, {"vectorize", {{"stage", "C"}, {"loop", "j"}, {"width", 16}}, {}}},
};

} // namespace kumiko
