#include "schedules/facts.h"

#include "schedules/condition.h"
#include "support/error.h"

#include <numeric>

namespace kumiko {

using namespace Halide::Internal;

namespace {

void split_conjunction(const Expr &e, std::vector<Expr> &parts) {
    if (const auto *both = e.as<And>()) {
        split_conjunction(both->a, parts);
        split_conjunction(both->b, parts);
    } else {
        parts.push_back(e);
    }
}

class Builder {
public:
    explicit Builder(const Op &op) {
        for (const std::string &s : op.sizes()) facts.ranges[s] = Interval(0, Int(32).max());
    }

    // Equalities first, then remainders, then ranges; each is expressed over the sizes that the
    // previous ones left.
    void add(const std::vector<Expr> &parts) {
        for (const Expr &e : parts) {
            if (const auto *eq = e.as<EQ>()) equal(eq->a, eq->b) || equal(eq->b, eq->a);
        }
        for (const Expr &e : parts) {
            if (const auto *eq = e.as<EQ>()) remainder(eq->a, eq->b);
        }
        for (const Expr &e : parts) range(e);
        settle();
    }

    Facts facts;

private:
    // size == value, if the value does not depend on the size.
    bool equal(const Expr &size, const Expr &to) {
        const auto *v = size.as<Variable>();
        if (!v || facts.values.count(v->name)) return false;
        const Expr value = simplify(facts.apply(to));
        if (expr_uses_var(value, v->name)) return false;
        define(v->name, value);
        return true;
    }

    // size % c == r: size = lcm * fresh + rest, combined with earlier remainders.
    void remainder(const Expr &a, const Expr &b) {
        const auto *mod = a.as<Mod>();
        const auto rest = as_const_int(b);
        if (!mod || !rest) return;
        const auto *v = mod->a.as<Variable>();
        const auto c = as_const_int(mod->b);
        if (!v || !c || *c < 2 || *rest < 0 || *rest >= *c) return;
        // Already equal to another expression.
        if (facts.values.count(v->name) && !fresh_.count(v->name)) return;
        auto &[modulus, start] = remainders_[v->name];
        if (modulus == 0) modulus = 1;
        const int64_t joined = std::lcm(modulus, *c);
        if (joined > (1 << 20)) return;
        int64_t at = start;
        while (at < joined && at % *c != *rest) at += modulus;
        if (at >= joined) return; // a contradiction, reported below
        if (fresh_.count(v->name)) {
            // Facts in terms of the previous new size are rewritten in terms of its replacement.
            const std::string before = v->name + "/" + std::to_string(modulus);
            const Expr in_new =
                Variable::make(Int(32), v->name + "/" + std::to_string(joined)) * static_cast<int>(joined / modulus) +
                static_cast<int>((at - start) / modulus);
            for (auto &[name, e] : facts.values) e = simplify(substitute(before, in_new, e));
            facts.values.erase(v->name);
            facts.ranges.erase(facts.derived[fresh_[v->name]].first);
            facts.derived.erase(facts.derived.begin() + fresh_[v->name]);
            for (auto &[name, at_index] : fresh_) at_index -= at_index > fresh_[v->name];
        }
        modulus = joined;
        start = at;
        fresh_[v->name] = facts.derived.size();
        const std::string name = v->name + "/" + std::to_string(modulus);
        const Expr f = static_cast<int>(modulus), s = static_cast<int>(start);
        facts.derived.emplace_back(name, start ? Expr((Expr(v) - s) / f) : Expr(v) / f);
        facts.ranges[name] = Interval(0, static_cast<int>(INT32_MAX / modulus));
        define(v->name, start ? Variable::make(Int(32), name) * f + s : Variable::make(Int(32), name) * f);
    }

    void define(const std::string &size, const Expr &value) {
        for (auto &[name, e] : facts.values) e = simplify(substitute(size, value, e));
        facts.values[size] = value;
    }

