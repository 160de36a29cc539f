// Splits loops into borders and an interior, so that inlined padding needs no tests in the
// interior:
//
//   for y in 0..n: … if_then_else(0 <= y + ky - 1 && y + ky - 1 < n, X[…], 0) …
// becomes
//   for y in 0..1: …                 the same
//   for y in 1..n-1: … X[…] …
//   for y in n-1..n: …               the same
//
// The same holds for an index that is clamped lane by lane: max(min(x + kx - 1, n - 1), 0) is x +
// kx - 1 in the interior, and the vector is dense.
//
// The same holds for an index that wraps around: (x + 1) % n is x + 1 for all x but the last. And
// (d + h) % n is d + h in a first piece of the loop, and d + h - n in a second one.
//
// A bound that holds for all iterations of the inner loops, given an iteration of this loop, is
// solved for this loop. If it changes with the loop by a constant, it holds from some iteration on,
// or up to one. Loops are split from the outside in. In a border the next loop is split too, but
// its borders are not split again: the rows above an image test no columns. A parallel loop is not
// cut into three; it tests its index and treats a border as above.
//
// If bounds exclude each other, like those of concatenated arrays, the interior is empty or small.
// Such a loop is cut at every iteration where a bound begins or ceases to hold, or to be false, if
// these are constant and make few pieces:
//
//   for y in 0..12: … y < 5 ? X0[y] : X1[y - 5] …
// becomes
//   for y in 0..5: … X0[y] …
//   for y in 5..12: … X1[y - 5] …
//
// One file, because its classes are the steps of one pass, which share the form of a bound.
#include "dsl/float_casts.h"
#include "dsl/reads.h"
#include "support/error.h"
#include "targets/lower/lowering.h"

namespace kumiko {

using namespace Halide::Internal;

std::vector<Expr> bounds_in(const Expr &condition) {
    std::vector<Expr> all, bounds;
    split_into_ands(condition, all);
    for (const Expr &e : all) {
        const auto of_indices = [](const auto *op) { return op && op->a.type() == Int(32); };
        if (of_indices(e.as<LE>()) || of_indices(e.as<LT>())) bounds.push_back(e);
    }
    return bounds;
}

Expr slack(const Expr &bound) {
    if (const auto *le = bound.as<LE>()) return le->b - le->a;
    return bound.as<LT>()->b - bound.as<LT>()->a - 1;
}

namespace {

// An index clamped to at least `low`, and to at most `high` if that is defined.
struct Clamp {
    Expr value, low, high;
    Expr from_below() const { return low <= value; }
    Expr from_above() const { return value <= high; }
};

std::optional<Clamp> clamp_of(const Max *op) {
    if (op->type != Int(32)) return std::nullopt;
    const auto *most = op->a.as<Min>();
    return most ? Clamp{most->a, op->b, most->b} : Clamp{op->a, op->b, Expr()};
}

// Tracks whether it is in the index of a load or a store. Both are rewritten alike, since a sum
// loads the element that it stores.
class IndexMutator : public IRMutator {
protected:
    using IRMutator::visit;
    bool in_index_ = false;

    Expr visit(const Load *op) override {
        const bool around = std::exchange(in_index_, true);
        const Expr index = mutate(op->index);
        in_index_ = around;
        const Expr predicate = mutate(op->predicate);
        if (index.same_as(op->index) && predicate.same_as(op->predicate)) return op;
        return Load::make(op->type, op->name, index, op->image, op->param, predicate, op->alignment);
    }
    Stmt visit(const Store *op) override {
        const Expr value = mutate(op->value);
        in_index_ = true;
        const Expr index = mutate(op->index);
        in_index_ = false;
        return Store::make(op->name, value, index, op->param, mutate(op->predicate), op->alignment);
    }
};

// Replaces a remainder in an index by a choice if its dividend stays within two multiples of the
// divisor: select(e < 2 n, e - n, e - 2 n) for n <= e < 3 n. The condition is the one that holds
// more often.
class ChooseRemainders : public IndexMutator {
public:
    explicit ChooseRemainders(Bounds known) : known_(std::move(known)) {}

private:
    using IndexMutator::visit;
    Bounds known_;

