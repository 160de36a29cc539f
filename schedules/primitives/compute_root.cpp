#include "schedules/primitives/steps.h"
#include "schedules/schedule.h"
#include "schedules/traits.h"

namespace kumiko {

// A reduction and the consumer that is finished in it are placed together.
void place_stage(ScheduleState &state, StageState &stage, const Placement &placement) {
    stage.placement = placement;
    stage.stored = false;
    stage.computed.reset();
    StageState &loops = stage.finished_by.empty() ? stage : state.stage(stage.finished_by);
    loops.shared.reset();
    loops.placement = placement;
}

namespace {

void apply_compute_root(ScheduleState &state, const Directive &d, size_t) {
    StageState &stage = stage_argument(state, d);
    refuse_excluded(state, d, stage, Trait::Placed, "compute_root() of " + stage.finished_into);
    place_stage(state, stage, {Placement::Kind::Root, "", ""});
}

} // namespace

StageHandle &StageHandle::compute_root(Place where) { return apply("compute_root", nlohmann::json::object(), where); }

const Primitive &compute_root_primitive() {
    static const Primitive record = {
        "compute_root",
        "stages",
        "Computes all of a stage before every stage that reads it. "
        "This is the default for outputs.",
        "The stage does not run in the steps of a recurrence that reads it.",
        {{"stage", ArgumentKind::Stage, "the stage"}},
        apply_compute_root,
        {"conv", {}, {"compute_root", {{"stage", "X.padded"}}, {}}},
        {.order = 30, .places = true, .weight = 0.4},
    };
    return record;
}

} // namespace kumiko
