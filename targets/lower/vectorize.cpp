// Converts vector loops to vector operations. The loop variable takes all its values at once: an
// offset that grows with it by a constant becomes a dense or strided ramp, and a condition that
// depends on it becomes a predicate on loads and stores.
//
// A store into a buffer that covers its lanes (as accumulators do) needs no predicate: what lies
// beyond the tail is never read. The loads in its value keep theirs.
#include "support/error.h"
#include "targets/lower/lowering.h"

namespace kumiko {

using namespace Halide::Internal;

namespace {

// The widened form of one loop's body.
class Widen : public IRMutator {
public:
    Widen(const Lowering &l, const Bounds &bounds, const std::string &variable, const Expr &min, int lanes)
        : l_(l), bounds_(bounds), variable_(variable), min_(min), lanes_(lanes) {}

private:
    using IRMutator::visit;
    const Lowering &l_;
    const Bounds &bounds_;
    const std::string variable_;
    const Expr min_;
    const int lanes_;
    std::set<std::string> vector_lets_;
    Expr tail_;   // the enabled lanes, if not all: those before the end of the loop
    Expr chosen_; // the lanes for which the formula selects the current value

    bool varies(const Expr &e) const {
        struct Uses : IRVisitor {
            using IRVisitor::visit;
            const Widen *w;
            bool found = false;
            void visit(const Variable *v) override {
                found = found || v->name == w->variable_ || w->vector_lets_.count(v->name);
            }
        } uses;
        uses.w = this;
        e.accept(&uses);
        return uses.found;
    }

    Expr widen(const Expr &e) const { return e.type().lanes() == lanes_ ? e : Broadcast::make(e, lanes_); }

    // How much e grows when the variable grows by one, if that is a constant.
    std::optional<int64_t> step(const Expr &e) const {
        if (!varies(e)) return 0;
        if (const auto *v = e.as<Variable>()) return v->name == variable_ ? std::optional<int64_t>(1) : std::nullopt;
        if (const auto *op = e.as<Cast>();
            op && op->type.bits() >= 32 && op->value.type().bits() >= 32 && op->type.is_int())
            return step(op->value);
        if (const auto *op = e.as<Add>()) {
            const auto a = step(op->a), b = step(op->b);
            return a && b ? std::optional(*a + *b) : std::nullopt;
        }
        if (const auto *op = e.as<Sub>()) {
            const auto a = step(op->a), b = step(op->b);
            return a && b ? std::optional(*a - *b) : std::nullopt;
        }
        if (const auto *op = e.as<Mul>()) {
            const auto a = step(op->a), b = step(op->b);
            const auto ka = as_const_int(op->a), kb = as_const_int(op->b);
            if (a && kb) return *a * *kb;
            if (b && ka) return *b * *ka;
        }
        return std::nullopt;
    }

    // The stride if it is a constant times a run-time value; undefined if it is neither that nor
    // constant.
    Expr stride(const Expr &e) const {
        if (const auto s = step(e)) return make_const(e.type(), *s);
        if (const auto *op = e.as<Add>()) {
            const Expr a = stride(op->a), b = stride(op->b);
            return a.defined() && b.defined() ? a + b : Expr();
        }
        if (const auto *op = e.as<Mul>()) {
            const Expr a = varies(op->a) ? stride(op->a) : Expr(), b = varies(op->b) ? stride(op->b) : Expr();
            if (a.defined() && !varies(op->b)) return a * op->b;
            if (b.defined() && !varies(op->a)) return op->a * b;
        }
        return Expr();
    }

    Expr index(const Expr &offset) {
        const Expr e = simplify_index(offset, bounds_);
        if (!varies(e)) return e;
        if (const Expr s = stride(e); s.defined()) {
            const Expr base = simplify_index(substitute(variable_, min_, e), bounds_);
            return Ramp::make(base, simplify(s), lanes_);
        }
        return mutate(e);
    }

    Expr visit(const Variable *op) override {
        if (op->name == variable_) return Ramp::make(min_, 1, lanes_);
        if (vector_lets_.count(op->name)) return Variable::make(op->type.with_lanes(lanes_), op->name);
        return op;
    }

