#include "schedules/primitives/steps.h"
#include "schedules/schedule.h"

namespace kumiko {

namespace {

// Why the store of results cannot overlap the next iteration of the loop; "" if it can.
std::string impossible(const ScheduleState &state, const std::string &name, const std::string &loop) {
    const StageState &s = *state.find(name);
    if (!s.accumulate) return "stage " + name + " has no accumulate_in";
    if (!s.has_loop(loop)) return "loop " + loop + " of stage " + name + " no longer exists";
    if (s.loop(loop).reduction) return "loop " + loop + " reduces, so results are not complete in it";
    if (s.loop(loop).kind != LoopKind::Serial)
        return "loop " + loop + " of stage " + name + " is " + kind_name(s.loop(loop).kind);
    if (s.has_loop(s.accumulate->loop) && s.position(s.accumulate->loop) < s.position(loop))
        return "the accumulators of " + name + " are kept over all iterations of loop " + loop;
    return "";
}

void apply_write_back(ScheduleState &state, const Directive &d, size_t index) {
    StageState &stage = stage_argument(state, d);
    const LoopState loop = loop_argument(stage, d);
    if (const std::string why = impossible(state, stage.name(), loop.name); !why.empty()) {
        refuse(state, d, why, &stage, loop.name,
               "accumulate_in first, then write_back at its loop or one around it that is serial and does not reduce");
    }
    stage.write_back = loop.name;
    state.obligations.push_back(
        {index, [name = stage.name(), l = loop.name](const ScheduleState &s) { return impossible(s, name, l); }});
}

} // namespace

StageHandle &StageHandle::write_back(LoopName loop, Place where) {
    return apply("write_back", {{"loop", loop.name}}, where);
}

const Primitive &write_back_primitive() {
    static const Primitive record = {
        "write_back",
        "machine",
        "Keeps two sets of accumulators in alternation. "
        "The results of one iteration are stored while the next one is computed.",
        "The stage accumulates in a memory level at this loop or inside it. "
        "The loop is serial and not a reduction loop.",
        {{"stage", ArgumentKind::Stage, "the stage"},
         {"loop", ArgumentKind::Loop, "the loop whose next iteration overlaps with the stores"}},
        apply_write_back,
        {"matmul",
         {{"reorder", {{"stage", "C"}, {"loops", {"i", "k", "j"}}}, {}},
          {"accumulate_in", {{"stage", "C"}, {"level", "L1"}, {"loop", "i"}}, {}}},
         {"write_back", {{"stage", "C"}, {"loop", "i"}}, {}}},
        {.order = 30, .architecture = "chip"},
    };
    return record;
}

} // namespace kumiko
