#include "schedules/online.h"
#include "schedules/candidates.h"
#include "schedules/primitives/steps.h"
#include "schedules/schedule.h"
#include "schedules/traits.h"

namespace kumiko {

namespace {

using namespace Halide::Internal;

std::string axis_name(const std::string &loop, const Stage &def) {
    std::string name = loop;
    std::replace(name.begin(), name.end(), '.', '_');
    const auto taken = [&] {
        return std::any_of(def.axes.begin(), def.axes.end(), [&](const Axis &a) { return a.name() == name; });
    };
    while (taken()) name += "_";
    return name;
}

// The blocking of the anchor's axis: block * factor + element.
struct Blocks {
    std::string loop, inner;
    int64_t factor = 1;
};

Blocks blocks_of(const ScheduleState &state, const Directive &d, const StageState &stage, const LoopState &loop) {
    const std::string legal = "the outer loop of split(\"" + stage.def.reduction_axes[0].name() + "\", …)";
    for (const Relation &r : stage.relations) {
        const auto *split = std::get_if<SplitRelation>(&r);
        if (!split || split->outer != loop.name) continue;
        if (split->parent != stage.def.reduction_axes[0].name()) break;
        if (split->tail == Tail::Pad)
            refuse(state, d, "the split of loop " + split->parent + " pads its last block", &stage, loop.name,
                   "the tails guard and mask");
        return {loop.name, split->inner, split->factor};
    }
    refuse(state, d, "loop " + loop.name + " does not step through blocks of the summed axis", &stage, loop.name,
           legal);
}

// Rejects a stage that directives have changed beyond the loops around the one along the maximum.
void check_plain(const ScheduleState &state, const Directive &d, const StageState &s,
                 const std::vector<std::string> &along) {
    const auto not_yet = [&](const std::string &what) {
        refuse(state, d, what, &s, "", "online first; the part of a block is then stage " + s.name() + ".block");
    };
    for (const std::string &l : s.order) {
        if (!s.loop(l).reduction) continue;
        if (std::find(along.begin(), along.end(), l) == along.end() || s.loop(l).kind != LoopKind::Serial)
            not_yet("the reduction loops of " + s.name() + " are split or changed already");
    }
    if (s.accumulate || !s.finished_into.empty() || !s.peels.empty() || s.tensorize || s.part || s.buffers > 1)
        not_yet("other directives already rely on the reduction of " + s.name());
    for (const StageState &p : state.stages) {
        if (p.placement.kind == Placement::Kind::At && p.placement.consumer == s.name() && &p != &s)
            not_yet("stage " + p.name() + " is computed at loop " + p.placement.loop + " of " + s.name());
    }
    if (state.find(s.name() + ".block")) refuse(state, d, "there is a stage " + s.name() + ".block already");
}

// Splits the stage: it folds over blocks, and a new stage folds over the elements of each block.
StageState take_block(StageState &stage, const Blocks &b, const std::string &instead_of) {
    const Stage def = stage.def;
    const Axis &along = def.reduction_axes[0];
    const int factor = static_cast<int>(b.factor);
    const Expr n = along.extent();
    const auto known = as_const_int(n);
    const Axis block(axis_name(b.loop, def), simplify((n + factor - 1) / factor));
    const Axis element(axis_name(b.inner, def), known && *known < factor ? n : Expr(factor));
    const Expr index = block * factor + element;

    StageState made;
    made.def = def;
    made.def.name = def.name + ".block";
    made.def.axes.push_back(block);
    made.def.reduction_axes = {element};
    Component &p = made.def.components[0];
    p.tensor = made.def.name;
    p.term = substitute(along.name(), index, p.term);
    if (!can_prove(n % factor == 0) && !(known && *known < factor))
        p.term = Call::make(p.type, Call::if_then_else, {index < n, p.term, p.identity}, Call::PureIntrinsic);
    for (const Axis &a : made.def.axes) made.loops.push_back({a.name(), a.extent(), false, LoopKind::Serial});
    made.loops.push_back({element.name(), element.extent(), true, LoopKind::Serial});
    for (const LoopState &l : made.loops) made.order.push_back(l.name);

    stage.def.reduction_axes = {block};
    std::vector<Expr> indices;
    for (const Axis &a : made.def.axes) indices.push_back(a);
    stage.def.components[0].term = read_tensor(p.type, p.tensor, indices);
    std::erase_if(stage.relations, [&](const Relation &r) {
        const auto *split = std::get_if<SplitRelation>(&r);
        return split && stage.loop(split->parent).reduction;
    });
    std::vector<std::string> order;
    for (const std::string &l : stage.order) {
        if (!stage.loop(l).reduction) order.push_back(l);
        if (l == instead_of) order.push_back(block.name());
    }
    stage.order = order;
    std::erase_if(stage.loops, [](const LoopState &l) { return l.reduction; });
    stage.loops.push_back({block.name(), block.extent(), true, LoopKind::Serial});
    return made;
}

// The factor by which partial sums are rescaled when the maximum grows. `all`: the maximum, then
// the sums, of which `anchor` is the directive's stage.
Expr common_factor(const ScheduleState &state, const Directive &d, const std::vector<std::string> &all,
                   const std::string &anchor) {
    const std::string &most = all.front();
    Expr factor;
    for (const std::string &s : all) {
        const StageState &at = *state.find(s);
        if (at.online)
            refuse(state, d, s + " is online already, at loop " + at.online->loop + " of " + at.online->anchor);
        refuse_excluded(state, d, at, Trait::Online);
        if (s == most) continue;
        std::string why;
        const Expr one = rescaling_factor(state, at, *state.find(most), why);
        if (!one.defined())
            refuse(state, d, s + " cannot be rescaled when " + most + " grows: it " + why, nullptr, "",
                   "sums along the axis of " + most + " whose terms are exp(s - " + most +
                       ") times factors that do not use " + most + ", where " + most + " is the maximum of s");
        if (factor.defined() && !equal(factor, one))
            refuse(state, d,
                   "the factors exp(s - " + most + ") of " + s + " and of " + anchor + " are not of the same type");
        factor = one;
    }
    return factor;
}

// Puts followers before the anchor, and stages that need the last block after it. `all`: the
// anchor and its followers.
void order_stages(ScheduleState &state, const std::vector<std::string> &all, const std::string &anchor) {
    const std::vector<std::string> inside = between(state, anchor);
    const auto in_block = [&](const StageState &s) {
        const bool of_block = std::any_of(all.begin(), all.end(), [&](const std::string &f) {
            return f != anchor && (s.name() == f || s.name() == f + ".block");
        });
        return of_block || std::find(inside.begin(), inside.end(), s.name()) != inside.end();
    };
    const auto first =
        std::find_if(state.stages.begin(), state.stages.end(), [&](const StageState &s) { return s.name() == anchor; });
    std::stable_partition(first, state.stages.end(), in_block);
    const std::vector<std::string> late = dependent(state, anchor);
    std::stable_partition(state.stages.begin(), state.stages.end(), [&](const StageState &s) {
        return std::find(late.begin(), late.end(), s.name()) == late.end();
    });
}

void apply_online(ScheduleState &state, const Directive &d, size_t index) {
    const StageState &stage = stage_argument(state, d);
    const LoopState loop = loop_argument(stage, d);
    const std::string name = stage.name(), most = text_argument(d, "max");
    const std::vector<std::string> sums = names_argument(d, "sums");
    if (!loop.reduction || stage.def.reduction_axes.size() != 1)
        refuse(state, d, "loop " + loop.name + " does not reduce along the one axis of a sum", &stage, loop.name,
               "a reduction loop of a sum along one axis");
    require_stage(state, d, most);
    const StageState &max = *state.find(most);
    if (max.def.reduction_kind != "maximum" || !max.def.type.is_float() || max.def.reduction_axes.size() != 1)
        refuse(state, d, most + " is not a maximum of floats along one axis", nullptr, "",
               "max = maximum(s, j), of which the sums use exp(s - max)");
    if (most == name)
        refuse(state, d, name + " is the maximum itself", &stage, loop.name, "a sum that uses exp(s - max)");
    const Blocks blocks = blocks_of(state, d, stage, loop);
    std::vector<std::string> all = {most, name};
    for (const std::string &s : sums) {
        require_stage(state, d, s);
        if (s != name && std::find(all.begin(), all.end(), s) != all.end())
            refuse(state, d, s + " is named twice", nullptr, "", "each sum once");
        if (s != name) all.push_back(s);
    }
    const bool itself = std::find(sums.begin(), sums.end(), name) != sums.end();
    const Expr factor = common_factor(state, d, all, name);
    for (const std::string &s : all) {
        const StageState &at = *state.find(s);
        if (s != name)
            check_plain(state, d, at, {at.def.reduction_axes[0].name()});
        else if (itself)
            check_plain(state, d, at, {blocks.loop, blocks.inner});
    }

    const std::string at = itself ? axis_name(blocks.loop, stage.def) : blocks.loop;
    for (const std::string &s : all) {
        StageState &follower = *state.find(s);
        follower.online = Online{name, at, most, factor};
        if (s == name && !itself) continue;
        StageState block =
            take_block(follower, blocks, s == name ? blocks.loop : follower.def.reduction_axes[0].name());
        block.placement = {Placement::Kind::At, name, at};
        state.stages.insert(state.stages.begin() + (state.find(s) - state.stages.data()), std::move(block));
    }
    for (const std::string &b : between(state, name)) {
        StageState &s = *state.find(b);
        if (s.placement.kind == Placement::Kind::Inline || is_in_block(state, s, name)) continue;
        place_stage(state, s, {Placement::Kind::At, name, at});
    }
    order_stages(state, all, name);
    state.obligations.push_back({index, [name](const ScheduleState &s) { return broken_online(s, name); }});
}

} // namespace

StageHandle &StageHandle::online(const std::string &max, LoopName loop, const std::vector<std::string> &sums,
                                 Place where) {
    nlohmann::json args = {{"max", max}, {"loop", loop.name}};
    if (!sums.empty()) args["sums"] = sums;
    return apply("online", args, where);
}

namespace {

Values maxima(const ScheduleState &state, const Directive &) {
    return stages_where(state, [](const StageState &s) { return s.def.reduction_kind == "maximum"; });
}

// The stage itself, or the stage with all other sums.
Values own_sum(const ScheduleState &state, const Directive &d) {
    std::vector<std::string> all = {text_argument(d, "stage")};
    Values lists = {all};
    for (const StageState &s : state.stages) {
        if (s.name() != all[0] && s.def.reduction_kind == "sum") all.push_back(s.name());
    }
    if (all.size() > 1) lists.push_back(all);
    return lists;
}

} // namespace

const Primitive &online_primitive() {
    static const Primitive record = {
        "online",
        "stages",
        "Computes a sum, such as that of a softmax, in one pass with the maximum of its terms. "
        "The iterations of a loop are blocks. "
        "Each updates the maximum, multiplies the sum so far by exp(old maximum - new maximum), and adds its terms. "
        "Other sums of such terms are computed in the same way. "
        "The block's maximum and its parts of the named sums become stages <stage>.block with loops of their own. "
        "Stages between the maximum and the sums are computed at the loop. "
        "If the sum itself is named, it also gets such a stage. "
        "Its loop is then called like the old one, with _ for the dots. "
        "Readers of the results run after the loop. "
        "A reader computed at an outer loop runs at the end of that loop.",
        "The stage is a sum. "
        "The loop is serial and steps through blocks of the summed axis; no other reduction loop is outside it. "
        "The maximum is a reduction of floats along one axis. "
        "The terms are exp(s - max) times factors that do not use max, where max is the maximum of s. "
        "The maximum and the other sums are stored outside the loop. "
        "They are inside parallel loops that do not divide its rows.",
        {{"stage", ArgumentKind::Stage, "the sum whose loop steps through blocks"},
         {"max", ArgumentKind::Text, "the maximum"},
         {"loop", ArgumentKind::Loop, "the loop"},
         {"sums", ArgumentKind::Names, "the sums that get a stage for the part of a block", true}},
        apply_online,
        {"softmax",
         {{"inline_into", {{"stage", "e"}}, {}}, {"split", {{"stage", "total"}, {"loop", "j"}, {"factor", 32}}, {}}},
         {"online", {{"stage", "total"}, {"max", "max"}, {"loop", "j.o"}}, {}}},
        {.order = 90,
         .candidates = {{"stage", reductions}, {"max", maxima}, {"loop", reduction_loops}, {"sums", own_sum}}},
    };
    return record;
}

} // namespace kumiko