    void range(const Expr &e) {
        if (const auto *op = e.as<GE>()) at_most(op->b, op->a, 0);
        if (const auto *op = e.as<GT>()) at_most(op->b, op->a, 1);
        if (const auto *op = e.as<LE>()) at_most(op->a, op->b, 0);
        if (const auto *op = e.as<LT>()) at_most(op->a, op->b, 1);
        if (const auto *op = e.as<EQ>(); op && op->a.as<Variable>()) at_most(op->b, op->a, 0), at_most(op->a, op->b, 0);
    }

    // A range of one number becomes an equality.
    void settle() {
        for (const auto &[name, range] : facts.ranges) {
            const auto min = as_const_int(range.min), max = as_const_int(range.max);
            if (*min == *max && !facts.values.count(name)) define(name, static_cast<int>(*min));
        }
    }

    // low + gap <= high, where one side is a size (or a new size times a number) and the other a
    // number.
    void at_most(const Expr &low, const Expr &high, int64_t gap) {
        if (const auto n = as_const_int(low)) limit(high, *n + gap, true);
        if (const auto n = as_const_int(high)) limit(low, *n - gap, false);
    }

    void limit(const Expr &e, int64_t n, bool from_below) {
        const auto *v = e.as<Variable>();
        if (!v) return;
        std::string name = v->name;
        if (const auto it = facts.values.find(name); it != facts.values.end()) {
            if (!fresh_.count(name)) return;
            const auto [modulus, start] = remainders_.at(name); // modulus * fresh + start
            name = facts.derived[fresh_[name]].first;
            n = from_below ? div_imp(n - start + modulus - 1, modulus) : div_imp(n - start, modulus);
        }
        Interval &i = facts.ranges[name];
        const auto min = as_const_int(i.min), max = as_const_int(i.max);
        if (from_below)
            i.min = static_cast<int>(std::min<int64_t>(std::max(*min, n), INT32_MAX));
        else
            i.max = static_cast<int>(std::max<int64_t>(std::min(*max, n), -1));
    }

    std::map<std::string, std::pair<int64_t, int64_t>> remainders_;
    std::map<std::string, size_t> fresh_; // size → its index in `derived`
};

std::vector<Axis> apply_to(const Facts &facts, const std::vector<Axis> &axes) {
    std::vector<Axis> out;
    for (const Axis &a : axes) out.emplace_back(a.name(), simplify(facts.apply(a.extent())));
    return out;
}

} // namespace

Expr Facts::apply(const Expr &e) const { return values.empty() || !e.defined() ? e : substitute(values, e); }

Bounds Facts::bounds() const {
    Bounds b;
    for (const auto &[name, range] : ranges) b.push(name, range);
    return b;
}

ScheduleState Facts::apply(const ScheduleState &state) const {
    ScheduleState s = state;
    if (values.empty()) return s;
    for (StageState &stage : s.stages) {
        stage.def.axes = apply_to(*this, stage.def.axes);
        stage.def.reduction_axes = apply_to(*this, stage.def.reduction_axes);
        stage.def.value = apply(stage.def.value);
        for (Component &c : stage.def.components) c.term = apply(c.term);
        for (LoopState &l : stage.loops) l.extent = simplify(apply(l.extent));
    }
    return s;
}

Facts facts_of(const Op &op, const std::vector<Expr> &conditions) {
    std::vector<Expr> parts;
    for (const Expr &c : conditions) split_conjunction(c, parts);
    Builder b(op);
    b.add(parts);
    for (const Expr &e : parts) {
        const Expr left = simplify(b.facts.apply(e), true, b.facts.bounds());
        if (is_const_zero(left))
            throw UserError("the condition " + condition_text(e) +
                            " can never hold here: it contradicts what is assumed already");
    }
    for (const auto &[name, i] : b.facts.ranges) {
        if (can_prove(i.max < i.min)) throw UserError("the conditions leave no value for size " + name);
    }
    return b.facts;
}

} // namespace kumiko
