#include "schedules/primitives/steps.h"
#include "schedules/schedule.h"
#include "schedules/traits.h"

namespace kumiko {

namespace {

void apply_inline_into(ScheduleState &state, const Directive &d, size_t index) {
    StageState &stage = stage_argument(state, d);
    refuse_excluded(state, d, stage, Trait::Inlining);
    refuse_recurrence(state, d, stage, "its elements read each other, so they must be stored", "compute_root()");
    for (const StageState &p : state.stages) {
        if (p.finished_into == stage.name())
            refuse(state, d, stage.name() + " is finished in " + p.name() + " already");
        if (p.placement.kind == Placement::Kind::At && p.placement.consumer == stage.name()) {
            refuse(state, d, "stage " + p.name() + " is computed at its loop " + p.placement.loop, &stage,
                   p.placement.loop, "place " + p.name() + " elsewhere first");
        }
    }
    place_stage(state, stage, {Placement::Kind::Inline, "", ""});
    (void)index;
}

} // namespace

StageHandle &StageHandle::inline_into(Place where) { return apply("inline_into", nlohmann::json::object(), where); }

const Primitive &inline_into_primitive() {
    static const Primitive record = {
        "inline_into",
        "stages",
        "Replaces each read of a stage by its expression. "
        "The stage is not stored.",
        "The stage is not an output, a reduction or a recurrence. "
        "No other stage is computed at its loops.",
        {{"stage", ArgumentKind::Stage, "the stage"}},
        apply_inline_into,
        {"chain", {}, {"inline_into", {{"stage", "T"}}, {}}},
        {.order = 50, .places = true},
    };
    return record;
}

} // namespace kumiko