    Expr visit(const Load *op) override {
        const Expr i = index(op->index);
        const Expr own = is_const_one(op->predicate) ? Expr() : mutate(op->predicate);
        const Storage &s = l_.storage.at(op->name);
        const bool scalar = i.type().is_scalar();
        // The stored region contains everything that affine indices reach, whatever their
        // conditions. Elsewhere, an element read by all lanes is also read by the lanes before the
        // tail, but not if a condition of the formula may disable all lanes.
        Expr p;
        if (!(s.covers_reads && (scalar || i.as<Ramp>()))) {
            if (chosen_.defined()) p = chosen_;
            if (tail_.defined() && (!scalar || p.defined())) p = p.defined() ? p && tail_ : tail_;
        }
        if (!p.defined() && scalar && (!own.defined() || own.type().is_scalar())) {
            return Load::make(op->type, op->name, i, op->image, op->param, own.defined() ? own : op->predicate,
                              op->alignment);
        }
        if (own.defined()) p = p.defined() ? p && widen(own) : widen(own);
        if (!p.defined()) p = const_true(lanes_);
        return Load::make(op->type.with_lanes(lanes_), op->name, widen(i), op->image, op->param, p, ModulusRemainder());
    }

    Expr visit(const Call *op) override {
        if (op->is_intrinsic(Call::if_then_else)) {
            const Expr condition = mutate(op->args[0]);
            if (condition.type().is_scalar()) {
                Expr a = mutate(op->args[1]);
                Expr b = op->args.size() > 2 ? mutate(op->args[2]) : make_zero(a.type());
                const int n = std::max(a.type().lanes(), b.type().lanes());
                if (n > 1) a = widen(a), b = widen(b);
                return Call::make(a.type(), Call::if_then_else, {condition, a, b}, Call::PureIntrinsic);
            }
            const Expr outer = chosen_;
            chosen_ = outer.defined() ? outer && condition : condition;
            const Expr a = widen(mutate(op->args[1]));
            chosen_ = outer.defined() ? outer && !condition : !condition;
            const Expr b = op->args.size() > 2 ? widen(mutate(op->args[2])) : make_zero(a.type());
            chosen_ = outer;
            return Select::make(condition, a, b);
        }
        std::vector<Expr> args;
        int lanes = 1;
        for (const Expr &a : op->args) {
            args.push_back(mutate(a));
            lanes = std::max(lanes, args.back().type().lanes());
        }
        if (lanes == 1) return Call::make(op->type, op->name, args, op->call_type);
        for (Expr &a : args) a = widen(a);
        return Call::make(op->type.with_lanes(lanes), op->name, args, op->call_type);
    }

    template<typename T>
    Expr binary(const T *op) {
        Expr a = mutate(op->a), b = mutate(op->b);
        if (a.type().lanes() != b.type().lanes()) a = widen(a), b = widen(b);
        return T::make(a, b);
    }
    Expr visit(const Add *op) override { return binary(op); }
    Expr visit(const Sub *op) override { return binary(op); }
    Expr visit(const Mul *op) override { return binary(op); }
    Expr visit(const Div *op) override { return binary(op); }
    Expr visit(const Mod *op) override { return binary(op); }
    Expr visit(const Min *op) override { return binary(op); }
    Expr visit(const Max *op) override { return binary(op); }
    Expr visit(const EQ *op) override { return binary(op); }
    Expr visit(const NE *op) override { return binary(op); }
    Expr visit(const LT *op) override { return binary(op); }
    Expr visit(const LE *op) override { return binary(op); }
    Expr visit(const GT *op) override { return binary(op); }
    Expr visit(const GE *op) override { return binary(op); }
    Expr visit(const And *op) override { return binary(op); }
    Expr visit(const Or *op) override { return binary(op); }
    Expr visit(const Not *op) override { return Not::make(mutate(op->a)); }
    Expr visit(const Cast *op) override {
        const Expr v = mutate(op->value);
        return Cast::make(op->type.with_lanes(v.type().lanes()), v);
    }
    Expr visit(const Reinterpret *op) override {
        const Expr v = mutate(op->value);
        return Reinterpret::make(op->type.with_lanes(v.type().lanes()), v);
    }
    Expr visit(const Select *op) override {
        Expr c = mutate(op->condition), a = mutate(op->true_value), b = mutate(op->false_value);
        const int n = std::max({c.type().lanes(), a.type().lanes(), b.type().lanes()});
        if (n > 1) c = widen(c), a = widen(a), b = widen(b);
        return Select::make(c, a, b);
    }
    Expr visit(const Let *op) override {
        const Expr v = mutate(op->value);
        if (v.type().is_scalar()) return Let::make(op->name, v, mutate(op->body));
        vector_lets_.insert(op->name);
        const Expr body = mutate(op->body);
        return Let::make(op->name, v, body);
    }
    Stmt visit(const LetStmt *op) override {
        const Expr v = mutate(op->value);
        if (!v.type().is_scalar()) vector_lets_.insert(op->name);
        return LetStmt::make(op->name, v, mutate(op->body));
    }

