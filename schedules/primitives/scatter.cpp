#include "dsl/scatter.h"

#include "dsl/print.h"
#include "dsl/stage_builder.h"
#include "schedules/candidates.h"
#include "schedules/primitives/steps.h"
#include "schedules/schedule.h"
#include "schedules/traits.h"

namespace kumiko {

namespace {

using namespace Halide::Internal;

// Why the steps of the stage cannot visit only the element that the index selects; "" if they can.
std::string broken(const ScheduleState &state, const StageState &stage, const std::string &loop) {
    const std::optional<Scattered> s = scattered(stage.def);
    if (!s || s->axis != loop)
        return "the term of " + stage.name() + " is not a value at one index along " + loop +
               " and the identity elsewhere: select(index == " + loop + ", value, identity)";
    if (!identity_is_neutral(stage.def))
        return "the combiner of " + stage.name() +
               " is not known to keep every value when it folds in the identity; legal are sums, products, extremes "
               "and "
               "other folds of integers";
    if (!stage.has_loop(loop)) return "loop " + loop + " of stage " + stage.name() + " no longer exists";
    if (stage.loop(loop).kind != LoopKind::Serial)
        return "loop " + loop + " is " + kind_name(stage.loop(loop).kind) +
               ", but each step runs only the iteration that the index selects";
    std::set<std::string> outside = variables_of(s->index);
    for (const Axis &a : stage.def.reduction_axes) outside.insert(a.name());
    for (size_t l = stage.position(loop) + 1; l < stage.order.size(); l++) {
        for (const std::string &axis : stage.axes_of(stage.order[l])) {
            if (outside.count(axis))
                return "loop " + stage.order[l] + ", on which the index " + to_string(s->index) +
                       " or the order of the steps depends, is inside loop " + loop;
        }
    }
    if (stage.accumulate && stage.accumulate->level == "registers" &&
        stage.position(stage.accumulate->loop) < stage.position(loop))
        return stage.name() + " accumulates in registers, which need constant indices";
    if (const Exclusion why = excluded(state, stage, Trait::Scattered)) return why.reason;
    for (const Peel &p : stage.peels) {
        if (p.loop == loop) return "loop " + loop + " is peeled";
    }
    for (const Prefetch &p : stage.prefetches) {
        if (p.loop == loop) return "loop " + loop + " prefetches for later iterations, but each step runs only one";
    }
    for (const StageState &p : state.stages) {
        if (p.placement.kind == Placement::Kind::At && p.placement.consumer == stage.name() &&
            stage.has_loop(p.placement.loop) && stage.position(p.placement.loop) >= stage.position(loop))
            return "stage " + p.name() + " is computed inside of loop " + loop;
    }
    return "";
}

void apply_scatter(ScheduleState &state, const Directive &d, size_t index) {
    StageState &stage = stage_argument(state, d);
    const LoopState loop = loop_argument(stage, d);
    if (!stage.scattered.empty())
        refuse(state, d, "stage " + stage.name() + " scatters along " + stage.scattered + " already", &stage, loop.name,
               "one scatter of a stage");
    if (const std::string why = broken(state, stage, loop.name); !why.empty()) {
        const auto s = scattered(stage.def);
        refuse(state, d, why, &stage, loop.name,
               s ? "loop " + s->axis + ", serial and whole, inside of the loops that reduce"
                 : "a stage made by scatter(…)");
    }
    stage.scattered = loop.name;
    state.obligations.push_back(
        {index, [name = stage.name(), l = loop.name](const ScheduleState &s) { return broken(s, *s.find(name), l); }});
}

} // namespace

StageHandle &StageHandle::scatter(LoopName loop, Place where) { return apply("scatter", {{"loop", loop.name}}, where); }

namespace {

Values scatters(const ScheduleState &state, const Directive &) {
    return stages_where(state, [](const StageState &s) { return scattered(s.def).has_value(); });
}

Values selected_axis(const ScheduleState &state, const Directive &d) {
    const auto at = scattered(state.stage(text_argument(d, "stage")).def);
    return at ? Values{at->axis} : Values();
}

// Brings the reduction loops outside of the others, then visits single elements.
std::vector<Directive> to_scatter(const ScheduleState &state, const std::vector<Directive> &) {
    std::vector<Directive> all;
    for (const StageState &s : state.stages) {
        const auto at = scattered(s.def);
        if (!at || !s.scattered.empty() || !s.has_loop(at->axis)) continue;
        std::vector<std::string> order = s.order;
        std::stable_partition(order.begin(), order.end(), [&](const std::string &l) { return s.loop(l).reduction; });
        if (order != s.order)
            all.push_back({"reorder", {{"stage", s.name()}, {"loops", order}}, {}});
        else
            all.push_back({"scatter", {{"stage", s.name()}, {"loop", at->axis}}, {}});
    }
    return all;
}

} // namespace

const Primitive &scatter_primitive() {
    static const Primitive record = {
        "scatter",
        "stages",
        "Makes each step of a scatter visit only the element that its index selects. "
        "Without it, a step visits all elements along the axis and folds the identity into the others. "
        "A step whose index is outside the axis does nothing. "
        "Loops over other axes may be lanes or parallel; the steps keep their order. "
        "For threads along the steps, rfactor first makes private results.",
        "The stage is a reduction whose term is select(index == axis, value, identity). "
        "Its combiner leaves values unchanged when it folds in the identity. "
        "The loop over the axis is not split, and is serial. "
        "It is inside the reduction loops and those on which the index depends.",
        {{"stage", ArgumentKind::Stage, "the reduction"}, {"loop", ArgumentKind::Loop, "the loop over the axis"}},
        apply_scatter,
        {"embedding_gradient",
         {{"reorder", {{"stage", "dW"}, {"loops", {"n", "v", "d"}}}, {}}},
         {"scatter", {{"stage", "dW"}, {"loop", "v"}}, {}}},
        {.order = 100, .candidates = {{"stage", scatters}, {"loop", selected_axis}}, .leading = to_scatter},
    };
    return record;
}

} // namespace kumiko
