#include "dsl/scatter.h"

#include "dsl/stage_builder.h"
#include "dsl/type_range.h"
#include "dsl/types.h"
#include "support/error.h"

namespace kumiko {

using namespace Halide::Internal;

namespace {

// Integers of up to 32 bits are compared as i32 or u32, wider ones in their own type; axes are
// never negative.
Expr along(const Axis &at, Type index) {
    return index.bits() <= 32 && index.is_int() ? Expr(at) : cast(index, Expr(at));
}

// The axis that an expression denotes, looking through casts that preserve every index.
const Variable *plain_variable(const Expr &e) {
    const auto *cast = e.as<Cast>();
    return cast && has_all_values(cast->type, Int(32))               ? cast->value.as<Variable>()
           : cast && cast->type.is_uint() && cast->type.bits() >= 32 ? cast->value.as<Variable>()
                                                                     : e.as<Variable>();
}

// Removes x ^ 0 and x | 0, which the simplifier keeps.
Expr without_zero_bits(const Expr &e) {
    const auto *op = e.as<Call>();
    if (!op || !(op->is_intrinsic(Call::bitwise_xor) || op->is_intrinsic(Call::bitwise_or))) return e;
    return is_const_zero(op->args[1]) ? op->args[0] : is_const_zero(op->args[0]) ? op->args[1] : e;
}

Element scatter_with(const std::function<Fold> &fold, const Expr &e, const Axis &at, const Expr &index,
                     const AxisList &axes, const std::source_location &where) {
    if (!fold)
        throw UserError(where, "scatter without a reduction; legal are sum, product, maximum, minimum, or a "
                               "function that calls reduce");
    if (!e.defined() || !index.defined()) throw UserError(where, "scatter of an undefined expression or index");
    if (!index.type().is_int() && !index.type().is_uint())
        throw UserError(where, "scatter is given an index of type " + type_name(index.type()) + "; legal are integers");
    if (index.type().is_bool()) throw UserError(where, "scatter is given an index of type bool; cast it to i32");
    const Expr folded = fold(e, axes);
    const auto *call = folded.as<Call>();
    const ReductionTerm whole = call && is_reduction(call) ? decode_reduction(call) : ReductionTerm{};
    if (whole.terms.size() != 1 || whole.is_extreme())
        throw UserError(
            where, "scatter folds one value; legal are sum, product, maximum, minimum, and a reduce(…) of one value");
    const Expr identity = whole.identities.empty() ? fold_identity(whole.kind, e.type()) : whole.identities[0];
    const Expr number = index.type().bits() < 32 ? cast<int32_t>(index) : index;
    return fold(Select::make(EQ::make(number, along(at, number.type())), e, identity), axes);
}

} // namespace

Element scatter(NamedFold *fold, const Expr &e, const Axis &at, const Expr &index, const AxisList &axes,
                std::source_location where) {
    std::function<Fold> with_place;
    if (fold) with_place = [&](const Expr &x, const AxisList &over) { return fold(x, over, where); };
    return scatter_with(with_place, e, at, index, axes, where);
}

Element scatter(Fold *fold, const Expr &e, const Axis &at, const Expr &index, const AxisList &axes,
                std::source_location where) {
    return scatter_with(fold, e, at, index, axes, where);
}

std::optional<Scattered> scattered(const Stage &stage) {
    if (!stage.is_reduction() || stage.components.size() != 1) return std::nullopt;
    const Component &c = stage.components.front();
    const auto *choice = c.term.as<Select>();
    const auto *equal_to = choice ? choice->condition.as<EQ>() : nullptr;
    if (!equal_to || !equal(choice->false_value, c.identity)) return std::nullopt;
    for (const Axis &a : stage.axes) {
        for (const auto &[axis, index] : {std::pair(equal_to->a, equal_to->b), std::pair(equal_to->b, equal_to->a)}) {
            const Variable *v = plain_variable(axis);
            if (v && v->name == a.name() && !expr_uses_var(index, a.name()))
                return Scattered{a.name(), index, choice->true_value};
        }
    }
    return std::nullopt;
}

bool identity_is_neutral(const Stage &stage) {
    const Component &c = stage.components.front();
    const std::string &kind = stage.reduction_kind;
    if (kind == "sum" || kind == "product" || kind == "maximum" || kind == "minimum") return true;
    if (!c.type.is_int() && !c.type.is_uint()) return false;
    const Expr before = Variable::make(c.type, accumulator_variable(0));
    const Expr after = simplify(substitute({{term_variable(0), c.identity}}, c.combined));
    return equal(without_zero_bits(after), before);
}

} // namespace kumiko
