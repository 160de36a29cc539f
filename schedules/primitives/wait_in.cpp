#include "machine/machine.h"
#include "schedules/candidates.h"
#include "schedules/primitives/steps.h"
#include "schedules/schedule.h"

namespace kumiko {

namespace {

// Why partial results cannot be spilled below `loop`; "" if they can.
std::string not_below(const StageState &s, const std::string &loop) {
    if (!s.has_loop(loop)) return "loop " + loop + " of stage " + s.name() + " no longer exists";
    if (s.accumulate && s.accumulate->join)
        return s.name() + " joins its rounds in the result, so it has no partial results to spill";
    if (!s.accumulate) return s.name() + " has no accumulate_in, so it has no partial results between rounds";
    const size_t at = s.position(loop);
    if (s.position(s.accumulate->loop) <= at)
        return s.name() + " accumulates at loop " + s.accumulate->loop + ", which is not inside loop " + loop;
    if (s.first_reduction() <= at)
        return "reduction loop " + s.order[s.first_reduction()] + " is not inside loop " + loop +
               ", so later rounds would not find the partial results of earlier ones";
    return "";
}

void apply_wait_in(ScheduleState &state, const Directive &d, size_t index) {
    StageState &stage = stage_argument(state, d);
    const LoopState loop = loop_argument(stage, d);
    const std::string level = text_argument(d, "level");
    level_argument(state, d);
    if (level == "registers")
        refuse(state, d, "registers cannot hold partial results between rounds", &stage, loop.name,
               "a memory level other than registers");
    if (loop.kind == LoopKind::Vectorized || loop.kind == LoopKind::Unrolled)
        refuse(state, d, "loop " + loop.name + " is " + kind_name(loop.kind), &stage, loop.name,
               "a serial or parallel loop");
    if (const std::string why = not_below(stage, loop.name); !why.empty())
        refuse(state, d, why, &stage, loop.name,
               "accumulate_in first, with rounds = \"reload\", at a loop inside of this one; and this one outside of "
               "all reduction loops");
    stage.waiting = Waiting{level, loop.name};
    state.obligations.push_back({index, [name = stage.name(), l = loop.name](const ScheduleState &s) -> std::string {
                                     return not_below(*s.find(name), l);
                                 }});
}

} // namespace

StageHandle &StageHandle::wait_in(const std::string &level, LoopName loop, Place where) {
    return apply("wait_in", {{"level", level}, {"loop", loop.name}}, where);
}

namespace {

Values accumulating(const ScheduleState &state, const Directive &) {
    return stages_where(state, [](const StageState &s) { return s.accumulate.has_value(); });
}

Values outside_of_steps(const ScheduleState &state, const Directive &d) {
    return loops_where(
        state, d, [](const StageState &s, const std::string &loop) { return s.position(loop) < s.first_reduction(); });
}

} // namespace

const Primitive &wait_in_primitive() {
    static const Primitive record = {
        "wait_in",
        "memory",
        "Spills the partial results of a reduction to a memory level between the rounds of accumulate_in. "
        "The buffer holds those that are accessed below a loop, in the order in which rounds load them. "
        "Without it they are stored in the result, whose order or width may not suit vectors.",
        "The stage accumulates inside the loop, and all its reduction loops are inside it. "
        "The loop is serial or parallel. "
        "The rounds are \"reload\".",
        {{"stage", ArgumentKind::Stage, "the reduction"},
         {"level", ArgumentKind::Level, "the memory level"},
         {"loop", ArgumentKind::Loop, "the loop below which they are stored"}},
        apply_wait_in,
        {"matmul",
         {{"tile", {{"stage", "C"}, {"loops", {"i", "j"}}, {"factors", {4, 16}}}, {}},
          {"split", {{"stage", "C"}, {"loop", "k"}, {"factor", 8}}, {}},
          {"reorder", {{"stage", "C"}, {"loops", {"i.o", "k.o", "j.o", "k.i", "i.i", "j.i"}}}, {}},
          {"accumulate_in", {{"stage", "C"}, {"level", "registers"}, {"loop", "j.o"}}, {}}},
         {"wait_in", {{"stage", "C"}, {"level", "L1"}, {"loop", "i.o"}}, {}}},
        {.order = 30, .candidates = {{"stage", accumulating}, {"loop", outside_of_steps}}},
    };
    return record;
}

} // namespace kumiko