    Stmt visit(const For *op) override {
        known_.push(op->name, Interval(op->min, simplify(op->min + op->extent - 1)));
        const Stmt result = IRMutator::visit(op);
        known_.pop(op->name);
        return result;
    }
    Expr visit(const Mod *op) override {
        const auto n = as_const_int(simplify(op->b));
        if (!in_index_ || op->type != Int(32) || !n || *n <= 1) return IRMutator::visit(op);
        const Expr e = mutate(op->a), least = find_constant_bound(e, Direction::Lower, known_),
                   greatest = find_constant_bound(e, Direction::Upper, known_);
        if (!least.defined() || !greatest.defined() || !is_const(least) || !is_const(greatest))
            return Mod::make(e, op->b);
        const int64_t low = *as_const_int(least), high = *as_const_int(greatest);
        if (div_imp(high, *n) - div_imp(low, *n) > 1) return Mod::make(e, op->b);
        const int64_t first = div_imp(low, *n), second = first + 1, border = second * *n;
        const auto fits = [](int64_t x) { return x >= INT32_MIN && x <= INT32_MAX; };
        if (!fits(first * *n) || !fits(border)) return Mod::make(e, op->b);
        const auto less = [&](int64_t multiples) { return simplify(e - static_cast<int>(multiples * *n)); };
        if (high < border) return less(first);
        return border - low > high - border ? Select::make(e < static_cast<int>(border), less(first), less(second))
                                            : Select::make(static_cast<int>(border) <= e, less(second), less(first));
    }
};

// The bounds below one loop that select between two values, each with the minimum and the maximum
// slack over all iterations of the inner loops. There are several if the bound occurs in several
// loops with one name.
class Collect : public IRVisitor {
public:
    struct Bound {
        Expr condition;
        std::vector<Expr> least, greatest;
        bool known = true; // everywhere
    };
    explicit Collect(const For *loop) { loop->body.accept(this); }
    std::vector<Bound> bounds;  // of padding
    std::vector<Bound> choices; // of padding and of select
    bool wraps = false;         // some bounds come from an index that wraps around

private:
    using IRVisitor::visit;
    Scope<Interval> inside_;
    std::set<std::string> defined_; // by inner lets, whose values are unknown
    bool in_index_ = false;         // of a load or a store
    Scope<> lanes_;                 // inner loops that become vectors

    void visit(const For *op) override {
        op->min.accept(this);
        op->extent.accept(this);
        const ScopedBinding<Interval> bind(inside_, op->name, Interval(op->min, op->min + op->extent - 1));
        if (op->for_type == ForType::Vectorized) lanes_.push(op->name);
        op->body.accept(this);
        if (op->for_type == ForType::Vectorized) lanes_.pop(op->name);
    }
    void visit(const LetStmt *op) override {
        defined_.insert(op->name);
        IRVisitor::visit(op);
    }
    void visit(const Let *op) override {
        defined_.insert(op->name);
        IRVisitor::visit(op);
    }
    void visit(const Call *op) override {
        if (op->is_intrinsic(Call::if_then_else)) {
            for (const Expr &e : bounds_in(op->args[0])) collect(e, bounds), collect(e, choices);
        }
        IRVisitor::visit(op);
    }
    void visit(const Select *op) override {
        const bool of_lanes = in_index_ && expr_uses_vars(op->condition, lanes_);
        for (const Expr &e : bounds_in(op->condition)) {
            collect(e, choices);
            if (of_lanes) collect(e, bounds), wraps = true;
        }
        IRVisitor::visit(op);
    }
    void visit(const Load *op) override {
        const bool around = std::exchange(in_index_, true);
        op->index.accept(this);
        in_index_ = around;
        op->predicate.accept(this);
    }
    void visit(const Store *op) override {
        op->value.accept(this);
        in_index_ = true;
        op->index.accept(this);
        in_index_ = false;
        op->predicate.accept(this);
    }
    void visit(const Max *op) override {
        const auto clamp = in_index_ ? clamp_of(op) : std::nullopt;
        if (clamp && expr_uses_vars(clamp->value, lanes_)) {
            collect(clamp->from_below(), bounds);
            if (clamp->high.defined()) collect(clamp->from_above(), bounds);
        }
        IRVisitor::visit(op);
    }
    void collect(const Expr &e, std::vector<Bound> &all) {
        auto bound = std::find_if(all.begin(), all.end(), [&](const Bound &b) { return equal(b.condition, e); });
        if (bound == all.end()) bound = all.insert(all.end(), Bound{e, {}, {}});
        const Interval i = range_of(simplified(slack(e)), inside_);
        bound->known = bound->known && i.has_lower_bound();
        if (!bound->known) return;
        bound->known = add(i.min, bound->least);
        if (!i.has_upper_bound() || !add(i.max, bound->greatest)) bound->greatest.push_back(Expr());
    }
    // False if the slack uses variables that are not defined outside of the loops.
    bool add(const Expr &slack, std::vector<Expr> &all) const {
        const Expr least = simplified(slack);
        struct Names : IRVisitor {
            using IRVisitor::visit;
            const Collect *c;
            bool unknown = false;
            void visit(const Variable *v) override {
                unknown = unknown || c->inside_.contains(v->name) || c->defined_.count(v->name);
            }
            void visit(const Load *) override { unknown = true; }
        } names;
        names.c = this;
        least.accept(&names);
        const auto same = [&](const Expr &l) { return l.defined() && equal(l, least); };
        if (std::none_of(all.begin(), all.end(), same)) all.push_back(least);
        return !names.unknown;
    }
};

// Removes conditions that are known to hold.
class Assume : public IndexMutator {
public:
    explicit Assume(const std::vector<Expr> &true_here) : true_here_(true_here) {}

private:
    using IndexMutator::visit;
    const std::vector<Expr> &true_here_;