    // The value that disabled lanes contribute to a reduction.
    static Expr neutral(VectorReduce::Operator how, Type t) {
        const double inf = std::numeric_limits<double>::infinity();
        switch (how) {
        case VectorReduce::Add:
            return make_zero(t);
        case VectorReduce::Mul:
            return make_one(t);
        case VectorReduce::Min:
            return t.is_float() ? FloatImm::make(t, inf) : t.max();
        case VectorReduce::Max:
            return t.is_float() ? FloatImm::make(t, -inf) : t.min();
        default:
            throw InternalError("lanes are reduced by an operator without an identity");
        }
    }

    // acc = acc + term with a vector term becomes acc plus the sum of its lanes; also if a padded
    // tail selects between that and the identity.
    Stmt join(const Store *op, const Expr &index) {
        if (const auto *c = op->value.as<Call>();
            c && c->is_intrinsic(Call::if_then_else) && !varies(c->args[0]) && !varies(c->args[2])) {
            const Stmt inside =
                join(Store::make(op->name, c->args[1], op->index, op->param, op->predicate, op->alignment).as<Store>(),
                     index);
            if (!inside.defined()) return Stmt();
            const Expr value =
                Call::make(c->type, Call::if_then_else,
                           {mutate(c->args[0]), inside.as<Store>()->value, mutate(c->args[2])}, Call::PureIntrinsic);
            return Store::make(op->name, value, index, op->param, op->predicate, op->alignment);
        }
        const auto joined = [&](const auto *binary, const Expr &own, const Expr &other, VectorReduce::Operator how) {
            const Load *acc = own.as<Load>();
            if (!acc || acc->name != op->name || !equal(acc->index, op->index)) return Stmt();
            using Node = std::decay_t<decltype(*binary)>;
            const bool extreme = how == VectorReduce::Min || how == VectorReduce::Max;
            Expr lanes = widen(mutate(other));
            const Expr none = widen(neutral(how, lanes.type().element_of()));
            if (tail_.defined()) lanes = Select::make(tail_, lanes, none);
            // Then no lane is NaN.
            if (extreme && lanes.type().is_float()) lanes = Node::make(lanes, none);
            const Expr term = VectorReduce::make(how, lanes, 1);
            const Expr value = extreme ? Node::make(term, mutate(own)) : Node::make(mutate(own), term);
            return Store::make(op->name, value, index, op->param, op->predicate, op->alignment);
        };
        if (const auto *e = op->value.as<Add>()) return joined(e, e->a, e->b, VectorReduce::Add);
        if (const auto *e = op->value.as<Mul>()) return joined(e, e->a, e->b, VectorReduce::Mul);
        if (const auto *e = op->value.as<Min>()) return joined(e, e->b, e->a, VectorReduce::Min);
        if (const auto *e = op->value.as<Max>()) return joined(e, e->b, e->a, VectorReduce::Max);
        return Stmt();
    }

