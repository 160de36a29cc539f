#include "schedules/index_arithmetic.h"

#include "dsl/float_casts.h"
#include "schedules/linear.h"

namespace kumiko {

using namespace Halide::Internal;

namespace {

// Proves or refutes a <= b + slack from the linear ranges; nullopt if unknown.
std::optional<bool> always_at_most(const Expr &a, const Expr &b, int64_t slack, const Bounds &bounds) {
    LinearSum difference;
    if (!difference.add(a, 1) || !difference.add(b, -1)) return std::nullopt;
    const auto range = difference.range(bounds);
    return range ? std::optional(range->second <= slack) : std::nullopt;
}

// A min or max among the terms of a sum.
Expr choice_in(const Expr &e) {
    if (e.as<Min>() || e.as<Max>()) return e;
    const auto either = [](const Expr &a, const Expr &b) {
        const Expr first = choice_in(a);
        return first.defined() ? first : choice_in(b);
    };
    if (const auto *op = e.as<Add>()) return either(op->a, op->b);
    if (const auto *op = e.as<Sub>()) return either(op->a, op->b);
    if (const auto *op = e.as<Mul>()) return either(op->a, op->b);
    return Expr();
}

// Whether a <= b + slack can be proved if loop extents are quotients of sizes and bounds are min or
// max expressions.
bool at_most_by_bounds(const Expr &a, const Expr &b, int64_t slack, const Bounds &bounds, int choices = 4) {
    const Expr parts[] = {a, b};
    for (const bool of_b : {false, true}) {
        if (const Expr choice = choices > 0 ? choice_in(parts[of_b]) : Expr(); choice.defined()) {
            const auto *least = choice.as<Min>();
            const auto *greatest = choice.as<Max>();
            const auto with = [&](const Expr &taken) {
                const Expr e = substitute(choice, taken, parts[of_b]);
                return at_most_by_bounds(of_b ? a : e, of_b ? e : b, slack, bounds, choices - 1);
            };
            const Expr &first = least ? least->a : greatest->a, &second = least ? least->b : greatest->b;
            return with(first) && with(second);
        }
    }
    LinearSum difference;
    if (!difference.add_bound(a, 1) || !difference.add_bound(b, -1) || !difference.substitute_bounds(bounds))
        return false;
    const auto range = difference.range(bounds);
    return range && range->second <= slack;
}

bool holds_by_bounds(const Expr &condition, const Bounds &bounds) {
    const auto at_most = [&](const Expr &a, const Expr &b, int64_t slack) {
        return a.type() == Int(32) && at_most_by_bounds(a, b, slack, bounds);
    };
    if (const auto *op = condition.as<LE>()) return at_most(op->a, op->b, 0);
    if (const auto *op = condition.as<LT>()) return at_most(op->a, op->b, -1);
    if (const auto *op = condition.as<GE>()) return at_most(op->b, op->a, 0);
    if (const auto *op = condition.as<GT>()) return at_most(op->b, op->a, -1);
    return false;
}

std::optional<bool> plainly(const Expr &condition, const Bounds &bounds) {
    if (const auto *op = condition.as<LE>()) return always_at_most(op->a, op->b, 0, bounds);
    if (const auto *op = condition.as<LT>()) return always_at_most(op->a, op->b, -1, bounds);
    if (const auto *op = condition.as<GE>()) return always_at_most(op->b, op->a, 0, bounds);
    if (const auto *op = condition.as<GT>()) return always_at_most(op->b, op->a, -1, bounds);
    if (const auto *op = condition.as<EQ>()) {
        const auto a = number_of(op->a), b = number_of(op->b);
        if (a && b) return *a == *b;
    }
    return std::nullopt;
}

} // namespace

Expr simplify_index(const Expr &e, const Bounds &bounds) {
    const auto n = number_of(e);
    return n ? Expr(static_cast<int>(*n)) : simplified(e, bounds);
}

namespace {

struct Term {
    Expr e;
    int64_t factor;
};

// Whether a and b differ by a multiple of the block: divisions then agree up to whole blocks, and
// remainders are equal.
bool blocks_apart(const Expr &a, const Expr &b, int64_t block) {
    if (equal(a, b)) return true;
    const ModulusRemainder n = modulus_remainder(simplify(a - b));
    return n.modulus % block == 0 && n.remainder % block == 0;
}

void add_terms(const Expr &e, int64_t factor, std::vector<Term> &terms) {
    const auto *sum = e.as<Add>();
    const auto *difference = e.as<Sub>();
    const auto *product = e.as<Mul>();
    const auto n = product ? as_const_int(product->b) : std::nullopt;
    if (sum) {
        add_terms(sum->a, factor, terms);
        add_terms(sum->b, factor, terms);
    } else if (difference) {
        add_terms(difference->a, factor, terms);
        add_terms(difference->b, -factor, terms);
    } else if (n) {
        add_terms(product->a, factor * *n, terms);
    } else {
        terms.push_back({e, factor});
    }
}

} // namespace

Expr join_remainders(const Expr &index) {
    std::vector<Term> terms;
    if (index.type() == Int(32)) add_terms(index, 1, terms);
    bool joined = false;
    for (size_t m = 0; m < terms.size(); m++) {
        const Mod *rest = terms[m].e.as<Mod>();
        const auto c = rest ? as_const_int(rest->b) : std::nullopt;
        if (!c) continue;
        const Div *inner = rest->a.as<Div>(); // x / b / c is written x / (b * c)
        const auto b = inner ? as_const_int(inner->b) : std::nullopt;
        const auto blocks = std::find_if(terms.begin(), terms.end(), [&](const Term &t) {
            const Div *d = t.e.as<Div>();
            if (!d || t.factor != terms[m].factor * *c) return false;
            return (is_const(d->b, *c) && blocks_apart(d->a, rest->a, *c)) ||
                   (b && is_const(d->b, *b * *c) && equal(d->a, inner->a));
        });
        if (blocks == terms.end()) continue;
        const Div *d = blocks->e.as<Div>();
        const Term whole{is_const(d->b, *c) ? d->a : rest->a, terms[m].factor};
        const size_t other = size_t(blocks - terms.begin());
        terms.erase(terms.begin() + std::max(other, m));
        terms.erase(terms.begin() + std::min(other, m));
        add_terms(whole.e, whole.factor, terms);
        joined = true;
        m = size_t(-1); // restart
    }
    if (!joined) return index;
    Expr sum = 0;
    for (const Term &t : terms) {
        if (t.factor > INT32_MAX || t.factor < INT32_MIN) return index;
        sum = sum + t.e * static_cast<int>(t.factor);
    }
    return simplify(sum);
}

namespace {

class SplitBlocks : public IRMutator {
public:
    explicit SplitBlocks(const Bounds &bounds) : bounds_(bounds) {}

private:
    using IRMutator::visit;
    const Bounds &bounds_;

