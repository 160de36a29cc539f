#include "dsl/extern.h"
#include "dsl/float_casts.h"
#include "dsl/print.h"
#include "dsl/reads.h"
#include "dsl/recurrence.h"
#include "schedules/candidates.h"
#include "schedules/facts.h"
#include "schedules/primitives/steps.h"
#include "schedules/schedule.h"
#include "schedules/traits.h"
#include "support/error.h"

#include <sstream>

namespace kumiko {

using namespace Halide::Internal;

std::optional<Expr> index_outside(const ScheduleState &state, const Stage &reader, const std::string &tensor,
                                  const std::vector<Expr> &read) {
    std::vector<Expr> assumed;
    for (const Assume &a : state.assumptions) assumed.push_back(a.condition);
    const Facts facts = facts_of(state.op, assumed);
    const Bounds known = facts.bounds();
    Bounds scope = facts.bounds();
    for (const auto *axes : {&reader.axes, &reader.reduction_axes}) {
        for (const Axis &a : *axes) scope.push(a.name(), Interval(0, simplify(facts.apply(a.extent()) - 1)));
    }
    const std::vector<Axis> &axes = state.axes_of(tensor);
    const StageState *stage = state.find(tensor);
    for (size_t i = 0; i < read.size(); i++) {
        if (stage && stage->def.kind == Stage::Kind::Padding && pads(stage->def, i)) continue;
        const Expr index = facts.apply(read[i]), extent = facts.apply(axes[i].extent());
        const Interval range =
            tensors_read(index).empty() ? range_of(simplified(index), scope) : Interval::everything();
        if (!range.is_bounded() || !proves(range.min >= 0, known) || !proves(range.max < extent, known)) return read[i];
    }
    return std::nullopt;
}

namespace {

struct Group {
    std::string name;
    std::vector<Axis> axes; // outermost first
};

// Parses the groups of the consumer's axes; each axis is in one group.
std::vector<Group> groups_argument(const ScheduleState &state, const StageState &reader, const Directive &d) {
    std::vector<Group> groups;
    std::set<std::string> used;
    for (const std::string text : d.arguments["groups"]) {
        Group g;
        std::istringstream words(text);
        for (std::string axis; words >> axis;) {
            const Axis *found = nullptr;
            std::string names;
            for (const auto *axes : {&reader.def.axes, &reader.def.reduction_axes}) {
                for (const Axis &a : *axes) {
                    if (a.name() == axis) found = &a;
                    names += (names.empty() ? "" : ", ") + a.name();
                }
            }
            if (!found)
                refuse(state, d, reader.name() + " has no axis \"" + axis + "\"", &reader, "", "its axes " + names);
            if (!used.insert(axis).second)
                refuse(state, d, "axis " + axis + " is named twice", &reader, "", "once each");
            if (!g.axes.empty() && !as_const_int(found->extent()))
                refuse(state, d,
                       "the extent of axis " + axis +
                           " is known only at run time, so the axes before it in its group have no constant stride",
                       &reader, "", "this axis first in its group, or in a group of its own");
            g.axes.push_back(*found);
            g.name += axis;
        }
        if (g.axes.empty()) refuse(state, d, "a group is empty", &reader, "", "axes with spaces between, \"c ky kx\"");
        if (std::any_of(groups.begin(), groups.end(), [&](const Group &other) { return other.name == g.name; }))
            refuse(state, d, "two groups are both named " + g.name, &reader, "", "groups in another order");
        groups.push_back(g);
    }
    return groups;
}

// Rejects groups that join the step of a recurrence with another axis. The index of the step would
// be a quotient, so each step would need the tensor at all of them.
void check_steps(const ScheduleState &state, const StageState &reader, const std::string &tensor,
                 const std::vector<Group> &groups, const Directive &d) {
    const std::string earlier = earlier_of(tensor);
    const StageState *made = state.producer(earlier.empty() ? tensor : earlier);
    for (const StageState &r : state.stages) {
        if (!made || !r.def.takes_steps()) continue;
        std::set<std::string> together = in_steps(state, r);
        together.insert(r.name());
        if (!together.count(made->name()) || !together.count(reader.name())) continue;
        for (const Group &g : groups) {
            const bool step =
                std::any_of(g.axes.begin(), g.axes.end(), [&](const Axis &a) { return a.name() == r.def.step_axis; });
            if (step && g.axes.size() > 1)
                refuse(state, d,
                       "axis " + r.def.step_axis + " is the step of " + r.name() + ", and later steps of " + tensor +
                           " are not computed yet",
                       &reader, "", "axis " + r.def.step_axis + " in a group of its own");
        }
    }
}

// The indices at which the reader reads the tensor; rejects several different reads.
std::vector<Expr> only_read(const ScheduleState &state, const StageState &reader, const std::string &tensor,
                            const Directive &d) {
    const std::vector<Expr> expressions = reader.def.expressions();
    const std::vector<const Call *> reads = reads_of_tensors(expressions, {tensor});
    const auto differs = [&](const Call *read) {
        return !std::equal(read->args.begin(), read->args.end(), reads[0]->args.begin(),
                           [](const Expr &a, const Expr &b) { return equal(a, b); });
    };
    if (reads.empty())
        refuse(state, d, reader.name() + " does not read " + tensor + " itself", &reader, "", "a tensor that it reads");
    if (std::any_of(reads.begin(), reads.end(), differs))
        refuse(state, d, reader.name() + " reads " + tensor + " at several places in each iteration", &reader, "",
               "place_in, which copies the region that they need");
    return reads[0]->args;
}

// The index of one axis, from the linear index of its group.
Expr digit(const Group &g, size_t at) {
    const Expr all = Variable::make(Int(32), g.name);
    int64_t inner = 1;
    for (size_t i = at + 1; i < g.axes.size(); i++) inner *= *as_const_int(g.axes[i].extent());
    Expr e = inner == 1 ? all : all / static_cast<int>(inner);
    if (at > 0) e = e % g.axes[at].extent();
    return is_const_one(g.axes[at].extent()) ? Expr(0) : simplify(e);
}

// The linear index of a group, in the form in which lowering recognises fused loops.
Expr counted(const Group &g) {
    Expr e;
    for (const Axis &a : g.axes) {
        if (is_const_one(a.extent())) continue;
        e = e.defined() ? e * a.extent() + a : Expr(a);
    }
    return e.defined() ? e : Expr(0);
}

Expr with_read(const Expr &e, const std::string &tensor, const std::string &by, const std::vector<Expr> &indices) {
    return map_reads(e, [&](const Call *read, const Expr &e) {
        return read->name == tensor ? read_tensor(read->type, by, indices) : e;
    });
}

void apply_reindex(ScheduleState &state, const Directive &d, size_t) {
    const std::string tensor = text_argument(d, "tensor"), consumer = text_argument(d, "consumer");
    tensor_argument(state, d);
    require_stage(state, d, consumer);
    StageState &reader = state.stage(consumer);
    if (is_extern(reader.def))
        refuse(state, d, consumer + " is an extern function, which reads whole arrays", nullptr, "",
               "a stage that is a formula");
    if (reader.def.kind == Stage::Kind::Padding)
        refuse(state, d, consumer + " is padding, so it is computed beyond its axes", nullptr, "",
               "the stage that reads it");
    refuse_excluded(state, d, reader, Trait::ReadsCopy);
    if (tensor == consumer || state.producer(tensor) == &reader)
        refuse_recurrence(state, d, reader, "a copy would miss the elements that it writes",
                          "reindex of another tensor that it reads");
    const std::string name = tensor + ".by." + consumer;
    if (state.find(name)) refuse(state, d, consumer + " reads " + tensor + " by its own axes already", &reader);
    const std::vector<Expr> read = only_read(state, reader, tensor, d);
    const std::vector<Group> groups = groups_argument(state, reader, d);
    // The new stage covers all values of its axes.
    if (const auto index = index_outside(state, reader.def, tensor, read))
        refuse(state, d,
               "index " + to_string(*index) + " of " + tensor +
                   " is not proved to be in bounds for all iterations of " + reader.name() +
                   ", and the new stage would compute all of them",
               &reader, "", "place_in, which copies only elements in bounds");
    check_steps(state, reader, tensor, groups, d);

    StageState made;
    made.def.name = name;
    made.def.kind = Stage::Kind::Pointwise;
    made.def.type = state.type_of(tensor);
    std::map<std::string, Expr> digits;
    std::vector<Expr> indices;
    for (const Group &g : groups) {
        Expr extent = 1;
        for (size_t i = 0; i < g.axes.size(); i++) {
            digits[g.axes[i].name()] = digit(g, i);
            extent = extent * g.axes[i].extent();
        }
        const Axis axis(g.name, simplify(extent));
        made.def.axes.push_back(axis);
        made.loops.push_back({g.name, axis.extent(), false, LoopKind::Serial});
        made.order.push_back(g.name);
        indices.push_back(counted(g));
    }
    for (const auto *axes : {&reader.def.axes, &reader.def.reduction_axes}) {
        for (const Axis &a : *axes) {
            const bool used =
                std::any_of(read.begin(), read.end(), [&](const Expr &e) { return expr_uses_var(e, a.name()); });
            if (used == (digits.count(a.name()) > 0)) continue;
            if (used)
                refuse(state, d,
                       "axis " + a.name() + ", by which " + consumer + " reads " + tensor + ", is in no group", &reader,
                       "", "each axis that the read uses, in one group");
            if (!is_const_one(a.extent()))
                refuse(state, d,
                       "the index at which " + consumer + " reads " + tensor + " does not depend on axis " + a.name(),
                       &reader, "", "groups without it");
        }
    }
    std::vector<Expr> at;
    for (const Expr &e : read) at.push_back(simplify(substitute(digits, e)));
    made.def.value = read_tensor(made.def.type, tensor, at);
    made.placement = {Placement::Kind::Inline, "", ""};
    if (reader.def.value.defined()) reader.def.value = with_read(reader.def.value, tensor, name, indices);
    for (Component &c : reader.def.components) c.term = with_read(c.term, tensor, name, indices);
    const auto position = std::find_if(state.stages.begin(), state.stages.end(),
                                       [&](const StageState &s) { return s.name() == consumer; });
    state.stages.insert(position, std::move(made));
}

} // namespace

StageHandle Schedule::reindex(const std::string &tensor, const std::string &consumer,
                              const std::vector<std::string> &groups, Place where) {
    apply({"reindex", {{"tensor", tensor}, {"consumer", consumer}, {"groups", groups}}, where});
    return StageHandle(*this, tensor + ".by." + consumer);
}

namespace {

// The axes by which the consumer reads the tensor, in all orders that a rotation makes, divided
// into groups in all ways.
Values groups_of_axes(const ScheduleState &state, const Directive &d) {
    const StageState *reader = state.find(text_argument(d, "consumer"));
    if (!reader) return {};
    std::vector<std::string> axes;
    for (const auto *some : {&reader->def.axes, &reader->def.reduction_axes}) {
        for (const Axis &a : *some) {
            bool used = false;
            for (const Expr &e : reader->def.expressions()) {
                for (const Call *read : tensor_reads(e)) {
                    used = used || (read->name == text_argument(d, "tensor") && expr_uses_var(Expr(read), a.name()));
                }
            }
            if (used) axes.push_back(a.name());
        }
    }
    Values all;
    for (size_t turn = 0; turn < axes.size(); turn++) {
        std::rotate(axes.begin(), axes.begin() + 1, axes.end());
        for (size_t joins = 0; joins < size_t(1) << (axes.size() - 1); joins++) {
            std::vector<std::string> groups = {axes[0]};
            for (size_t a = 1; a < axes.size(); a++) {
                if (joins >> (a - 1) & 1)
                    groups.back() += " " + axes[a];
                else
                    groups.push_back(axes[a]);
            }
            all.push_back(groups);
        }
    }
    return all;
}

} // namespace

const Primitive &reindex_primitive() {
    static const Primitive record = {
        "reindex",
        "memory",
        "Lets a stage read a tensor through a new inlined stage, <tensor>.by.<consumer>. "
        "That stage has one axis for each group of the consumer's axes and holds the elements that are read. "
        "With place_in, a copy of it has the order of the reads, such as the im2col columns of a convolution.",
        "The consumer is not a padding stage. "
        "It reads the tensor itself, at one index in each iteration. "
        "Every axis on which this index depends is in exactly one group. "
        "All axes of a group but the first have constant extents. "
        "The step of a recurrence is in a group of its own, if both tensors are computed step by step with it.",
        {{"tensor", ArgumentKind::Tensor, "the tensor"},
         {"consumer", ArgumentKind::Text, "the stage that reads it"},
         {"groups", ArgumentKind::Names, "the axes in groups, outermost first: \"c ky kx\" makes one axis of three"}},
        apply_reindex,
        {"conv", {}, {"reindex", {{"tensor", "X.padded"}, {"consumer", "Y"}, {"groups", {"c ky kx", "y x"}}}, {}}},
        {.order = 60, .candidates = {{"consumer", readers_of_argument}, {"groups", groups_of_axes}}},
    };
    return record;
}

} // namespace kumiko
