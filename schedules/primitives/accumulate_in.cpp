#include "machine/machine.h"
#include "schedules/candidates.h"
#include "schedules/facts.h"
#include "schedules/loop_geometry.h"
#include "schedules/primitives/steps.h"
#include "schedules/schedule.h"
#include "schedules/storage.h"

namespace kumiko {

namespace {

using namespace Halide::Internal;

// An axis along which the loops inside `loop` can touch an unbounded number of elements; "" if
// there is none. For a stage computed at a loop this depends on its consumer, and is checked during
// lowering.
std::string unbounded_axis(const ScheduleState &state, const std::string &name, const std::string &loop) {
    if (state.stage(name).placement.kind != Placement::Kind::Root) return "";
    std::vector<Expr> assumed;
    for (const Assume &a : state.assumptions) assumed.push_back(a.condition);
    const Facts facts = facts_of(state.op, assumed);
    const ScheduleState known = facts.apply(state);
    const StageState &s = known.stage(name);
    const Frame frame(s, whole_region(s.def), "");
    Bounds bounds = facts.bounds();
    for (const std::string &l : s.order) bounds.push(l, Interval(0, simplify(frame.extent(l) - 1)));
    const auto bounded = [&](const Expr &extent) {
        return upper_bound_of(simplify_index(extent, bounds), bounds).has_value();
    };
    const std::vector<std::string> loops = accumulator_loops(s, s.position(loop) + 1);
    for (const std::string &l : loops) {
        if (!bounded(frame.extent(l))) return s.axes_of(l).front();
    }
    if (!loops.empty()) return "";
    for (const Axis &a : s.def.axes) {
        const Interval i = frame.axis_interval(a.name(), s.position(loop) + 1, bounds);
        if (!bounded(i.max - i.min + 1)) return a.name();
    }
    return "";
}

// Whether there is a reduction loop inside `loop`.
bool reduces_inside(const StageState &stage, const std::string &loop) {
    return std::any_of(stage.order.begin() + stage.position(loop) + 1, stage.order.end(),
                       [&](const std::string &l) { return stage.loop(l).reduction; });
}

std::string not_in_registers(const std::string &axis, const std::string &loop) {
    return "the number of elements along axis " + axis + " inside loop " + loop +
           " is known only at run time, and registers need constant indices";
}

void apply_accumulate_in(ScheduleState &state, const Directive &d, size_t index) {
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
    if (!reduces_inside(stage, loop.name)) {
        refuse(state, d, "no reduction loop is inside loop " + loop.name + ", so nothing accumulates there", &stage,
               loop.name, "a loop outside of a reduction loop");
    }
    const bool join = text_argument(d, "rounds", "reload") == "join";
    if (join && !stage.def.properties.associative) {
        refuse(state, d,
               "the combiner of " + stage.name() +
                   " is not stated to be associative, so its partial results cannot be "
                   "joined",
               &stage, loop.name, "\"reload\", or state the combiner's properties in reduce(…)");
    }
    if (level == "registers") {
        if (const std::string axis = unbounded_axis(state, stage.name(), loop.name); !axis.empty()) {
            refuse(state, d, not_in_registers(axis, loop.name), &stage, loop.name,
                   "a deeper loop, or a split of " + axis + " by a constant first");
        }
    }
    stage.accumulate = Accumulate{level, loop.name, join};
    const LastAnswer<std::string> unbounded;
    state.obligations.push_back(
        {index, [name = stage.name(), l = loop.name, unbounded](const ScheduleState &s) -> std::string {
             const StageState *stage = s.find(name);
             if (!stage->has_loop(l)) return "loop " + l + " of stage " + name + " no longer exists";
             if (!reduces_inside(*stage, l)) return "no reduction loop is inside loop " + l + " any more";
             if (!stage->accumulate || stage->accumulate->level != "registers") return "";
             const std::string axis =
                 unbounded.get_or_compute(LoopGeometry(s, *stage), [&] { return unbounded_axis(s, name, l); });
             return axis.empty() ? "" : not_in_registers(axis, l);
         }});
}

} // namespace

StageHandle &StageHandle::accumulate_in(const std::string &level, LoopName loop, const std::string &rounds,
                                        Place where) {
    nlohmann::json args = {{"level", level}, {"loop", loop.name}};
    if (rounds != "reload") args["rounds"] = rounds;
    return apply("accumulate_in", args, where);
}

Schedule &Schedule::accumulate_in(const std::string &stage, const std::string &level, LoopName loop,
                                  const std::string &rounds, Place where) {
    nlohmann::json args = {{"stage", stage}, {"level", level}, {"loop", loop.name}};
    if (rounds != "reload") args["rounds"] = rounds;
    return apply({"accumulate_in", args, where});
}

const Primitive &accumulate_in_primitive() {
    static const Primitive record = {
        "accumulate_in",
        "memory",
        "Keeps the partial results of a reduction that are accessed below a loop in a memory level. "
        "They begin with the identity, or with the results of an earlier round if a reduction loop is outside. "
        "They are stored after the loop. "
        "With rounds = \"join\" every round begins with the identity and adds the earlier results when it stores. "
        "So it does not wait for the loads of these. "
        "In \"registers\", loops over the accumulators are unrolled.",
        "The stage is a reduction. "
        "The loop is serial or parallel, and a reduction loop is inside it. "
        "In registers, the accumulators below the loop have a constant size. "
        "\"join\" requires an associative combiner.",
        {{"stage", ArgumentKind::Stage, "the reduction"},
         {"level", ArgumentKind::Level, "the memory level"},
         {"loop", ArgumentKind::Loop, "the loop below which they are kept"},
         {"rounds",
          ArgumentKind::Text,
          "how a round combines with earlier ones: \"reload\" at its begin, or \"join\" at its end",
          true,
          {"reload", "join"}}},
        apply_accumulate_in,
        {"matmul",
         {{"tile", {{"stage", "C"}, {"loops", {"i", "j"}}, {"factors", {4, 16}}}, {}},
          {"reorder", {{"stage", "C"}, {"loops", {"i.o", "j.o", "k", "i.i", "j.i"}}}, {}}},
         {"accumulate_in", {{"stage", "C"}, {"level", "registers"}, {"loop", "j.o"}}, {}}},
        {.order = 20, .candidates = {{"stage", reductions}}},
    };
    return record;
}

} // namespace kumiko
