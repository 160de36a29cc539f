#include "machine/machine.h"
#include "schedules/candidates.h"
#include "schedules/primitives/steps.h"
#include "schedules/schedule.h"

namespace kumiko {

namespace {

// Empty if `lanes` is the innermost loop of the stage.
std::string not_innermost(const ScheduleState &s, const std::string &name, const std::string &lanes) {
    const StageState *stage = s.find(name);
    if (!stage || !stage->has_loop(lanes)) return "the vectorized loop " + lanes + " no longer exists";
    return stage->order.back() == lanes ? "" : "loop " + lanes + " of stage " + name + " is no longer innermost";
}

// Moves the partial results per lane into a new stage, with a horizontal reduction after the loop.
void vectorize_reduction(ScheduleState &state, StageState &stage, const Directive &d, const LoopState &loop,
                         int64_t width, size_t index) {
    if (!stage.def.properties.associative || !stage.def.properties.commutative) {
        refuse(state, d,
               "loop " + loop.name + " reduces, and the combiner of " + stage.name() +
                   " is not stated to be associative and commutative, so its steps cannot be spread over lanes",
               &stage, loop.name, "a loop that does not reduce, or state the combiner's properties in reduce(…)");
    }
    if (const Tail tail = tail_from_name(text_argument(d, "tail", "auto")); tail != Tail::Auto && tail != Tail::Mask) {
        refuse(state, d, std::string("lanes that reduce are masked at the end, not ") + tail_name(tail), &stage,
               loop.name, "no tail, or Tail::Mask");
    }
    if (const auto extent = known_extent(state, loop);
        extent && *extent == width && joins_lanes(stage.def, *state.machine)) {
        stage.loop(loop.name).kind = LoopKind::Vectorized; // the whole loop is one vector
        state.obligations.push_back(
            {index, [n = stage.name(), l = loop.name](const ScheduleState &now) { return not_innermost(now, n, l); }});
        return;
    }
    split_loop(state, stage, d, loop.name, width, loop.name + ".o", loop.name + ".v", Tail::Auto);
    const bool whole = known_extent(state, loop).value_or(1) % width == 0 && known_extent(state, loop);
    Directive rf = d;
    rf.primitive = "rfactor";
    rf.arguments = {{"stage", stage.name()}, {"loop", loop.name + ".v"}};
    const std::string name = stage.name();
    std::set<std::string> before;
    for (const StageState &s : state.stages) before.insert(s.name());
    primitive("rfactor").apply(state, rf, index);
    for (StageState &s : state.stages) {
        if (before.count(s.name())) continue;
        const std::string lanes = s.order.back();
        s.loop(lanes).kind = LoopKind::Vectorized;
        std::string outer = loop.name + ".o";
        std::replace(outer.begin(), outer.end(), '.', '_');
        if (!whole) s.peels.push_back({outer, 0, 1}); // only the last step has lanes past the end
        state.obligations.push_back(
            {index, [n = s.name(), lanes](const ScheduleState &now) { return not_innermost(now, n, lanes); }});
    }
    StageState &join = state.stage(name);
    const std::string kept = join.order.back();
    const bool simple = joins_lanes(join.def, *state.machine);
    join.loop(kept).kind = simple ? LoopKind::Vectorized : LoopKind::Unrolled;
    if (simple)
        state.obligations.push_back(
            {index, [name, kept](const ScheduleState &now) { return not_innermost(now, name, kept); }});
}

void apply_vectorize(ScheduleState &state, const Directive &d, size_t index) {
    StageState &stage = stage_argument(state, d);
    LoopState loop = loop_argument(stage, d);
    const int64_t width = integer_argument(d, "width");
    const Tail tail = tail_from_name(text_argument(d, "tail", "auto"));
    if (loop.kind != LoopKind::Serial) {
        refuse(state, d, "loop " + loop.name + " is already " + kind_name(loop.kind), &stage, loop.name,
               "a serial loop");
    }
    const auto extent = known_extent(state, loop);
    if (width < 0 || width > 256) {
        refuse(state, d, "the width " + std::to_string(width) + " is not a number of lanes", &stage, loop.name,
               "1 to 256 lanes");
    }
    if (width == 0 && !extent) {
        refuse(state, d,
               "the extent of loop " + loop.name + " is known only at run time, and no width and tail are given",
               &stage, loop.name, "vectorize(\"" + loop.name + "\", width), which splits it and masks the tail");
    }
    if (width == 0 && *extent > 256) {
        refuse(state, d,
               "loop " + loop.name + " has " + std::to_string(*extent) + " iterations, too many for one vector", &stage,
               loop.name, "vectorize(\"" + loop.name + "\", width)");
    }
    if (const std::string &innermost = stage.order.back(); innermost != loop.name) {
        const std::string cause = "loop " + loop.name + " is not innermost";
        if (stage.loop(innermost).kind == LoopKind::Vectorized)
            refuse(state, d, cause, &stage, loop.name, "reorder " + loop.name + " inside " + innermost + " first");
        refuse_yet(state, d, cause, &stage, loop.name,
                   "vectorize(\"" + innermost + "\", …), or reorder " + loop.name + " inside " + innermost +
                       ", before or after this directive");
    }
    if (loop.reduction) return vectorize_reduction(state, stage, d, loop, width ? width : *extent, index);
    std::string lanes = loop.name;
    if (width && !(extent && *extent == width)) {
        if (tail == Tail::Guard) {
            refuse(state, d, "a guard skips iterations one by one, and the lanes of a vector run together", &stage,
                   loop.name, "no tail, or the tails mask, shift and pad");
        }
        split_loop(state, stage, d, loop.name, width, loop.name + ".o", loop.name + ".v", tail);
        if (tail == Tail::Shift) check_repeated_sums(state, stage, d, index, loop.name, loop.name + ".o");
        lanes = loop.name + ".v";
    }
    stage.loop(lanes).kind = LoopKind::Vectorized;
    state.obligations.push_back(
        {index, [name = stage.name(), lanes](const ScheduleState &s) { return not_innermost(s, name, lanes); }});
}

} // namespace

StageHandle &StageHandle::vectorize(LoopName loop, int64_t width, Tail tail, Place where) {
    nlohmann::json args = {{"loop", loop.name}};
    if (width) args["width"] = width;
    if (tail != Tail::Auto) args["tail"] = tail_name(tail);
    return apply("vectorize", args, where);
}

namespace {

std::string vectorize_cpp(const Directive &d) {
    std::string args = cpp_arguments(d, {"tail"});
    if (d.arguments.contains("tail")) args += (d.arguments.contains("width") ? ", " : ", 0, ") + cpp_tail(d);
    return cpp_call(d, args);
}

} // namespace

namespace {

Values innermost_loop(const ScheduleState &state, const Directive &d) {
    const std::vector<std::string> &order = state.stage(text_argument(d, "stage")).order;
    return order.empty() ? Values() : Values{order.back()};
}

} // namespace

const Primitive &vectorize_primitive() {
    static const Primitive record = {
        "vectorize",
        "loops",
        "Runs the iterations of the innermost loop as lanes of one vector. "
        "With a width, the loop is split first and its inner part, <loop>.v, becomes the lanes. "
        "The rest of the extent is masked. "
        "Lanes of a reduction loop are partial results. "
        "They become the stage <stage>.rf, as by rfactor, and are combined after the loop.",
        "The loop is serial and innermost. "
        "While it is not innermost, the directive is pending, and the loops that a width makes do not exist. "
        "Its iterations do not read each other's results, as those along a scan do. "
        "Without a width its extent is constant. "
        "For a reduction loop the conditions of rfactor hold.",
        {{"stage", ArgumentKind::Stage, "the stage"},
         {"loop", ArgumentKind::Loop, "the loop"},
         {"width", ArgumentKind::Integer, "the number of lanes; the whole extent by default", true},
         {"tail", ArgumentKind::Text, "the tail strategy", true, {"auto", "guard", "mask", "shift", "pad"}}},
        apply_vectorize,
        {"add", {}, {"vectorize", {{"stage", "C"}, {"loop", "j"}, {"width", 16}}, {}}},
        {.order = 60,
         .cpp = vectorize_cpp,
         .candidates = {{"loop", innermost_loop},
                        {"width", numbers_of<2, 3, 4, 4, 5, 7, 8, 8, 8, 12, 16, 16, 32>, 0.25},
                        {"tail", nullptr, 0.4}}},
    };
    return record;
}

} // namespace kumiko
