#include "dsl/bounded.h"

#include "dsl/float_casts.h"
#include "dsl/reach.h"
#include "dsl/reads.h"
#include "dsl/scatter.h"
#include "dsl/stage_builder.h"

namespace kumiko {

using namespace Halide::Internal;

std::pair<Expr, Expr> split_by_reads(const Expr &condition) {
    std::vector<Expr> all;
    split_into_ands(condition, all);
    std::pair<Expr, Expr> split;
    for (const Expr &e : all) {
        Expr &part = tensors_read(e).empty() ? split.first : split.second;
        part = part.defined() ? part && e : e;
    }
    return split;
}

std::vector<Expr> term_bounds(const Stage &stage) {
    const auto *choice = stage.bounded ? stage.components.front().term.as<Select>() : nullptr;
    if (!choice || scattered(stage)) return {}; // the simplifier may have folded the select
    std::vector<Expr> all, bounds;
    split_into_ands(choice->condition, all);
    const auto compares = [](const auto *op) { return op && op->a.type() == Int(32); };
    for (const Expr &e : all) {
        const bool known = compares(e.as<LE>()) || compares(e.as<LT>()) || compares(e.as<GE>()) ||
                           compares(e.as<GT>()) || compares(e.as<EQ>());
        if (known && tensors_read(e).empty()) bounds.push_back(e);
    }
    return bounds;
}

namespace {

// Expressions that are >= 0 exactly if the condition holds.
std::vector<Expr> slacks(const Expr &condition) {
    if (const auto *op = condition.as<LE>()) return {op->b - op->a};
    if (const auto *op = condition.as<LT>()) return {op->b - op->a - 1};
    if (const auto *op = condition.as<GE>()) return {op->a - op->b};
    if (const auto *op = condition.as<GT>()) return {op->a - op->b - 1};
    const auto *op = condition.as<EQ>();
    return {op->b - op->a, op->a - op->b};
}

bool stays(const Interval &i) { return i.is_single_point() || (i.is_bounded() && equal(i.min, i.max)); }

} // namespace

Interval steps_of_terms(const Stage &stage, const Axis &axis, const Scope<Interval> &scope) {
    Interval steps(0, simplify(axis.extent() - 1));
    std::map<std::string, Expr> fixed; // the other axes, if they have a single value
    Scope<Interval> others;
    for (auto v = scope.cbegin(); v != scope.cend(); ++v) {
        if (v.name() == axis.name()) continue;
        if (stays(v.value()))
            fixed[v.name()] = v.value().min;
        else
            others.push(v.name(), v.value());
    }
    for (const Expr &bound : term_bounds(stage)) {
        for (const Expr &slack : slacks(bound)) {
            const auto grows = slope_of(slack, axis.name());
            if (!grows || *grows == 0) continue;
            // The largest slack at the axis' first step; exact if no other axis ranges.
            const Expr first = simplify(substitute(fixed, simplify(substitute(axis.name(), 0, slack))));
            const Interval most =
                expr_uses_vars(first, others) ? range_of(first, others) : Interval::single_point(first);
            if (!most.has_upper_bound()) continue;
            const Expr by = static_cast<int>(*grows > 0 ? *grows : -*grows);
            if (*grows > 0)
                steps.min = max(steps.min, 0 - most.max / by); // division rounds down
            else
                steps.max = min(steps.max, most.max / by);
        }
    }
    return Interval(simplify(steps.min), simplify(steps.max));
}

bool bounds_exactly(const Expr &bound, const Axis &axis, const Scope<Interval> &scope) {
    for (const std::string &v : variables_of(bound)) {
        if (v != axis.name() && scope.contains(v) && !stays(scope.get(v))) return false;
    }
    const auto grows = slope_of(slacks(bound)[0], axis.name());
    // An equality with a coefficient other than ±1 fails at some steps between the first and the
    // last.
    return grows && *grows != 0 && (!bound.as<EQ>() || *grows == 1 || *grows == -1);
}

Expr term_where_hold(const Stage &stage, const std::vector<Expr> &bounds) {
    const auto *choice = stage.components.front().term.as<Select>();
    std::vector<Expr> all;
    split_into_ands(choice->condition, all);
    Expr rest;
    for (const Expr &e : all) {
        if (std::any_of(bounds.begin(), bounds.end(), [&](const Expr &b) { return equal(b, e); })) continue;
        rest = rest.defined() ? rest && e : e;
    }
    return rest.defined() ? Select::make(rest, choice->true_value, choice->false_value) : choice->true_value;
}

} // namespace kumiko