    bool holds(const Expr &e) const {
        return std::any_of(true_here_.begin(), true_here_.end(), [&](const Expr &t) { return equal(t, e); });
    }
    Expr visit(const Max *op) override {
        const auto clamp = in_index_ ? clamp_of(op) : std::nullopt;
        const bool above = clamp && clamp->high.defined() && holds(clamp->from_above());
        // `high` may be below `low`.
        const bool below = clamp && holds(clamp->from_below()) && (above || !clamp->high.defined());
        if (!below && !above) return IRMutator::visit(op);
        Expr index = mutate(clamp->value);
        if (clamp->high.defined() && !above) index = Min::make(index, mutate(clamp->high));
        return below ? index : Max::make(index, mutate(clamp->low));
    }
    Expr visit(const Select *op) override {
        return in_index_ && holds(op->condition) ? mutate(op->true_value) : IRMutator::visit(op);
    }
    Expr visit(const Call *op) override {
        if (!op->is_intrinsic(Call::if_then_else)) return IRMutator::visit(op);
        std::vector<Expr> all;
        split_into_ands(op->args[0], all);
        Expr left;
        for (const Expr &e : all) {
            if (holds(e)) continue;
            left = left.defined() ? left && e : e;
        }
        const Expr value = mutate(op->args[1]);
        if (!left.defined()) return value;
        std::vector<Expr> args = {left, value};
        if (op->args.size() > 2) args.push_back(mutate(op->args[2]));
        return Call::make(op->type, Call::if_then_else, args, Call::PureIntrinsic);
    }
};

// Replaces conditions that are known to hold or to fail, in selects too.
class Decide : public IRMutator {
public:
    std::vector<Expr> true_here, false_here;

private:
    using IRMutator::visit;

