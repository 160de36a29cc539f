#include "schedules/primitives/table.h"
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
    if (const auto fault = apart(state, stage.name(), with, loop)) {
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
                                     const auto fault = apart(s, name, with, loop);
                                     return fault ? fault->why : "";
                                 }});
}

} // namespace

const Primitive &compute_with_primitive() {
    static const Primitive record = {
        "compute_with",
        "stages",
        "Runs a stage in the loops of another stage, from the outermost loop down to a named loop. Inside the named "
        "loop each stage has its own loops. Those of the other stage run first.",
        "Neither stage needs the other; both are computed at one place, and their loops down to that one have the same "
        "names, extents, kinds, splits and peels. A split that does not divide is shared down to its inner loop, or "
        "has "
        "a tail of its own (mask, shift). Of loops of one name that only one stage reduces over, none is vectorized. "
        "While later directives can still make them so, this one "
        "is pending; compute_root of the stage ends it. The named stage shares the loops of no other. Neither "
        "is a recurrence, an extern stage, a scatter's visit of named elements, computed online, in parts or at a loop "
        "inside of where it is kept, prepacked, tensorized or filled ahead, and no tensor is updated in place. "
        "A third "
        "stage names the stage whose loops these are.",
        {{"stage", ArgumentKind::Stage, "the stage"},
         {"with", ArgumentKind::Text, "the stage in whose loops it runs"},
         {"loop", ArgumentKind::Text, "the innermost loop that they share"}},
        apply_compute_with,
        {"extremes", {}, {"compute_with", {{"stage", "high"}, {"with", "low"}, {"loop", "j"}}, {}}},
    };
    return record;
}

} // namespace kumiko
