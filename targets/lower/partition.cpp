// Splits loops into border and interior, so that padding which is computed where it is read tests nothing in the interior:
//
//   for y in 0..n: … if_then_else(0 <= y + ky - 1 && y + ky - 1 < n, X[…], 0) …
// becomes
//   for y in 0..1: …                 the same
//   for y in 1..n-1: … X[…] …
//   for y in n-1..n: …               the same
//
// A bound that holds for all iterations of the loops inside, given an iteration of this loop, is solved for this loop: where
// it grows with the loop by a constant, it holds from some iteration on, or up to one. Loops are split from the outside in, and
// borders no further, so the code grows by two bodies a loop. A parallel loop is not cut into three; it tests where it is.
#include "dsl/float_casts.h"
#include "support/error.h"
#include "targets/lower/lowering.h"

namespace kumiko {

using namespace Halide::Internal;

namespace {

// The bounds in a conjunction: a <= b or a < b, of int32.
std::vector<Expr> bounds_in(const Expr &condition) {
    std::vector<Expr> all, bounds;
    split_into_ands(condition, all);
    for (const Expr &e : all) {
        const auto of_indices = [](const auto *op) { return op && op->a.type() == Int(32); };
        if (of_indices(e.as<LE>()) || of_indices(e.as<LT>())) bounds.push_back(e);
    }
    return bounds;
}

// Where a bound holds, as something that is to be at least zero.
Expr slack(const Expr &bound) {
    if (const auto *le = bound.as<LE>()) return le->b - le->a;
    return bound.as<LT>()->b - bound.as<LT>()->a - 1;
}

// The bounds that choose between a value and another below one loop, each with the least slack that any iteration of the
// loops inside gives; more than one where it stands in several loops of one name.
class Collect : public IRVisitor {
public:
    struct Bound {
        Expr condition;
        std::vector<Expr> least;
        bool known = true; // everywhere
    };
    explicit Collect(const For *loop) { loop->body.accept(this); }
    std::vector<Bound> bounds;

private:
    using IRVisitor::visit;
    Scope<Interval> inside_;
    std::set<std::string> defined_; // by lets inside, of which nothing is known

    void visit(const For *op) override {
        op->min.accept(this);
        op->extent.accept(this);
        const ScopedBinding<Interval> bind(inside_, op->name, Interval(op->min, op->min + op->extent - 1));
        op->body.accept(this);
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
            for (const Expr &e : bounds_in(op->args[0])) collect(e);
        }
        IRVisitor::visit(op);
    }
    void collect(const Expr &e) {
        auto bound = std::find_if(bounds.begin(), bounds.end(), [&](const Bound &b) { return equal(b.condition, e); });
        if (bound == bounds.end()) bound = bounds.insert(bounds.end(), Bound{e, {}});
        const Interval i = range_of(simplified(slack(e)), inside_);
        bound->known = bound->known && i.has_lower_bound();
        if (!bound->known) return;
        const Expr least = simplified(i.min);
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
        bound->known = !names.unknown;
        const auto same = [&](const Expr &l) { return equal(l, least); };
        if (std::none_of(bound->least.begin(), bound->least.end(), same)) bound->least.push_back(least);
    }
};

// Without conditions that are known to hold.
class Assume : public IRMutator {
public:
    explicit Assume(const std::vector<Expr> &true_here) : true_here_(true_here) {}

private:
    using IRMutator::visit;
    const std::vector<Expr> &true_here_;

    Expr visit(const Call *op) override {
        if (!op->is_intrinsic(Call::if_then_else)) return IRMutator::visit(op);
        std::vector<Expr> all;
        split_into_ands(op->args[0], all);
        Expr left;
        for (const Expr &e : all) {
            if (std::any_of(true_here_.begin(), true_here_.end(), [&](const Expr &t) { return equal(t, e); })) continue;
            left = left.defined() ? left && e : e;
        }
        const Expr value = mutate(op->args[1]);
        if (!left.defined()) return value;
        std::vector<Expr> args = {left, value};
        if (op->args.size() > 2) args.push_back(mutate(op->args[2]));
        return Call::make(op->type, Call::if_then_else, args, Call::PureIntrinsic);
    }
};

class Partition : public IRMutator {
public:
    explicit Partition(const Lowering &l) : known_(l.facts.bounds()) {}

private:
    using IRMutator::visit;
    Bounds known_;

    Stmt visit(const For *op) override {
        known_.push(op->name, Interval(op->min, simplify(op->min + op->extent - 1)));
        const Stmt result = split(op);
        known_.pop(op->name);
        return result;
    }

    // Narrows the iterations to those in which the bound holds, if the loop of `v` decides it.
    bool decides(const Collect::Bound &b, const Expr &v, Expr &first, Expr &end) const {
        const std::string &name = v.as<Variable>()->name;
        for (const Expr &least : b.least) {
            const auto grows = as_const_int(simplify(substitute(name, v + 1, least) - least));
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

    Stmt split(const For *op) {
        if (op->for_type != ForType::Serial && op->for_type != ForType::Parallel) return IRMutator::visit(op);
        Expr first = op->min, end = op->min + op->extent;
        const Expr v = Variable::make(Int(32), op->name);
        std::vector<Expr> inside;
        for (const Collect::Bound &b : Collect(op).bounds) {
            Expr from = first, to = end;
            if (b.known && decides(b, v, from, to)) first = from, end = to, inside.push_back(b.condition);
        }
        if (inside.empty()) return IRMutator::visit(op);
        first = simplify_index(first, known_);
        const Expr last = simplify_index(op->min + op->extent, known_);
        end = simplify_index(max(end, first), known_);
        if (proves(end <= first, known_)) return IRMutator::visit(op); // no interior
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
            return piece(op->min, last, IfThenElse::make(here, mutate(interior), op->body));
        }
        std::vector<Stmt> pieces;
        const Expr start = simplify_index(min(first, last), known_), stop = simplify_index(min(end, last), known_);
        for (const Stmt &s :
             {piece(op->min, start, op->body), piece(start, stop, mutate(interior)), piece(stop, last, op->body)}) {
            if (s.defined()) pieces.push_back(s);
        }
        return Block::make(pieces);
    }
};

} // namespace

void partition_loops(Lowering &l) { l.nest.body = Partition(l).mutate(l.nest.body); }

} // namespace kumiko
