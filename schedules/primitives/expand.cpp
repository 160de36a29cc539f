#include "schedules/primitives/expand.h"

#include "dsl/print.h"
#include "dsl/types.h"
#include "schedules/candidates.h"
#include "schedules/factors.h"
#include "schedules/primitives/steps.h"
#include "schedules/schedule.h"

#include <fmt/format.h>

namespace kumiko {

namespace {

using namespace Halide::Internal;

// A factor: an element of a tensor plus an offset that is invariant in the reduction.
struct Shifted {
    Expr element; // the read, with its cast
    Expr shift;   // undefined: 0
};

bool uses_reduction(const Stage &sum, const Expr &e) {
    return std::any_of(sum.reduction_axes.begin(), sum.reduction_axes.end(),
                       [&](const Axis &k) { return expr_uses_var(e, k.name()); });
}

std::optional<Shifted> shifted(const Stage &sum, const Expr &factor) {
    const auto plus = [](const std::optional<Shifted> &of, const Expr &shift) {
        Shifted s = *of;
        s.shift = s.shift.defined() ? s.shift + shift : shift;
        return s;
    };
    const auto divided = [&](const auto *op, bool subtract) -> std::optional<Shifted> {
        if (!uses_reduction(sum, op->b)) {
            const auto of = shifted(sum, op->a);
            return of ? std::optional(plus(of, subtract ? make_zero(sum.type) - op->b : op->b)) : std::nullopt;
        }
        if (subtract || uses_reduction(sum, op->a)) return std::nullopt;
        const auto of = shifted(sum, op->b);
        return of ? std::optional(plus(of, op->a)) : std::nullopt;
    };
    if (const auto *op = factor.as<Add>()) return divided(op, false);
    if (const auto *op = factor.as<Sub>()) return divided(op, true);
    return read_under_cast(factor) ? std::optional(Shifted{factor, {}}) : std::nullopt;
}

struct Product {
    Shifted a, b;
};

// Why the directive is illegal for the stage; "" if it is legal.
std::string against(const Stage &sum) {
    if (!sum.is_reduction() || sum.reduction_kind != "sum")
        return sum.name + " is not a sum" + (sum.is_reduction() ? ", but a " + sum.reduction_kind : "");
    if (!sum.type.is_int() && !sum.type.is_uint())
        return fmt::format("{} sums {}, whose rounding depends on the order of the terms", sum.name,
                           type_name(sum.type));
    if (sum.bounded) return sum.name + " is bounded by where, but the sums of its factors would not be";
    const auto *term = sum.components[0].term.as<Mul>();
    const auto a = term ? shifted(sum, term->a) : std::nullopt, b = term ? shifted(sum, term->b) : std::nullopt;
    const std::string terms = "the terms of " + sum.name + " are " + to_string(sum.components[0].term);
    if (!a || !b) return terms + ", not products of two elements plus or minus numbers that are the same at every step";
    if (!a->shift.defined() && !b->shift.defined()) return terms + ", in which no number is added to a factor";
    return "";
}

// Precondition: against(sum) is empty.
Product product_of(const Stage &sum) {
    const auto *term = sum.components[0].term.as<Mul>();
    return {*shifted(sum, term->a), *shifted(sum, term->b)};
}

void apply_expand(ScheduleState &state, const Directive &d, size_t) {
    StageState &stage = stage_argument(state, d);
    const std::string name = stage.name();
    const Stage sum = stage.def;
    if (const std::string why = against(sum); !why.empty())
        refuse(state, d, why, &stage, "",
               "sums of integers with terms like (cast<int32_t>(A(i, k)) - z) * cast<int32_t>(B(k, j))");
    refuse_touched(state, stage, d);
    const auto [a, b] = product_of(sum);
    const std::string of_a = name + ".rows", of_b = name + ".columns", of_both = name + ".product";
    for (const std::string &made : {of_a, of_b, of_both}) {
        if (state.find(made))
            refuse(state, d, "there is a stage " + made + " already, a name that expand uses", &stage, "",
                   "an op in which no reduction of " + name + " has that name");
    }
    std::vector<StageState> made;
    Stage both = sum;
    both.name = both.components[0].tensor = of_both;
    both.strides.clear(), both.updates.clear();
    both.components[0].term = a.element * b.element;
    made.push_back(stage_of(both));
    Stage rest;
    rest.name = name, rest.type = sum.type, rest.axes = sum.axes, rest.strides = sum.strides,
    rest.updates = sum.updates;
    rest.value = read_tensor(sum.type, of_both, {rest.axes.begin(), rest.axes.end()});
    if (b.shift.defined()) rest.value = rest.value + b.shift * sum_apart(sum, a.element, of_a, made);
    if (a.shift.defined()) rest.value = rest.value + a.shift * sum_apart(sum, b.element, of_b, made);
    if (a.shift.defined() && b.shift.defined()) {
        // Unsigned, so that constants that overflow are folded with wraparound.
        const Type wraps = sum.type.with_code(halide_type_uint);
        Expr all = cast(wraps, a.shift) * cast(wraps, b.shift);
        for (const Axis &k : sum.reduction_axes) all = all * cast(wraps, max(k.extent(), 0));
        rest.value = rest.value + cast(sum.type, all);
    }
    stage = stage_of(rest);
    insert_before(state, name, std::move(made));
}

} // namespace

bool is_shifted_product(const Stage &sum) { return against(sum).empty(); }

bool is_shifted_contraction(const Stage &sum) {
    if (!is_shifted_product(sum)) return false;
    const auto [a, b] = product_of(sum);
    const auto has_own = [&](const Shifted &of, const Shifted &other) {
        return std::any_of(sum.axes.begin(), sum.axes.end(), [&](const Axis &axis) {
            return expr_uses_var(of.element, axis.name()) && !expr_uses_var(other.element, axis.name());
        });
    };
    return has_own(a, b) && has_own(b, a);
}

StageHandle StageHandle::expand(Place where) {
    apply("expand", nlohmann::json::object(), where);
    return StageHandle(*schedule_, stage_ + ".product");
}

namespace {

Values shifted_products(const ScheduleState &state, const Directive &) {
    return stages_where(state, [](const StageState &s) { return is_shifted_product(s.def); });
}

} // namespace

const Primitive &expand_primitive() {
    static const Primitive record = {
        "expand",
        "stages",
        "Multiplies out a sum of products of two factors, each an element plus or minus a number. "
        "An example is (A - y) * (B - z) of bytes with zero points. "
        "<stage>.product sums A * B, to which instructions apply. "
        "<stage>.rows and <stage>.columns sum A and B once. "
        "The stage itself combines these sums. "
        "The result is exact, because it is an integer.",
        "The stage is a sum of integers without `where`, and has no directive yet. "
        "The numbers do not depend on the axes of the reduction. "
        "They may be read from tensors, for example one for each channel.",
        {{"stage", ArgumentKind::Stage, "the sum"}},
        apply_expand,
        {"matmul_zero_points", {}, {"expand", {{"stage", "C"}}, {}}},
        {.order = 130, .candidates = {{"stage", shifted_products}}},
    };
    return record;
}

} // namespace kumiko