    Stmt visit(const Store *op) override {
        const Expr i = index(op->index);
        if (i.type().is_scalar() && l_.joined.count(variable_)) {
            if (Stmt s = join(op, i); s.defined()) return s;
        }
        const Expr value = mutate(op->value);
        if (i.type().is_scalar() && !value.type().is_scalar()) {
            throw InternalError("all lanes of loop " + variable_ + " store to one element of " + op->name);
        }
        if (i.type().is_scalar()) { // every lane stores the same value to the same place
            Stmt store = Store::make(op->name, value, i, op->param, op->predicate, op->alignment);
            return tail_.defined() ? IfThenElse::make(VectorReduce::make(VectorReduce::Or, tail_, 1), store) : store;
        }
        const Expr p = tail_.defined() && !l_.storage.at(op->name).covers_lanes ? tail_ : const_true(lanes_);
        return Store::make(op->name, widen(value), i, op->param, p, ModulusRemainder());
    }

    // Terms of a conjunction that are uniform across lanes stay separate tests: if they fail, no
    // lane runs, and elements that all lanes read are not read.
    Stmt apart(const IfThenElse *op) {
        std::vector<Expr> parts;
        split_into_ands(op->condition, parts);
        Expr shared, own;
        for (const Expr &e : parts) {
            Expr &side = varies(e) ? own : shared;
            side = side.defined() ? side && e : e;
        }
        if (!shared.defined() || !own.defined()) return Stmt();
        return IfThenElse::make(mutate(shared), mutate(IfThenElse::make(own, op->then_case)));
    }

    static bool reads_scalars(const Stmt &s) {
        struct Find : IRVisitor {
            using IRVisitor::visit;
            bool found = false;
            void visit(const Load *op) override {
                found = found || op->type.is_scalar();
                IRVisitor::visit(op);
            }
        } find;
        s.accept(&find);
        return find.found;
    }

    Stmt visit(const IfThenElse *op) override {
        if (!op->else_case.defined()) {
            if (Stmt s = apart(op); s.defined()) return s;
        }
        const Expr condition = mutate(op->condition);
        if (condition.type().is_scalar()) {
            return IfThenElse::make(condition, mutate(op->then_case),
                                    op->else_case.defined() ? mutate(op->else_case) : Stmt());
        }
        const Expr outer = tail_;
        tail_ = outer.defined() ? outer && condition : condition;
        Stmt then_case = mutate(op->then_case);
        // Elements that all lanes read exist if any lane runs.
        if (reads_scalars(then_case) && !proves(substitute(variable_, min_, op->condition), bounds_))
            then_case = IfThenElse::make(VectorReduce::make(VectorReduce::Or, tail_, 1), then_case);
        Stmt else_case;
        if (op->else_case.defined()) {
            tail_ = outer.defined() ? outer && !condition : !condition;
            else_case = mutate(op->else_case);
        }
        tail_ = outer;
        return else_case.defined() ? Block::make(then_case, else_case) : then_case;
    }

    Stmt visit(const For *op) override {
        throw InternalError("loop " + op->name + " is inside the vectorized loop " + variable_);
    }
    Stmt visit(const Allocate *op) override {
        throw InternalError("buffer " + op->name + " is allocated inside the vectorized loop " + variable_);
    }
};

class Vectorize : public IRMutator {
public:
    explicit Vectorize(const Lowering &l) : l_(l), bounds_(l.facts.bounds()) {}

private:
    using IRMutator::visit;
    const Lowering &l_;
    Bounds bounds_;

    Stmt visit(const For *op) override {
        bounds_.push(op->name, Interval(op->min, simplify(op->min + op->extent - 1)));
        Stmt result;
        if (op->for_type == ForType::Vectorized) {
            const auto lanes = as_const_int(op->extent);
            if (!lanes) throw InternalError("the vectorized loop " + op->name + " has no constant extent");
            result = Widen(l_, bounds_, op->name, op->min, static_cast<int>(*lanes)).mutate(op->body);
        } else {
            result = IRMutator::visit(op);
        }
        bounds_.pop(op->name);
        return result;
    }
};

} // namespace

void vectorize_loops(Lowering &l) { l.nest.body = Vectorize(l).mutate(l.nest.body); }

} // namespace kumiko
