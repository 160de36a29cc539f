#include "dsl/print.h"
#include "dsl/reach.h"
#include "dsl/reads.h"
#include "schedules/candidates.h"
#include "schedules/factors.h"
#include "schedules/primitives/steps.h"
#include "schedules/schedule.h"
#include "support/error.h"

#include <fmt/format.h>

namespace kumiko {

namespace {

using namespace Halide::Internal;

// The position of the index that is the axis itself; rejects other uses of the axis.
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
               "an axis that is one index of the tensor and is used in no other");
    return *at;
}

// The added steps may only read padding along the extended axis.
void check_reads(const ScheduleState &state, const StageState &stage, const Expr &other, const std::string &axis,
                 const Directive &d) {
    for (const Call *read : tensor_reads(other)) {
        const StageState *source = state.producer(read->name);
        for (size_t i = 0; i < read->args.size(); i++) {
            if (!expr_uses_var(read->args[i], axis)) continue;
            if (source && source->def.kind == Stage::Kind::Padding && pads(source->def, i)) continue;
            refuse(state, d,
                   fmt::format("{} is read at {}, which is out of bounds in the new steps", read->name,
                               to_string(read->args[i])),
                   &stage, "", "another factor that is padded along the indices that use the axis");
        }
    }
}

// A copy of the tensor, including its padding, with `steps` elements along its axis `at`; zero
// beyond `extent`.
Stage zeros_beyond(const ScheduleState &state, const std::string &tensor, size_t at, int64_t extent, int64_t steps) {
    Stage zeros = copy_of(state, tensor, tensor + ".extended").def;
    if (zeros.kind == Stage::Kind::Padding) zeros.value = state.producer(tensor)->def.value;
    zeros.axes[at] = Axis(zeros.axes[at].name(), static_cast<int>(steps));
    const Expr inside = Expr(zeros.axes[at]) < static_cast<int>(extent); // the tensor may be longer
    zeros.value =
        Call::make(zeros.type, Call::if_then_else, {inside, zeros.value, make_zero(zeros.type)}, Call::PureIntrinsic);
    return zeros;
}

void apply_extend(ScheduleState &state, const Directive &d, size_t) {
    StageState &stage = stage_argument(state, d);
    const std::string name = stage.name(), axis = text_argument(d, "axis"), with = text_argument(d, "with");
    std::vector<std::string> tensors = {text_argument(d, "tensor")};
    tensor_argument(state, d);
    if (with == tensors[0])
        refuse(state, d, "\"with\" names " + with + " too, so the other factor would be read past its end", &stage, "",
               "the other factor as \"with\"");
    if (!with.empty()) tensors.push_back(with);
    const int64_t steps = integer_argument(d, "steps");
    std::vector<Factors> factors;
    for (const std::string &tensor : tensors) factors.push_back(factors_of(state, stage, tensor, d));
    const bool exact = !stage.def.type.is_float() && !stage.def.type.is_bfloat();
    if (!exact && with.empty())
        refuse(state, d, "zero times a number that is not finite is not zero", &stage, axis,
               "the other factor as \"with\", so that both are zero");
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

    Stage def = stage.def;
    std::vector<StageState> made;
    std::vector<Expr> product = {factors[0].other, factors[0].other}; // in the order of the factors
    for (size_t n = 0; n < tensors.size(); n++) {
        const size_t at = index_of(state, stage, factors[n].read, axis, d);
        const std::string longer = tensors[n] + ".extended";
        if (state.find(longer)) refuse(state, d, "there is a stage " + longer + " already", &stage, "", "one extend");
        if (with.empty()) check_reads(state, stage, factors[n].other, axis, d);
        made.push_back(stage_of(zeros_beyond(state, tensors[n], at, *extent, steps)));
        made.back().placement.kind = Placement::Kind::Inline;
        product[factors[n].first ? 0 : 1] =
            cast(def.type, read_tensor(made.back().def.type, longer, factors[n].read->args));
    }
    def.components[0].term = product[0] * product[1];
    for (Axis &a : def.reduction_axes) {
        if (a.name() == axis) a = Axis(axis, static_cast<int>(steps));
    }
    stage = stage_of(def);
    insert_before(state, name, std::move(made));
}

} // namespace

StageHandle StageHandle::extend(const std::string &tensor, const std::string &axis, int64_t steps,
                                const std::string &with, Place where) {
    nlohmann::json args = {{"tensor", tensor}, {"axis", axis}, {"steps", steps}};
    if (!with.empty()) args["with"] = with;
    apply("extend", args, where);
    return StageHandle(*schedule_, tensor + ".extended");
}

namespace {

// Some steps more along each axis of products of two tensors, with zeros in both.
std::vector<Directive> to_longer_sums(const ScheduleState &state, const std::vector<Directive> &so_far) {
    std::vector<Directive> all;
    for (const nlohmann::json &stage : sums_of_products(state, {})) {
        const Directive d = {"extend", {{"stage", stage}}, {}};
        const Values tensors = factor_tensors(state, d);
        for (const Axis &a : state.stage(stage).def.reduction_axes) {
            const auto extent = as_const_int(a.extent());
            if (!extent || tensors.size() != 2) continue;
            for (const int64_t more : {1, 2, 5}) {
                all.push_back(d);
                all.back().arguments.update(nlohmann::json{
                    {"tensor", tensors[0]}, {"axis", a.name()}, {"steps", *extent + more}, {"with", tensors[1]}});
            }
        }
    }
    return all;
}

Values reduced_axes(const ScheduleState &state, const Directive &d) {
    Values names;
    for (const Axis &a : state.stage(text_argument(d, "stage")).def.reduction_axes) names.push_back(a.name());
    return names;
}

Values longer(const ScheduleState &state, const Directive &d) {
    Values all;
    for (const Axis &a : state.stage(text_argument(d, "stage")).def.reduction_axes) {
        const auto extent = as_const_int(a.extent());
        for (int64_t more = 1; extent && a.name() == text_argument(d, "axis") && more <= 5; more++)
            all.push_back(*extent + more);
    }
    return all;
}

} // namespace

const Primitive &extend_primitive() {
    static const Primitive record = {
        "extend",
        "stages",
        "Gives a sum of products more steps, in which one factor or both are zero. "
        "This serves instructions that compute several steps at once. "
        "The factor is read through a new inlined stage, <tensor>.extended. "
        "place_in, compute_root and prepack store that stage in memory with its zeros. "
        "The other factor is read at the new steps too, unless it is also named.",
        "The stage is a sum whose terms are products of the tensor and another factor. "
        "For floats both factors are named. "
        "The stage has no directive yet, and no extend of the same tensors. "
        "The axis is a reduction axis of constant extent and a plain index of the tensors. "
        "Other tensors that are read in the new steps are padded.",
        {{"stage", ArgumentKind::Stage, "the sum"},
         {"tensor", ArgumentKind::Tensor, "the factor that is zero"},
         {"axis", ArgumentKind::Text, "the reduction axis"},
         {"steps", ArgumentKind::Integer, "the new extent"},
         {"with", ArgumentKind::Text, "the other factor, which is zero there too", true}},
        apply_extend,
        {"conv_i8", {}, {"extend", {{"stage", "Y"}, {"tensor", "W"}, {"axis", "kx"}, {"steps", 4}}, {}}},
        {.order = 120,
         .candidates = {{"stage", sums_of_products},
                        {"tensor", factor_tensors},
                        {"axis", reduced_axes},
                        {"steps", longer},
                        {"with", factor_tensors}},
         .leading = to_longer_sums},
    };
    return record;
}

} // namespace kumiko
