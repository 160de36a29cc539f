#include "schedules/values.h"

#include "dsl/types.h"
#include "support/error.h"
#include "support/names.h"

namespace kumiko {

using namespace Halide::Internal;

namespace {

bool lies_dense(const Input &in) {
    Expr step = 1;
    for (size_t d = in.axes.size(); d-- > 0;) {
        if (!can_prove(in.strides[d] == step)) return false;
        step = step * in.axes[d].extent();
    }
    return true;
}

} // namespace

Expr within(const std::string &input, int64_t min, int64_t max) {
    return Call::make(Bool(), within_call_name,
                      {StringImm::make(input), make_const(Int(64), min), make_const(Int(64), max)}, Call::PureExtern);
}

std::optional<ValuesWithin> values_condition(const Expr &e) {
    const Call *c = e.as<Call>();
    if (!c || c->name != within_call_name) return std::nullopt;
    return ValuesWithin{c->args[0].as<StringImm>()->value, {*as_const_int(c->args[1]), *as_const_int(c->args[2])}};
}

bool is_about_values(const Expr &condition) {
    struct Visitor : IRVisitor {
        using IRVisitor::visit;
        bool any = false;
        void visit(const Call *op) override { any = any || op->name == within_call_name; }
    } v;
    condition.accept(&v);
    return v.any;
}

std::string values_refused(const Op &op, const ValuesWithin &condition) {
    const Input *in = op.find_input(condition.input);
    if (!in) {
        std::vector<std::string> names;
        for (const Input &i : op.inputs()) names.push_back(i.name);
        return "there is no input \"" + condition.input + "\"" + suggest(condition.input, names);
    }
    if (!values_of(in->type))
        return "the elements of " + in->name + " are " + type_name(in->type) +
               "; legal are integers of at most 32 bits";
    if (in->inout) return in->name + " is written, so its values change; legal are inputs that are only read";
    if (!lies_dense(*in)) return "the elements of " + in->name + " are not contiguous; legal are dense arrays";
    if (condition.range.min > condition.range.max) return "no value is within these bounds";
    return "";
}

std::optional<ValueRange> values_of(Type type) {
    if (type.is_float() || type.is_bfloat() || type.is_bool() || type.bits() > 32) return std::nullopt;
    if (type.is_uint()) return ValueRange{0, (int64_t(1) << type.bits()) - 1};
    return ValueRange{-(int64_t(1) << (type.bits() - 1)), (int64_t(1) << (type.bits() - 1)) - 1};
}

namespace {

// For a stage whose elements are selected from elements and numbers, such as padding; otherwise the
// range of the type.
std::optional<ValueRange> values_of_element(const ScheduleState &state, const Expr &e) {
    if (const auto n = as_const_int(e)) return ValueRange{*n, *n};
    const Call *c = e.as<Call>();
    if (c && c->call_type == Call::Image) return values_of(state, c->name);
    if (!c || !c->is_intrinsic(Call::if_then_else) || c->args.size() != 3) return values_of(e.type());
    const auto yes = values_of_element(state, c->args[1]), no = values_of_element(state, c->args[2]);
    if (!yes || !no) return std::nullopt;
    return ValueRange{std::min(yes->min, no->min), std::max(yes->max, no->max)};
}

} // namespace

std::optional<ValueRange> values_of(const ScheduleState &state, const std::string &tensor) {
    const StageState *s = state.find(tensor);
    if (s && s->is_copy) return values_of(state, s->copied);
    if (s && s->def.value.defined() && !s->def.reads_itself()) return values_of_element(state, s->def.value);
    auto range = values_of(state.type_of(tensor));
    if (!range || !state.op.find_input(tensor)) return range;
    std::vector<Expr> all;
    for (const Assume &a : state.assumptions) split_into_ands(a.condition, all);
    for (const Expr &e : all) {
        const auto w = values_condition(e);
        if (!w || w->input != tensor) continue;
        range->min = std::max(range->min, w->range.min), range->max = std::min(range->max, w->range.max);
    }
    return range;
}

} // namespace kumiko