    struct Parts {
        Expr blocks, within;
        int64_t size;
    };

    // Splits e into whole blocks and a rest within a block, for the largest block size that divides
    // `of`; nullopt if there is none.
    std::optional<Parts> parts(const Expr &e, int64_t of) const {
        std::vector<Term> terms;
        add_terms(e, 1, terms);
        std::set<int64_t, std::greater<>> sizes;
        for (const Term &t : terms) sizes.insert(std::gcd(t.factor, of));
        for (const int64_t size : sizes) {
            if (size <= 1 || size >= of) continue;
            Parts p{0, 0, size};
            for (const Term &t : terms) {
                if (t.factor % size)
                    p.within = p.within + t.e * static_cast<int>(t.factor);
                else
                    p.blocks = p.blocks + t.e * static_cast<int>(t.factor / size);
            }
            const Interval range = range_of(simplified(p.within), bounds_);
            if (range.is_bounded() && proves(range.min >= 0, bounds_) &&
                proves(range.max < static_cast<int>(size), bounds_))
                return p;
        }
        return std::nullopt;
    }

    template<typename Op>
    std::optional<Parts> parts_of(const Op *op) const {
        const auto c = as_const_int(op->b);
        return c && *c > 1 && op->type == Int(32) ? parts(op->a, *c) : std::nullopt;
    }

    Expr visit(const Div *op) override {
        const Expr e = IRMutator::visit(op);
        op = e.as<Div>();
        const auto p = op ? parts_of(op) : std::nullopt;
        return p ? p->blocks / static_cast<int>(*as_const_int(op->b) / p->size) : e;
    }
    Expr visit(const Mod *op) override {
        const Expr e = IRMutator::visit(op);
        op = e.as<Mod>();
        const auto p = op ? parts_of(op) : std::nullopt;
        const int size = p ? static_cast<int>(p->size) : 1;
        return p ? p->blocks % static_cast<int>(*as_const_int(op->b) / size) * size + p->within : e;
    }
};

} // namespace

Expr split_blocks(const Expr &index, const Bounds &bounds) { return SplitBlocks(bounds).mutate(index); }

bool proves(const Expr &condition, const Bounds &bounds) {
    if (const auto *both = condition.as<And>()) return proves(both->a, bounds) && proves(both->b, bounds);
    if (const auto known = plainly(condition, bounds)) return *known;
    if (holds_by_bounds(condition, bounds)) return true;
    if (casts_floats(condition)) {
        FloatCasts casts(bounds);
        const Expr hidden = casts.hide(condition);
        return proves(hidden, casts.scope());
    }
    const Expr e = simplify(condition, true, bounds);
    if (is_const_one(e)) return true;
    if (is_const(e)) return false;
    if (can_prove(e, bounds)) return true;
    // For loops whose extent is an expression of sizes: a condition holds if it holds at the
    // bounds.
    const LE *le = condition.as<LE>();
    const LT *lt = condition.as<LT>();
    if (!le && !lt) return false;
    const Expr a = le ? le->a : lt->a, b = le ? le->b : lt->b;
    if (a.type() != Int(32)) return false;
    Bounds loops;
    for (auto v = bounds.cbegin(); v != bounds.cend(); ++v) {
        if (v.value().has_upper_bound() && !is_const(v.value().max)) loops.push(v.name(), v.value());
    }
    const Interval i = bounds_of_expr_in_scope(simplify(a - b), loops);
    return i.has_upper_bound() && can_prove(le ? i.max <= 0 : i.max < 0, bounds);
}

std::optional<int64_t> upper_bound_of(const Expr &extent, const Bounds &bounds) {
    constexpr int64_t unbounded = int64_t(1) << 30;
    const Expr bound = find_constant_bound(extent, Direction::Upper, bounds);
    const auto most = bound.defined() ? as_const_int(bound) : std::nullopt;
    return most && *most < unbounded ? std::optional<int64_t>(*most) : std::nullopt;
}

} // namespace kumiko