    static bool has(const std::vector<Expr> &all, const Expr &e) {
        return std::any_of(all.begin(), all.end(), [&](const Expr &t) { return equal(t, e); });
    }
    // The remaining conjunction: const_true() or const_false() if it is decided.
    Expr decided(const Expr &condition) const {
        std::vector<Expr> all;
        split_into_ands(condition, all);
        Expr left;
        for (const Expr &e : all) {
            if (has(false_here, e)) return const_false();
            if (!has(true_here, e)) left = left.defined() ? left && e : e;
        }
        return left.defined() ? left : const_true();
    }
    Expr visit(const Call *op) override {
        if (!op->is_intrinsic(Call::if_then_else) || op->args.size() != 3) return IRMutator::visit(op);
        const Expr condition = decided(op->args[0]);
        if (is_const_one(condition)) return mutate(op->args[1]);
        if (is_const_zero(condition)) return mutate(op->args[2]);
        return Call::make(op->type, Call::if_then_else, {condition, mutate(op->args[1]), mutate(op->args[2])},
                          Call::PureIntrinsic);
    }
    Expr visit(const Select *op) override {
        const Expr condition = decided(op->condition);
        if (is_const_one(condition)) return mutate(op->true_value);
        if (is_const_zero(condition)) return mutate(op->false_value);
        return Select::make(mutate(condition), mutate(op->true_value), mutate(op->false_value));
    }
};

class LoopPartition : public IRMutator {
public:
    explicit LoopPartition(const Lowering &l) : known_(l.facts.bounds()) {}

private:
    using IRMutator::visit;
    Bounds known_;
    bool in_border_ = false;

    // The body of a border: its loops are split, but their borders are not split again.
    Stmt border(const Stmt &body) {
        if (in_border_) return body;
        in_border_ = true;
        const Stmt result = mutate(body);
        in_border_ = false;
        return result;
    }

    Stmt visit(const For *op) override {
        known_.push(op->name, Interval(op->min, simplify(op->min + op->extent - 1)));
        const Stmt result = split(op);
        known_.pop(op->name);
        return result;
    }

    // Restricts the iterations to those in which the bound holds, if the loop of `v` decides it.
    bool decides(const Collect::Bound &b, const Expr &v, Expr &first, Expr &end) const {
        const std::string &name = v.as<Variable>()->name;
        for (const Expr &least : b.least) {
            const auto grows = slope_of(least, name);
            if (!grows || std::abs(*grows) > INT32_MAX / 2) return false;
            const Expr at_zero = simplify(substitute(name, 0, least));
            const int by = static_cast<int>(std::abs(*grows));
            if (*grows > 0) // at_zero + by * v >= 0
                first = max(first, (by - 1 - at_zero) / by);
            else if (*grows < 0)
                end = min(end, at_zero / by + 1);
            else if (!proves(at_zero >= 0, known_))
                return false;
        }
        return true;
    }

    // The iterations [first, end) in which a slack that the loop decides is at least zero.
    struct Range {
        int64_t first, end;
    };
    static std::optional<Range> holds(const Expr &slack, const Expr &v, int64_t min, int64_t last) {
        if (!slack.defined()) return std::nullopt;
        const std::string &name = v.as<Variable>()->name;
        const auto grows = slope_of(slack, name);
        const auto at_zero = as_const_int(simplify(substitute(name, 0, slack)));
        if (!grows || !at_zero || std::abs(*grows) > INT32_MAX / 2) return std::nullopt;
        Range r{min, last};
        if (*grows == 0 && *at_zero < 0) r.end = min;
        // The least v with at_zero + grows · v ≥ 0.
        if (*grows > 0) r.first = -div_imp(*at_zero, *grows);
        if (*grows < 0) r.end = div_imp(*at_zero, -*grows) + 1;
        r.first = std::clamp(r.first, min, last), r.end = std::clamp(r.end, r.first, last);
        return r;
    }

