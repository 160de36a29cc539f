#include "dsl/bounded.h"
#include "schedules/candidates.h"
#include "schedules/frame.h"
#include "schedules/primitives/steps.h"
#include "schedules/schedule.h"

namespace kumiko {

namespace {

using namespace Halide::Internal;

std::string axis_name(const std::string &loop) {
    std::string name = loop;
    for (char &c : name) {
        if (c == '.') c = '_';
    }
    return name;
}

void check_rfactor(const ScheduleState &state, const Directive &d, const StageState &stage, const LoopState &loop) {
    const Stage &def = stage.def;
    if (!loop.reduction) {
        refuse(state, d, "loop " + loop.name + " does not reduce", &stage, loop.name, "one of the reduction loops");
    }
    if (stage.part) {
        refuse(state, d, stage.name() + " is a region of " + stage.part->of, &stage, loop.name,
               "rfactor of a stage that is not a part of another");
    }
    if (!def.properties.associative || !def.properties.commutative) {
        refuse(state, d, "the combiner of " + stage.name() + " is not stated to be associative and commutative", &stage,
               loop.name, "state them in reduce(…, {.associative = true, .commutative = true}), if they hold");
    }
    if (loop.kind != LoopKind::Serial || !stage.finished_into.empty() || stage.accumulate || !stage.peels.empty()) {
        refuse(state, d, "other directives already rely on the reduction of " + stage.name(), &stage, loop.name,
               "rfactor before accumulate_in, finish_in, peel and unroll of its reduction loops");
    }
    for (const StageState &p : state.stages) {
        if (p.placement.kind == Placement::Kind::At && p.placement.consumer == stage.name()) {
            refuse(state, d, "stage " + p.name() + " is computed at its loop " + p.placement.loop, &stage,
                   p.placement.loop, "rfactor first, then place " + p.name());
        }
    }
}

// A reduction in two: the new stage, and what the old one then computes.
struct Halves {
    Stage partial, rest;
    std::string kept; // the reduction loop that becomes an axis of `partial`
};

// Values of the reduction axes in terms of the stage's loops, and the condition under which the
// loops stay inside the axes' extents.
struct ReductionAxes {
    std::map<std::string, Expr> values;
    Expr inside;
};

ReductionAxes reduction_axes_of(const StageState &stage) {
    const Frame frame(stage, whole_region(stage.def), "");
    ReductionAxes all{{}, const_true()};
    for (const Axis &a : stage.def.reduction_axes) all.values[a.name()] = frame.index(a.name());
    for (const Relation &r : stage.relations) {
        const auto *s = std::get_if<SplitRelation>(&r);
        if (!s || !stage.loop(s->parent).reduction) continue;
        const Expr extent = frame.extent(s->parent);
        if (!can_prove(extent % static_cast<int>(s->factor) == 0))
            all.inside = all.inside && frame.value(s->parent) < extent;
    }
    return all;
}

// The term where `inside` holds, and the identity elsewhere. Conditions without tensor reads stay
// outermost, where later passes look for them.
Expr guarded_term(const Component &c, const Expr &inside, bool bounded) {
    const auto guarded = [&](const Expr &term) {
        if (is_const_one(inside)) return term;
        return Call::make(c.type, Call::if_then_else, {inside, term, c.identity}, Call::PureIntrinsic);
    };
    const auto *bound = bounded ? c.term.as<Select>() : nullptr;
    if (!bound) return guarded(c.term);
    const auto [axes, data] = split_by_reads(bound->condition);
    const Expr value = data.defined() ? Select::make(data, bound->true_value, bound->false_value) : bound->true_value;
    return axes.defined() ? Select::make(axes, guarded(value), bound->false_value) : guarded(value);
}

Halves divide_reduction(const ScheduleState &state, const Directive &d, const StageState &stage,
                        const LoopState &loop) {
    const Stage &def = stage.def;
    ReductionAxes reduced = reduction_axes_of(stage);
    std::map<std::string, Expr> fresh; // loop → axis of the new stage
    Halves h{def, def, ""};
    Stage &partial = h.partial, &rest = h.rest;
    partial.name = stage.name() + ".rf";
    for (int n = 1; state.find(partial.name); n++) partial.name = stage.name() + ".rf" + std::to_string(n);
    partial.reduction_axes.clear();
    for (const std::string &l : stage.order) {
        const LoopState &s = stage.loop(l);
        if (!s.reduction) continue;
        const Axis axis(axis_name(l), s.extent);
        fresh[l] = axis;
        if (l == loop.name) {
            partial.axes.push_back(axis);
            h.kept = axis.name();
        } else {
            partial.reduction_axes.push_back(axis);
        }
    }
    if (partial.reduction_axes.empty()) {
        refuse(state, d, "loop " + loop.name + " is the only reduction loop of " + stage.name(), &stage, loop.name,
               "split it first, and rfactor one of the two");
    }
    for (auto &[axis, v] : reduced.values) v = substitute(fresh, v);
    const Expr inside = simplify(substitute(fresh, reduced.inside));
    std::vector<Expr> index_of_partial;
    for (const Axis &a : partial.axes) index_of_partial.push_back(a);
    for (size_t c = 0; c < def.components.size(); c++) {
        Component &p = partial.components[c];
        p.tensor = partial.name + p.tensor.substr(def.name.size()); // ".value", ".1"
        p.term = substitute(reduced.values, p.term);
        p.term = guarded_term(p, inside, partial.bounded);
        rest.components[c].term = read_tensor(p.type, p.tensor, index_of_partial);
    }
    rest.reduction_axes = {Axis(h.kept, loop.extent)};
    rest.bounded = false;
    return h;
}

// The old stage keeps its other loops; the loop over `kept` takes the place of the innermost
// reduction loop.
void fold_over(StageState &old, const std::string &kept, const Expr &extent) {
    std::vector<std::string> order;
    for (const std::string &l : old.order) {
        if (!old.loop(l).reduction) order.push_back(l);
    }
    std::erase_if(old.relations, [&](const Relation &r) {
        if (const auto *s = std::get_if<SplitRelation>(&r)) return old.loop(s->parent).reduction;
        return old.loop(std::get<FuseRelation>(r).fused).reduction;
    });
    std::erase_if(old.loops, [](const LoopState &l) { return l.reduction; });
    old.loops.push_back({kept, extent, true, LoopKind::Serial});
    const bool lanes = !order.empty() && old.loop(order.back()).kind == LoopKind::Vectorized;
    order.insert(lanes ? order.end() - 1 : order.end(), kept);
    old.order = order;
}

// The new stage, computed at the innermost loop of the old one that still encloses its reduction.
StageState stage_of_partial(const Stage &partial, const std::string &kept, const StageState &old) {
    StageState made;
    made.def = partial;
    for (const Axis &a : partial.axes) made.loops.push_back({a.name(), a.extent(), false, LoopKind::Serial});
    for (const Axis &a : partial.reduction_axes) made.loops.push_back({a.name(), a.extent(), true, LoopKind::Serial});
    for (size_t a = 0; a + 1 < partial.axes.size(); a++) made.order.push_back(partial.axes[a].name());
    for (const Axis &a : partial.reduction_axes) made.order.push_back(a.name());
    made.order.push_back(kept);
    const std::vector<std::string> &order = old.order;
    const bool lanes = order.back() != kept;
    if (order.size() > 1 && !lanes) {
        made.placement = {Placement::Kind::At, old.name(), order[order.size() - 2]};
    } else if (order.size() > 2) {
        made.placement = {Placement::Kind::At, old.name(), order[order.size() - 3]};
    }
    return made;
}

// The new stage folds over all reduction loops except one, which becomes its axis; the old stage
// folds over that one.
void apply_rfactor(ScheduleState &state, const Directive &d, size_t) {
    StageState &stage = stage_argument(state, d);
    const LoopState loop = loop_argument(stage, d);
    check_rfactor(state, d, stage, loop);
    Halves h = divide_reduction(state, d, stage, loop);
    stage.def = h.rest;
    fold_over(stage, h.kept, loop.extent);
    StageState made = stage_of_partial(h.partial, h.kept, stage);
    const std::string name = stage.name();
    const auto at =
        std::find_if(state.stages.begin(), state.stages.end(), [&](const StageState &s) { return s.name() == name; });
    state.stages.insert(at, std::move(made));
}

} // namespace

StageHandle StageHandle::rfactor(LoopName loop, Place where) {
    const auto &before = schedule_->state().stages;
    std::set<std::string> names;
    for (const StageState &s : before) names.insert(s.name());
    apply("rfactor", {{"loop", loop.name}}, where);
    for (const StageState &s : schedule_->state().stages) {
        if (!names.count(s.name())) return StageHandle(*schedule_, s.name());
    }
    throw InternalError("rfactor made no stage");
}

const Primitive &rfactor_primitive() {
    static const Primitive record = {
        "rfactor",
        "stages",
        "Splits a reduction in two. "
        "A new stage, <stage>.rf, keeps one reduction loop as an axis and folds over the others. "
        "The stage then folds over that axis. "
        "One chain of dependent steps becomes several independent chains, for lanes, copies or threads. "
        "The axis of the new stage is called like the loop, with _ for the dots.",
        "The loop is a reduction loop, and not the only one. "
        "The combiner is associative and commutative. "
        "The stage has no accumulate_in, finish_in or peel yet.",
        {{"stage", ArgumentKind::Stage, "the reduction"}, {"loop", ArgumentKind::Loop, "the loop to keep"}},
        apply_rfactor,
        {"rowsum",
         {{"split", {{"stage", "S"}, {"loop", "j"}, {"factor", 16}}, {}}},
         {"rfactor", {{"stage", "S"}, {"loop", "j.i"}}, {}}},
        {.order = 70, .candidates = {{"stage", reductions}, {"loop", reduction_loops}}},
    };
    return record;
}

} // namespace kumiko
