#include "schedules/candidates.h"
#include "schedules/online.h"
#include "schedules/own_part.h"
#include "schedules/primitives/steps.h"
#include "schedules/rounds.h"
#include "schedules/schedule.h"
#include "schedules/shared_loops.h"
#include "schedules/traits.h"

namespace kumiko {

std::string runs_outside(const ScheduleState &state, const std::string &reader, const StageState &c,
                         const std::string &loop) {
    if (reader == c.name()) return "";
    const std::string which = "stage " + reader + ", which reads it, ";
    for (const StageState *s = state.find(reader); s;) {
        // A consumer that is finished in a reduction runs in the reduction's loops, after its
        // steps.
        if (!s->finished_by.empty()) {
            s = state.find(s->finished_by);
            if (s->name() == c.name()) {
                if (s->position(loop) >= loops_around_end(state, *s))
                    return which + "is computed at the end of the reduction, outside of " + loop;
            }
        }
        if (s->name() == c.name()) return "";
        // A follower of another stage's blocks reads in that stage's loop.
        const Placement at =
            follows(*s) ? Placement{Placement::Kind::At, s->online->anchor, s->online->loop} : s->computed_at();
        if (at.kind != Placement::Kind::At) break;
        if (at.consumer == c.name()) {
            if (c.has_loop(at.loop) && c.position(at.loop) >= c.position(loop)) return "";
            return which + "is computed at loop " + at.loop + ", outside of " + loop;
        }
        s = state.find(at.consumer);
    }
    return which + "is not inside loop " + loop + " of " + c.name();
}

namespace {

// Whether later directives can place all readers of stage `name` inside loops of stage `c`: every
// path from the stage to an output goes through `c`, or through an output that can be finished in
// it.
bool may_enclose(const ScheduleState &state, const std::string &name, const StageState &c) {
    const std::vector<std::string> ends = state.consumers(c.name());
    const auto finishes = [&](const std::string &reader) { // finish_in requires equal axes
        const StageState *s = state.find(reader);
        return s && s->def.axes.size() == c.def.axes.size() &&
               std::equal(s->def.axes.begin(), s->def.axes.end(), c.def.axes.begin(),
                          [](const Axis &a, const Axis &b) { return a.name() == b.name(); });
    };
    const std::string end = c.def.is_reduction() && ends.size() == 1 && finishes(ends[0]) ? ends[0] : "";
    std::set<std::string> seen;
    std::vector<std::string> open = state.consumers(name);
    while (!open.empty()) {
        const std::string reader = open.back();
        open.pop_back();
        if (reader == c.name() || reader == end || !seen.insert(reader).second) continue;
        const StageState *s = state.find(reader);
        const std::vector<std::string> next = state.consumers(reader);
        if (reader == name || !s || next.empty() || s->def.takes_steps()) return false;
        open.insert(open.end(), next.begin(), next.end());
    }
    return name != c.name();
}

// Why a reader of `name` does not run inside loop `loop` of stage `c`; "" if all do. Readers of an
// output may also run later.
std::string read_elsewhere(const ScheduleState &state, const std::string &name, const StageState &c,
                           const std::string &loop) {
    const bool output = writes_output(state.op, state.stage(name).def);
    for (const std::string &reader : state.consumers(name)) {
        const std::string why = runs_outside(state, reader, c, loop);
        if (!why.empty() && !computed_beside(state, reader, c.name(), loop) &&
            !(output && reads_later(state, reader, c.name())))
            return why;
    }
    return "";
}

} // namespace

std::string uncovered(const ScheduleState &state, const std::string &name, const std::string &consumer,
                      const std::string &loop) {
    const StageState *c = state.find(consumer);
    if (!c) return "stage " + consumer + " is gone";
    if (!c->has_loop(loop)) return "loop " + loop + " of stage " + consumer + " no longer exists";
    if (c->loop(loop).kind == LoopKind::Vectorized) return "loop " + loop + " of stage " + consumer + " is vectorized";
    if (const std::string why = read_elsewhere(state, name, *c, loop); !why.empty()) return why;
    return writes_output(state.op, state.stage(name).def) ? not_own_part(state, name, consumer, loop) : "";
}

namespace {

// A stage that store_at stores at an outer loop is computed at a loop inside of it.
void compute_stored(ScheduleState &state, const Directive &d, size_t index, StageState &stage, const Placement &place) {
    const StageState &c = state.stage(place.consumer);
    const auto broken = [name = stage.name(), place](const ScheduleState &s) {
        return not_inside(s, name, place.consumer, place.loop);
    };
    if (const std::string why = broken(state); !why.empty()) {
        refuse(state, d, why, &c, place.loop,
               "a loop of the first stage that reads " + stage.name() +
                   " where store_at stores it, a serial loop directly inside of the loop of store_at, that loop "
                   "itself, or compute_root() first, which moves the storage");
    }
    stage.computed = place;
    state.obligations.push_back({index, [=, name = stage.name()](const ScheduleState &s) -> std::string {
                                     const StageState *stage = s.find(name);
                                     const bool here = stage && stage->computed &&
                                                       stage->computed->consumer == place.consumer &&
                                                       stage->computed->loop == place.loop;
                                     // Otherwise it has been placed elsewhere.
                                     return here ? broken(s) : "";
                                 }});
}

// Refuses a loop that does not enclose all readers, with the directives that would make it legal.
[[noreturn]] void refuse_readers(const ScheduleState &state, const Directive &d, const StageState &stage,
                                 const StageState &c, const std::string &loop, const std::string &why) {
    std::string readers, missing;
    for (const std::string &r : state.consumers(stage.name())) {
        readers += (readers.empty() ? "" : ", ") + r;
        if (runs_outside(state, r, c, loop).empty() || computed_beside(state, r, c.name(), loop)) continue;
        missing += missing.empty() ? "" : " and ";
        const bool at_end = state.stage(r).finished_by == c.name();
        missing += at_end ? c.name() + ".accumulate_in(level, \"" + loop +
                                "\") in rounds that follow the order of the steps, with at least one step (assume)"
                   : state.consumers(r).empty() ? c.name() + ".finish_in(\"" + r + "\")"
                                                : r + ".compute_at(\"" + c.name() + "\", \"" + loop + "\")";
    }
    const std::string cause = "loop " + loop + " does not enclose all that reads " + stage.name() + ": " + why,
                      legal = "a loop that encloses " + readers +
                              ", or compute_root(); after store_at, a loop of the first consumer inside of that loop";
    if (!may_enclose(state, stage.name(), c)) refuse(state, d, cause, &c, loop, legal);
    refuse_yet(state, d, cause, &c, loop, missing + ", before or after this directive; " + legal);
}

// What later directives may break; "" if nothing is broken.
std::string broken_compute_at(const ScheduleState &s, const std::string &name, const std::string &consumer,
                              const std::string &loop) {
    const StageState *stage = s.find(name);
    if (!stage || stage->placement.kind != Placement::Kind::At || stage->placement.consumer != consumer ||
        stage->placement.loop != loop)
        return ""; // placed elsewhere since
    const StageState *c = s.find(consumer);
    if (c && c->has_loop(loop) && c->loop(loop).kind == LoopKind::Vectorized)
        return "loop " + loop + " of stage " + consumer + " is now vectorized";
    return uncovered(s, name, consumer, loop);
}

void apply_compute_at(ScheduleState &state, const Directive &d, size_t index) {
    StageState &stage = stage_argument(state, d);
    refuse_excluded(state, d, stage, Trait::Moved);
    refuse_excluded(state, d, stage, Trait::Placed, "compute_at of " + stage.finished_into);
    const std::string consumer = text_argument(d, "consumer"), loop = text_argument(d, "loop");
    if (stage.def.takes_steps())
        refuse_recurrence(state, d, stage, "other stages read its earlier elements, and take each step with it",
                          "compute_root()");
    require_stage(state, d, consumer);
    const StageState &c = state.stage(consumer);
    Directive at_consumer = d;
    at_consumer.arguments["stage"] = consumer;
    loop_argument(c, at_consumer);
    if (c.loop(loop).kind == LoopKind::Vectorized) {
        refuse(state, d, "loop " + loop + " is vectorized, so nothing can be computed in it", &c, loop,
               "a loop outside of it");
    }
    if (state.consumers(stage.name()).empty())
        refuse(state, d, "no stage reads " + stage.name(), &stage, "", "compute_root()");
    if (stage.stored && stage.placement.consumer == consumer && stage.placement.loop == loop) {
        stage.computed.reset();
        return; // store_at's obligation remains
    }
    const Placement place{Placement::Kind::At, consumer, loop};
    if (stage.stored) return compute_stored(state, d, index, stage, place);
    if (const std::string why = read_elsewhere(state, stage.name(), c, loop); !why.empty())
        refuse_readers(state, d, stage, c, loop, why);
    if (const std::string why = uncovered(state, stage.name(), consumer, loop); !why.empty()) {
        refuse(state, d, why, &c, loop,
               "compute_root(), or a loop of a stage at the root where all loops so far are the outer parts of axes at "
               "which it reads " +
                   stage.name());
    }
    place_stage(state, stage, place);
    state.obligations.push_back({index, [name = stage.name(), consumer, loop](const ScheduleState &s) {
                                     return broken_compute_at(s, name, consumer, loop);
                                 }});
}

} // namespace

StageHandle &StageHandle::compute_at(const std::string &consumer, LoopName loop, Place where) {
    return apply("compute_at", {{"consumer", consumer}, {"loop", loop.name}}, where);
}

const Primitive &compute_at_primitive() {
    static const Primitive record = {
        "compute_at",
        "stages",
        "Computes a stage inside a loop of a stage that reads it. "
        "Each iteration computes the region that is needed below the loop. "
        "For a recurrence, that includes all earlier elements on which the region depends. "
        "After store_at, the stage is stored where store_at says, and compute_at may name one of three loops. "
        "A loop of its first reader: each iteration computes the part that it reads. "
        "A loop directly inside the loop of store_at: each iteration computes the planes that are new. "
        "The loop of store_at itself: each iteration computes all of the stage that is stored there.",
        "The loop exists, is not vectorized, and encloses all readers of the stage. "
        "This includes readers in the loops of stages that share it by compute_with. "
        "If later directives can still place the readers there, this directive is pending. "
        "The stage is not a recurrence whose earlier elements other stages read. "
        "An output may also be read after the loop, but iterations have to write disjoint parts of it. "
        "For this, its readers inside use plain axes as indices. "
        "The enclosing loops belong to a stage at the root and are the outer parts of such axes. "
        "After store_at, the conditions of store_at hold too.",
        {{"stage", ArgumentKind::Stage, "the stage"},
         {"consumer", ArgumentKind::Text, "the stage in whose loops it is computed"},
         {"loop", ArgumentKind::Text, "the loop of the consumer"}},
        apply_compute_at,
        {"chain", {}, {"compute_at", {{"stage", "T"}, {"consumer", "Y"}, {"loop", "i"}}, {}}},
        {.order = 10,
         .places = true,
         .ended_by = {"compute_at", "store_at", "compute_root", "inline_into"},
         .waits_for = {"store_at"},
         .candidates = {{"consumer", readers_of_argument}, {"loop", consumer_loops}}},
    };
    return record;
}

} // namespace kumiko
