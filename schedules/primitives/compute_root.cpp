#include "schedules/primitives/table.h"

namespace kumiko {

namespace {

void apply(ScheduleState &state, const Directive &d, size_t) {
    StageState &stage = stage_argument(state, d);
    stage.placement = {Placement::Kind::Root, "", ""};
}

} // namespace

const Primitive compute_root_primitive = {
    "compute_root",
    "stages",
    "Computes all of a stage, before everything that reads it.",
    "Nothing.",
    {{"stage", ArgumentKind::Stage, "the stage"}},
    apply,
    {"conv", {}, {"compute_root", {{"stage", "X.padded"}}, {}}},
};

} // namespace kumiko