    // The loop cut into pieces, each without the selects that are decided in it; undefined if it
    // stays whole.
    Stmt cut(const For *op, const Expr &v) {
        const auto min = as_const_int(op->min), extent = as_const_int(simplify(op->extent));
        if (!min || !extent || *extent < 1) return Stmt();
        const int64_t last = *min + *extent;
        struct Known {
            Expr condition;
            Range yes, maybe;
        };
        std::vector<Known> bounds;
        std::set<int64_t> cuts = {*min, last};
        for (const Collect::Bound &b : Collect(op).choices) {
            if (!b.known || b.least.size() != 1 || b.greatest.size() != 1) continue;
            const auto yes = holds(b.least[0], v, *min, last), maybe = holds(b.greatest[0], v, *min, last);
            if (!yes || !maybe) continue;
            bounds.push_back({b.condition, *yes, *maybe});
            cuts.insert({yes->first, yes->end, maybe->first, maybe->end});
        }
        if (cuts.size() < 3 || cuts.size() > 9) return Stmt();
        std::vector<std::pair<int64_t, Stmt>> pieces; // the first iteration and body of each
        for (auto at = cuts.begin(); std::next(at) != cuts.end(); ++at) {
            Decide decide;
            for (const Known &b : bounds) {
                if (b.yes.first <= *at && *std::next(at) <= b.yes.end) decide.true_here.push_back(b.condition);
                if (*std::next(at) <= b.maybe.first || b.maybe.end <= *at) decide.false_here.push_back(b.condition);
            }
            pieces.push_back({*at, mutate(decide.mutate(op->body))});
        }
        const auto loop = [&](int64_t from, int64_t to, const Stmt &body) {
            return For::make(op->name, static_cast<int>(from), static_cast<int>(to - from), op->for_type,
                             op->partition_policy, op->device_api, body);
        };
        if (op->for_type == ForType::Parallel) {
            Stmt body = pieces.back().second;
            for (size_t n = pieces.size() - 1; n-- > 0;)
                body = IfThenElse::make(v < static_cast<int>(pieces[n + 1].first), pieces[n].second, body);
            return loop(*min, last, body);
        }
        std::vector<Stmt> loops;
        for (size_t n = 0; n < pieces.size(); n++)
            loops.push_back(
                loop(pieces[n].first, n + 1 < pieces.size() ? pieces[n + 1].first : last, pieces[n].second));
        return Block::make(loops);
    }

    // Whether the interior has at most half of the iterations.
    static bool is_small(const Expr &interior, const Expr &extent) {
        const auto n = as_const_int(interior), all = as_const_int(simplify(extent));
        return n && all && 2 * *n <= *all;
    }

    Stmt split(const For *op) {
        if (op->for_type != ForType::Serial && op->for_type != ForType::Parallel) return IRMutator::visit(op);
        Expr first = op->min, end = op->min + op->extent;
        const Expr v = Variable::make(Int(32), op->name);
        std::vector<Expr> inside;
        const Collect found(op);
        for (const Collect::Bound &b : found.bounds) {
            Expr from = first, to = end;
            if (b.known && decides(b, v, from, to)) first = from, end = to, inside.push_back(b.condition);
        }
        if (inside.empty()) return IRMutator::visit(op);
        first = simplify_index(first, known_);
        const Expr last = simplify_index(op->min + op->extent, known_);
        end = simplify_index(max(end, first), known_);
        const bool empty = proves(end <= first, known_);
        if (empty || (found.wraps && is_small(simplify(end - first), op->extent))) {
            const Stmt pieces = cut(op, v);
            if (pieces.defined()) return pieces;
            if (empty) return IRMutator::visit(op);
        }
        const Stmt interior = Assume(inside).mutate(op->body);
        const auto piece = [&](const Expr &from, const Expr &to, const Stmt &body) -> Stmt {
            const Expr n = simplify_index(to - from, known_);
            if (const auto k = as_const_int(n); k && *k <= 0) return Stmt();
            return For::make(op->name, from, n, op->for_type, op->partition_policy, op->device_api, body);
        };
        if (proves(first <= op->min, known_) && proves(end >= last, known_))
            return piece(op->min, last, mutate(interior));
        if (op->for_type == ForType::Parallel) {
            Expr here = const_true();
            if (!proves(first <= op->min, known_)) here = first <= v;
            if (!proves(end >= last, known_)) here = is_const_one(here) ? v < end : here && v < end;
            return piece(op->min, last, IfThenElse::make(here, mutate(interior), border(op->body)));
        }
        std::vector<Stmt> pieces;
        const Expr start = simplify_index(min(first, last), known_), stop = simplify_index(min(end, last), known_);
        for (const Stmt &s : {piece(op->min, start, border(op->body)), piece(start, stop, mutate(interior)),
                              piece(stop, last, border(op->body))}) {
            if (s.defined()) pieces.push_back(s);
        }
        return Block::make(pieces);
    }
};

} // namespace

void partition_loops(Lowering &l) {
    l.nest.body = LoopPartition(l).mutate(ChooseRemainders(l.facts.bounds()).mutate(l.nest.body));
}

} // namespace kumiko
