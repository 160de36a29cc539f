#include "dsl/float_casts.h"

#include "dsl/element.h"

#include <bit>
#include <cmath>

namespace kumiko {

using namespace Halide::Internal;

namespace {

bool from_float(const Cast *op) { return op->value.type().is_float() && op->type.is_int_or_uint(); }

// Truncation and saturation are monotonic. Sizes are assumed to stay within 32 bits.
Interval cast_range(Type t, const Expr &hidden, const Ranges &scope) {
    Interval all = t.is_uint() || t.bits() < 32 ? Interval(t.min(), t.max()) : Interval::everything();
    const Interval from = bounds_of_expr_in_scope(hidden, scope);
    const auto end = [&](const Expr &e, Expr &result) {
        const Expr simple = simplify(e);
        if (const auto value = as_const_float(simple)) {
            if (!std::isnan(*value)) result = cast(t, Element(simple));
        } else if (t.bits() >= 32) {
            result = Cast::make(t, simple);
        }
    };
    if (from.has_lower_bound()) end(from.min, all.min);
    if (from.has_upper_bound()) end(from.max, all.max);
    return all;
}

} // namespace

bool casts_floats(const Expr &e) {
    struct Find : IRGraphVisitor {
        using IRGraphVisitor::visit;
        bool found = false;
        void visit(const Cast *op) override {
            found = found || from_float(op);
            IRGraphVisitor::visit(op);
        }
    } find;
    e.accept(&find);
    return find.found;
}

FloatCasts::FloatCasts(const Ranges &scope) {
    for (auto v = scope.cbegin(); v != scope.cend(); ++v) scope_.push(v.name(), v.value());
}

Expr FloatCasts::hide(const Expr &e) {
    struct Hide : IRMutator {
        using IRMutator::visit;
        FloatCasts *all;
        Expr visit(const Cast *op) override {
            const Expr hidden = IRMutator::visit(op);
            op = hidden.as<Cast>();
            if (!from_float(op)) return hidden;
            for (const auto &[cast, name] : all->casts_) {
                if (equal(cast, hidden)) return Variable::make(op->type, name);
            }
            const std::string name = unique_name("float.cast");
            const Type t = op->type.element_of();
            all->scope_.push(name,
                             t.is_bool() ? Interval(make_zero(t), make_one(t)) : cast_range(t, op->value, all->scope_));
            all->casts_.emplace_back(hidden, name);
            return Variable::make(op->type, name);
        }
    } hide;
    hide.all = this;
    return hide.mutate(e);
}

Expr FloatCasts::show(const Expr &e) const {
    Expr shown = e;
    for (size_t n = casts_.size(); n-- > 0;)
        // Outer casts first, because they contain inner ones.
        shown = substitute(casts_[n].second, casts_[n].first, shown);
    return shown;
}

Expr simplified(const Expr &e, const Ranges &scope) {
    if (!casts_floats(e)) return simplify(e, true, scope);
    FloatCasts casts(scope);
    const Expr hidden = casts.hide(e);
    return casts.show(simplify(hidden, true, casts.scope()));
}

namespace {

// Replaces bitwise operations on int32, of which Halide knows no range, by variables with theirs.
class BitwiseRanges : public IRMutator {
public:
    explicit BitwiseRanges(const Ranges &scope) {
        for (auto v = scope.cbegin(); v != scope.cend(); ++v) scope_.push(v.name(), v.value());
    }
    const Ranges &scope() const { return scope_; }

private:
    using IRMutator::visit;
    Ranges scope_;

    Expr visit(const Call *op) override {
        const Expr changed = IRMutator::visit(op);
        op = changed.as<Call>();
        const bool both = op->is_intrinsic(Call::bitwise_and);
        if (op->type != Int(32) ||
            (!both && !op->is_intrinsic(Call::bitwise_or) && !op->is_intrinsic(Call::bitwise_xor)))
            return changed;
        // The greatest value; undefined if it is not known, or the least one may be negative.
        const auto most = [&](const Expr &e) -> Expr {
            const Interval range = bounds_of_expr_in_scope(e, scope_);
            const bool known = range.is_bounded() && is_const_one(simplify(range.min >= 0));
            return known ? simplify(range.max) : Expr();
        };
        const Expr a = most(op->args[0]), b = most(op->args[1]);
        Expr low = 0, high;
        if (both) {
            high = a.defined() && b.defined() ? min(a, b) : a.defined() ? a : b;
        } else {
            if (a.defined() && b.defined()) {
                const auto x = as_const_int(a), y = as_const_int(b);
                if (x && y)
                    high =
                        static_cast<int>(std::bit_ceil(static_cast<uint64_t>(std::max({*x, *y, int64_t(0)})) + 1) - 1);
            }
            // A constant changes no bits above its own: values stay within blocks of 2^bits.
            const bool second = as_const_int(op->args[1]).has_value();
            const auto c = as_const_int(op->args[second ? 1 : 0]);
            const Interval x = bounds_of_expr_in_scope(op->args[second ? 0 : 1], scope_);
            if (c && *c >= 0 && *c < (1 << 29) && x.is_bounded()) {
                const int block = static_cast<int>(std::bit_ceil(static_cast<uint64_t>(*c) + 1));
                const Expr last = x.max / block * block + (block - 1);
                high = high.defined() ? min(high, last) : last;
                const Expr first = x.min / block * block;
                const bool either = op->is_intrinsic(Call::bitwise_or);
                low = either ? max(x.min, first + static_cast<int>(*c)) : first;
            }
        }
        if (!high.defined()) return changed;
        const std::string name = unique_name("bitwise");
        scope_.push(name, Interval(simplify(low), simplify(high)));
        return Variable::make(Int(32), name);
    }
};

Interval range_of_integers(const Expr &e, const Ranges &scope) {
    BitwiseRanges bitwise(scope);
    const Expr changed = bitwise.mutate(e);
    return bounds_of_expr_in_scope(changed, bitwise.scope());
}

} // namespace

Interval range_of(const Expr &e, const Ranges &scope) {
    if (!casts_floats(e)) return range_of_integers(e, scope);
    FloatCasts casts(scope);
    const Expr hidden = casts.hide(e);
    return range_of_integers(hidden, casts.scope());
}

} // namespace kumiko
