#include "schedules/linear.h"

#include "dsl/reads.h"

namespace kumiko {

using namespace Halide::Internal;

namespace {

// Beyond this, int32 arithmetic is left to the simplifier.
constexpr int64_t largest = int64_t(1) << 31;

} // namespace

std::optional<int64_t> number_of(const Expr &e) {
    if (e.type() != Int(32)) return std::nullopt;
    const auto both = [](const auto *op, auto f) -> std::optional<int64_t> {
        const auto a = number_of(op->a);
        if (!a) return std::nullopt;
        const auto b = number_of(op->b);
        if (!b) return std::nullopt;
        const std::optional<int64_t> value = f(*a, *b);
        return value && *value < largest && *value >= -largest ? value : std::nullopt;
    };
    using Number = std::optional<int64_t>;
    switch (e.node_type()) {
    case IRNodeType::IntImm:
        return e.as<IntImm>()->value;
    case IRNodeType::Add:
        return both(e.as<Add>(), [](int64_t a, int64_t b) -> Number { return a + b; });
    case IRNodeType::Sub:
        return both(e.as<Sub>(), [](int64_t a, int64_t b) -> Number { return a - b; });
    case IRNodeType::Mul:
        return both(e.as<Mul>(), [](int64_t a, int64_t b) -> Number { return a * b; });
    case IRNodeType::Div:
        return both(e.as<Div>(), [](int64_t a, int64_t b) -> Number { return b ? Number(div_imp(a, b)) : Number(); });
    case IRNodeType::Mod:
        return both(e.as<Mod>(), [](int64_t a, int64_t b) -> Number { return b ? Number(mod_imp(a, b)) : Number(); });
    case IRNodeType::Min:
        return both(e.as<Min>(), [](int64_t a, int64_t b) -> Number { return std::min(a, b); });
    case IRNodeType::Max:
        return both(e.as<Max>(), [](int64_t a, int64_t b) -> Number { return std::max(a, b); });
    default:
        return std::nullopt;
    }
}

bool LinearSum::add(const Expr &e, int64_t factor) {
    if (e.type() != Int(32) || std::abs(factor) > largest) return false;
    if (const auto *imm = e.as<IntImm>()) {
        constant += imm->value * factor;
        return std::abs(constant) < largest;
    }
    if (const auto *v = e.as<Variable>()) {
        int64_t &term = terms[v->name];
        term += factor;
        return std::abs(term) <= largest;
    }
    if (const auto *op = e.as<Add>()) return add(op->a, factor) && add(op->b, factor);
    if (const auto *op = e.as<Sub>()) return add(op->a, factor) && add(op->b, -factor);
    if (const auto *op = e.as<Mul>()) {
        if (const auto b = number_of(op->b)) return add(op->a, factor * *b);
        if (const auto a = number_of(op->a)) return add(op->b, factor * *a);
    }
    return false;
}

bool LinearSum::add_bound(const Expr &e, int64_t factor) {
    if (std::abs(factor) > largest) return false;
    if (const auto *op = e.as<Add>()) return add_bound(op->a, factor) && add_bound(op->b, factor);
    if (const auto *op = e.as<Sub>()) return add_bound(op->a, factor) && add_bound(op->b, -factor);
    if (const auto *op = e.as<Mul>()) {
        if (const auto b = number_of(op->b)) return add_bound(op->a, factor * *b);
        if (const auto a = number_of(op->a)) return add_bound(op->b, factor * *a);
    }
    if (const auto *op = e.as<Div>()) { // rounds down: d * (a / d) is in [a - (d - 1), a]
        const auto d = number_of(op->b);
        if (!d || *d < 1 || factor % *d) return false;
        return add_bound(op->a, factor / *d) && (factor > 0 || add(static_cast<int>(*d - 1), -(factor / *d)));
    }
    return add(e, factor);
}

bool LinearSum::substitute_bounds(const Bounds &bounds) {
    constexpr int max_rounds = 8; // for nested loops
    for (int round = 0; round < max_rounds; round++) {
        const LinearSum now = *this;
        bool any = false;
        for (const auto &[name, factor] : now.terms) {
            if (factor == 0) continue;
            const Interval *i = bounds.find(name);
            if (!i || !(factor > 0 ? i->has_upper_bound() : i->has_lower_bound())) continue;
            const Expr &bound = factor > 0 ? i->max : i->min;
            if (as_const_int(bound)) continue;
            terms[name] -= factor;
            any = true;
            if (!add_bound(bound, factor)) return false;
        }
        if (!any) return true;
    }
    return false;
}

int64_t LinearSum::coefficient_of(const std::string &variable) const {
    const auto found = terms.find(variable);
    return found == terms.end() ? 0 : found->second;
}

std::optional<std::pair<int64_t, int64_t>> LinearSum::range(const Bounds &bounds) const {
    std::pair<int64_t, int64_t> r{constant, constant};
    for (const auto &[name, factor] : terms) {
        if (factor == 0) continue;
        const Interval *i = bounds.find(name);
        if (!i || !i->is_bounded()) return std::nullopt;
        const auto least = as_const_int(i->min), most = as_const_int(i->max);
        if (!least || !most || *least > *most || *least < -largest || *most > largest) return std::nullopt;
        r.first += factor * (factor > 0 ? *least : *most);
        r.second += factor * (factor > 0 ? *most : *least);
        if (r.first < -largest || r.second > largest) return std::nullopt;
    }
    return r;
}

std::optional<int64_t> step_along(const Expr &value, const std::string &variable) {
    if (LinearSum sum; sum.add(value, 1)) return sum.coefficient_of(variable);
    return slope_of(value, variable);
}

} // namespace kumiko
