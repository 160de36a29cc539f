// Decomposes the terms of sums into one factor exp(s - max) and a rest that does not use the
// maximum.
#include "dsl/reads.h"
#include "schedules/online.h"

namespace kumiko {

using namespace Halide::Internal;

namespace {

// Substitutes the expression for every read of a pointwise stage.
Expr expanded(const ScheduleState &state, const Expr &e) {
    return map_reads(e, [&](const Call *read, const Expr &e) {
        const StageState *s = state.find(read->name);
        if (!s || s->def.kind != Stage::Kind::Pointwise || !s->def.value.defined() || s->def.reads_itself()) return e;
        std::map<std::string, Expr> index;
        for (size_t d = 0; d < read->args.size(); d++) index[s->def.axes[d].name()] = read->args[d];
        return expanded(state, substitute(index, s->def.value));
    });
}

// Whether `e` depends on a stage, directly or through other stages.
bool depends(const ScheduleState &state, const Expr &e, const std::string &on, std::set<std::string> &seen) {
    for (const std::string &t : tensors_read(e)) {
        const StageState *s = state.producer(t);
        if (!s || !seen.insert(s->name()).second) continue;
        if (s->name() == on) return true;
        for (const Expr &x : s->def.expressions()) {
            if (depends(state, x, on, seen)) return true;
        }
    }
    return false;
}

// Decomposes the term of a sum into one factor exp(s − max) and a rest that does not use max.
struct Terms {
    const ScheduleState &state;
    const StageState &max;
    Expr maximised; // the term of max at the sum's indices
    Expr factor;
    std::string why;

    bool fail(const std::string &text) {
        if (why.empty()) why = text;
        return false;
    }
    bool free(const Expr &e) const { return !depends_on(state, e, max.name()); }

    // Whether e is linear in one factor, with coefficients that do not use max.
    bool linear(const Expr &e) {
        if (const auto *call = e.as<Call>(); call && call->call_type != Call::Image && call->name.starts_with("exp_f"))
            return weight(*call);
        if (const auto *op = e.as<Mul>()) {
            if (free(op->b)) return linear(op->a);
            if (free(op->a)) return linear(op->b);
            return fail("uses it in both factors of a product");
        }
        if (const auto *op = e.as<Div>(); op && free(op->b)) return linear(op->a);
        if (const auto *op = e.as<Add>()) return linear(op->a) && linear(op->b);
        if (const auto *op = e.as<Sub>()) return linear(op->a) && linear(op->b);
        if (const auto *op = e.as<Cast>(); op && op->type.is_float() && op->value.type().is_float())
            return linear(op->value);
        if (const auto *op = e.as<Select>(); op && free(op->condition)) {
            const auto zero = [](const Expr &x) { return is_const_zero(x); };
            return (zero(op->true_value) || linear(op->true_value)) &&
                   (zero(op->false_value) || linear(op->false_value));
        }
        return fail(free(e) ? "has a term without exp(s - " + max.name() + ")"
                            : "uses it outside of a factor exp(s - " + max.name() + ")");
    }

    bool weight(const Call &call) {
        const auto *difference = call.args[0].as<Sub>();
        Expr top = difference ? difference->b : Expr(), value = difference ? difference->a : Expr(), s = maximised;
        const auto *cast = top.defined() ? top.as<Cast>() : nullptr;
        const auto *read = top.defined() ? (cast ? cast->value : top).as<Call>() : nullptr;
        if (!read || read->name != max.name()) return fail("has an exp whose argument is not a difference to it");
        for (size_t d = 0; d < read->args.size(); d++) {
            const auto *v = read->args[d].as<Variable>();
            if (!v || v->name != max.def.axes[d].name())
                return fail("reads it at indices other than " + max.def.axes[d].name());
        }
        if (cast) s = Cast::make(cast->type, s);
        if (!equal(value, s)) return fail("subtracts it from a value of which it is not the maximum");
        const Expr before = Variable::make(read->type, maximum_before), now = Variable::make(read->type, maximum_now);
        const auto in = [&](const Expr &e) { return cast ? Cast::make(cast->type, e) : e; };
        const Expr one = Call::make(call.type, call.name, {in(before)-in(now)}, call.call_type);
        if (factor.defined() && !equal(factor, one)) return fail("has such factors of different types");
        factor = one;
        return true;
    }
};

} // namespace

bool depends_on(const ScheduleState &state, const Expr &e, const std::string &stage) {
    std::set<std::string> seen;
    return depends(state, e, stage, seen);
}

Expr rescaling_factor(const ScheduleState &state, const StageState &sum, const StageState &max, std::string &why) {
    const Stage &s = sum.def, &m = max.def;
    const std::string along = m.reduction_axes.empty() ? "" : m.reduction_axes[0].name();
    if (!s.is_reduction() || s.reduction_kind != "sum") return why = "is not a sum", Expr();
    if (s.reduction_axes.size() != 1 || !can_prove(s.reduction_axes[0].extent() == m.reduction_axes[0].extent()))
        return why = "is not a sum along as many elements as those of which " + m.name + " is the maximum, " + along,
               Expr();
    std::map<std::string, Expr> rename = {{along, s.reduction_axes[0]}};
    for (const Axis &a : m.axes) {
        const auto same = std::find_if(s.axes.begin(), s.axes.end(), [&](const Axis &b) {
            return a.name() == b.name() && can_prove(a.extent() == b.extent());
        });
        if (same == s.axes.end()) return why = "has no axis " + a.name() + ", which " + m.name + " has", Expr();
    }
    Terms t{state, max, substitute(rename, expanded(state, m.components[0].term)), {}, {}};
    const bool good = t.linear(expanded(state, s.components[0].term));
    why = t.why;
    return good ? t.factor : Expr();
}

} // namespace kumiko
