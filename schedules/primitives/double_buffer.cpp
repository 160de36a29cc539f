#include "schedules/primitives/steps.h"
#include "schedules/schedule.h"
#include "schedules/traits.h"

namespace kumiko {

std::string not_multi_buffered(const ScheduleState &state, const StageState &stage) {
    if (stage.placement.kind != Placement::Kind::At) return "stage " + stage.name() + " is not computed at a loop";
    const StageState &host = state.stage(stage.placement.consumer);
    const std::string &loop = stage.placement.loop;
    if (!host.has_loop(loop)) return ""; // another obligation reports this
    const LoopKind kind = host.loop(loop).kind;
    if (kind != LoopKind::Serial) return "loop " + loop + " of stage " + host.name() + " is " + kind_name(kind);
    if (const Exclusion why = excluded(state, stage, Trait::Buffered)) return why.reason;
    std::vector<const StageState *> filled = {&stage}; // and the stages computed in its loops
    for (size_t n = 0; n < filled.size(); n++) {
        for (const Expr &e : filled[n]->def.expressions()) {
            for (const std::string &t : tensors_read(with_inlined(state, e))) {
                const StageState *p = state.producer(t);
                if (!p || p->placement.kind != Placement::Kind::At) continue;
                const Placement &at = p->computed_at();
                if (p != &stage && ((p->placement.consumer == host.name() && p->placement.loop == loop) ||
                                    (at.consumer == host.name() && at.loop == loop)))
                    return (n == 0 ? "it" : filled[n]->name()) + " reads " + p->name() +
                           ", which is computed in the same loop " + loop;
                const auto holds = [&](const StageState *s) { return s->name() == p->placement.consumer; };
                if (std::any_of(filled.begin(), filled.end(), holds) &&
                    std::find(filled.begin(), filled.end(), p) == filled.end())
                    filled.push_back(p);
            }
        }
    }
    return "";
}

namespace {

void apply_double_buffer(ScheduleState &state, const Directive &d, size_t index) {
    StageState &stage = stage_argument(state, d);
    if (stage.buffers > 2)
        refuse(state, d,
               "stage " + stage.name() + " has " + std::to_string(stage.buffers) + " buffers from a pipeline already");
    if (const std::string why = not_multi_buffered(state, stage); !why.empty()) {
        refuse(state, d, why, &stage, "", "double_buffer on a stage that place_in or compute_at puts at a serial loop");
    }
    stage.buffers = 2;
    state.obligations.push_back(
        {index, [name = stage.name()](const ScheduleState &s) { return not_multi_buffered(s, *s.find(name)); }});
}

} // namespace

StageHandle &StageHandle::double_buffer(Place where) { return apply("double_buffer", nlohmann::json::object(), where); }

const Primitive &double_buffer_primitive() {
    static const Primitive record = {
        "double_buffer",
        "memory",
        "Keeps two copies of a stage that is computed at a loop. "
        "One is in use while the other is filled for the next iteration. "
        "The first copy is filled before the loop.",
        "The stage is computed at a serial loop and is not in registers. "
        "It reads no stage that is computed at the same loop.",
        {{"stage", ArgumentKind::Stage, "the stage"}},
        apply_double_buffer,
        {"matmul",
         {{"split", {{"stage", "C"}, {"loop", "k"}, {"factor", 64}}, {}},
          {"reorder", {{"stage", "C"}, {"loops", {"k.o", "i", "j", "k.i"}}}, {}},
          {"place_in", {{"tensor", "B"}, {"level", "L2"}, {"consumer", "C"}, {"loop", "k.o"}}, {}}},
         {"double_buffer", {{"stage", "B.L2"}}, {}}},
        {.order = 80},
    };
    return record;
}

} // namespace kumiko
