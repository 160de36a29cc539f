#include "schedules/primitives/steps.h"
#include "schedules/schedule.h"
#include "schedules/shared_loops.h"

namespace kumiko {

namespace {

void apply_compute_with(ScheduleState &state, const Directive &d, size_t index) {
    StageState &stage = stage_argument(state, d);
    const std::string with = text_argument(d, "with"), loop = text_argument(d, "loop");
    require_stage(state, d, with);
    const StageState &leader = state.stage(with);
    Directive at_leader = d;
    at_leader.arguments["stage"] = with;
    loop_argument(leader, at_leader);
    stage.shared = SharedLoops{with, loop}; // stages computed in these loops may serve both
    if (const auto fault = loop_conflict(state, stage.name(), with, loop)) {
        const std::string legal = "stages that do not need each other, computed at one place, whose loops down to " +
                                  loop + " have the same names, extents, kinds and splits";
        if (fault->for_good) refuse(state, d, fault->why, &leader, loop, legal);
        refuse_yet(state, d, fault->why, &leader, loop, legal + ", before or after this directive");
    }
    state.obligations.push_back({index, [name = stage.name(), with, loop](const ScheduleState &s) -> std::string {
                                     const StageState *stage = s.find(name);
                                     if (!stage || !stage->shared || stage->shared->stage != with ||
                                         stage->shared->loop != loop)
                                         return ""; // placed elsewhere since
                                     const auto fault = loop_conflict(s, name, with, loop);
                                     return fault ? fault->why : "";
                                 }});
}

} // namespace

StageHandle &StageHandle::compute_with(const std::string &other, LoopName loop, Place where) {
    return apply("compute_with", {{"with", other}, {"loop", loop.name}}, where);
}

namespace {

bool same_axes(const StageState &a, const StageState &b) {
    return std::equal(a.def.axes.begin(), a.def.axes.end(), b.def.axes.begin(), b.def.axes.end(),
                      [](const Axis &x, const Axis &y) { return x.name() == y.name(); });
}

// Two stages in one nest, or a directive on loops or the place of one repeated for the other.
std::vector<Directive> to_shared_loops(const ScheduleState &state, const std::vector<Directive> &so_far) {
    std::vector<Directive> all;
    for (const StageState &a : state.stages) {
        for (const StageState &b : state.stages) {
            if (&a == &b || a.order.empty() || !same_axes(a, b)) continue;
            for (const std::string &loop : a.order) {
                if (!loop_conflict(state, b.name(), a.name(), loop))
                    all.push_back({"compute_with", {{"stage", b.name()}, {"with", a.name()}, {"loop", loop}}, {}});
            }
            for (const Directive &d : so_far) {
                const Primitive &p = primitive(d.primitive);
                if (text_argument(d, "stage") != a.name() || (p.group != std::string("loops") && !p.details.places))
                    continue;
                all.push_back(d);
                all.back().arguments["stage"] = b.name();
            }
        }
    }
    return all;
}

} // namespace

const Primitive &compute_with_primitive() {
    static const Primitive record = {
        "compute_with",
        "stages",
        "Runs a stage in the loops of another stage, from the outermost loop down to a named loop. "
        "Inside the named loop each stage has its own loops. "
        "Those of the other stage run first.",
        "Neither stage depends on the other, and both are computed at the same place. "
        "Their loops down to the named one have the same names, extents, kinds, splits and peels. "
        "If a split does not divide, its inner loop is shared too, or its tail is mask or shift. "
        "A shared loop over which only one of the stages reduces is not vectorized. "
        "If later directives can still make the loops equal, this directive is pending. "
        "compute_root of the stage ends it. "
        "The named stage does not share the loops of another stage. "
        "A third stage names the stage that owns the loops. "
        "Neither stage is a recurrence, an extern stage, or a scatter with the directive scatter. "
        "Neither is prepacked, tensorized, double-buffered or pipelined, part of online, or divided by region. "
        "Neither is computed at a loop inside the one where it is stored. "
        "No tensor is updated in place.",
        {{"stage", ArgumentKind::Stage, "the stage"},
         {"with", ArgumentKind::Text, "the stage in whose loops it runs"},
         {"loop", ArgumentKind::Text, "the innermost loop that they share"}},
        apply_compute_with,
        {"extremes", {}, {"compute_with", {{"stage", "high"}, {"with", "low"}, {"loop", "j"}}, {}}},
        {.order = 40, .ended_by = {"compute_with", "compute_root", "inline_into"}, .leading = to_shared_loops},
    };
    return record;
}

} // namespace kumiko
