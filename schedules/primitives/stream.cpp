#include "schedules/candidates.h"
#include "schedules/primitives/steps.h"
#include "schedules/schedule.h"
#include "schedules/traits.h"

namespace kumiko {

namespace {

// Why the stage cannot use non-temporal stores; "" if it can.
std::string impossible(const ScheduleState &state, const std::string &name) {
    const StageState &s = *state.find(name);
    if (!state.op.is_output(name)) return name + " is not an output, so it is read again inside the kernel";
    if (const Exclusion why = excluded(state, s, Trait::Streamed, name)) return why.reason;
    for (const std::string &reader : state.readers(name)) return name + " is read again, by " + reader;
    return "";
}

void apply_stream(ScheduleState &state, const Directive &d, size_t index) {
    StageState &stage = stage_argument(state, d);
    if (const std::string why = impossible(state, stage.name()); !why.empty())
        refuse(state, d, why, &stage, "", "stream of an output that nothing reads");
    stage.streamed = true;
    state.obligations.push_back(
        {index, [name = stage.name()](const ScheduleState &now) { return impossible(now, name); }});
}

} // namespace

StageHandle &StageHandle::stream(Place where) { return apply("stream", {}, where); }

namespace {

Values outputs(const ScheduleState &state, const Directive &) {
    return stages_where(state, [&](const StageState &s) { return state.op.is_output(s.name()); });
}

} // namespace

const Primitive &stream_primitive() {
    static const Primitive record = {
        "stream",
        "memory",
        "Writes whole vectors of an output with non-temporal stores. "
        "This pays for outputs that exceed the caches: a line that is written whole is not read first. "
        "Calls whose output is not aligned to 64 bytes store normally. "
        "So do stores that are not proved to be aligned to their vector.",
        "The stage is an output, computed in one piece. "
        "It is neither a reduction nor a recurrence, and no stage reads it.",
        {{"stage", ArgumentKind::Stage, "the output"}},
        apply_stream,
        {"dense", {}, {"stream", {{"stage", "Y"}}, {}}},
        {.order = 100, .candidates = {{"stage", outputs}}},
    };
    return record;
}

} // namespace kumiko
