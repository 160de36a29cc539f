#include "dsl/print.h"
#include "dsl/reach.h"
#include "dsl/reads.h"
#include "schedules/primitives/factors.h"
#include "schedules/primitives/table.h"
#include "support/error.h"

#include <fmt/format.h>

namespace kumiko {

namespace {

using namespace Halide::Internal;

// Which index of the read is the axis itself; refuses other uses of it.
size_t index_of(const ScheduleState &state, const StageState &stage, const Call *read, const std::string &axis,
                const Directive &d) {
    std::optional<size_t> at;
    bool otherwise = false;
    for (size_t i = 0; i < read->args.size(); i++) {
        const Variable *v = read->args[i].as<Variable>();
        if (v && v->name == axis && !at)
            at = i;
        else
            otherwise = otherwise || expr_uses_var(read->args[i], axis);
    }
    if (!at || otherwise)
        refuse(state, d, read->name + " is not read at axis " + axis + " itself", &stage, "",
               "an axis that is one index of the tensor and stands in no other");
    return *at;
}

// The new steps may read what the axis moves only where there is padding.
void check_reads(const ScheduleState &state, const StageState &stage, const Expr &other, const std::string &axis,
                 const Directive &d) {
    for (const Call *read : tensor_reads(other)) {
        const StageState *source = state.producer(read->name);
        for (size_t i = 0; i < read->args.size(); i++) {
            if (!expr_uses_var(read->args[i], axis)) continue;
            if (source && source->def.kind == Stage::Kind::Padding && pads(source->def, i)) continue;
            refuse(state, d,
                   fmt::format("{} is read at {}, which the new steps would take beyond its end", read->name,
                               to_string(read->args[i])),
                   &stage, "", "another factor that is padded along what the axis moves");
        }
    }
}

void apply_extend(ScheduleState &state, const Directive &d, size_t) {
    StageState &stage = stage_argument(state, d);
    const std::string name = stage.name(), tensor = text_argument(d, "tensor"), axis = text_argument(d, "axis");
    tensor_argument(state, d);
    const int64_t steps = integer_argument(d, "steps");
    const Factors factors = factors_of(state, stage, tensor, d);
    refuse_touched(state, stage, d);
    std::string names;
    Axis *reduced = nullptr;
    for (Axis &a : stage.def.reduction_axes) {
        names += (names.empty() ? "" : ", ") + a.name();
        if (a.name() == axis) reduced = &a;
    }
    if (!reduced) refuse(state, d, name + " does not reduce over an axis \"" + axis + "\"", &stage, "", names);
    const auto extent = as_const_int(reduced->extent());
    if (!extent)
        refuse(state, d, "the extent of axis " + axis + " is known only at run time", &stage, axis,
               "an axis whose extent is a number");
    if (steps <= *extent || steps > INT32_MAX)
        refuse(state, d, fmt::format("axis {} has {} steps already", axis, *extent), &stage, axis,
               fmt::format("more than {}", *extent));
    const size_t at = index_of(state, stage, factors.read, axis, d);
    const std::string longer = tensor + ".extended";
    if (state.find(longer)) refuse(state, d, "there is a stage " + longer + " already", &stage, "", "one extend");

    check_reads(state, stage, factors.other, axis, d);
    const Expr other = factors.other;
    Stage zeros = copy_of(state, tensor, longer).def; // of padding, with what it chooses
    if (zeros.kind == Stage::Kind::Padding) zeros.value = state.producer(tensor)->def.value;
    zeros.axes[at] = Axis(zeros.axes[at].name(), static_cast<int>(steps));
    const Expr inside = Expr(zeros.axes[at]) < static_cast<int>(*extent); // the tensor may have more
    zeros.value =
        Call::make(zeros.type, Call::if_then_else, {inside, zeros.value, make_zero(zeros.type)}, Call::PureIntrinsic);
    StageState made = stage_of(zeros);
    made.placement.kind = Placement::Kind::Inline;

    Stage def = stage.def;
    const Expr factor = cast(def.type, read_tensor(zeros.type, longer, factors.read->args));
    def.components[0].term = factors.first ? factor * other : other * factor;
    for (Axis &a : def.reduction_axes) {
        if (a.name() == axis) a = Axis(axis, static_cast<int>(steps));
    }
    stage = stage_of(def);
    insert_before(state, name, {made});
}

} // namespace

const Primitive &extend_primitive() {
    static const Primitive record = {
        "extend",
        "stages",
        "Gives a sum of products of integers more steps, in which one factor is zero: for instructions that take "
        "several steps at once, more than there are. The factor is read through a new inlined stage, "
        "<tensor>.extended, which place_in and prepack put into memory with its zeros; the other one is read as far "
        "as the steps go.",
        "The stage is a sum of integers whose terms are products of the tensor and something else; no directive of it "
        "yet, and no extend of the same tensor; the axis reduces, its extent is a number, and it is one index of the "
        "tensor; what else is read in the "
        "new steps is padded.",
        {{"stage", ArgumentKind::Stage, "the sum"},
         {"tensor", ArgumentKind::Tensor, "the factor that is zero"},
         {"axis", ArgumentKind::Text, "the reduction axis"},
         {"steps", ArgumentKind::Integer, "its extent then"}},
        apply_extend,
        {"conv_i8", {}, {"extend", {{"stage", "Y"}, {"tensor", "W"}, {"axis", "kx"}, {"steps", 4}}, {}}},
    };
    return record;
}

} // namespace kumiko
