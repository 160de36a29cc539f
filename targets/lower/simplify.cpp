// Simplifies everything but values: offsets, predicates, conditions over indices, extents. A value
// keeps the form that the formula gave it, except for the offsets of its loads.
#include "targets/lower/lowering.h"

#include <map>
#include <utility>

namespace kumiko {

using namespace Halide::Internal;

namespace {

// An expression of loop variables and sizes, without loads or floats.
bool is_index(const Expr &e) {
    struct Visitor : IRVisitor {
        using IRVisitor::visit;
        bool plain = true;
        void visit(const Load *) override { plain = false; }
        void visit(const FloatImm *) override { plain = false; }
        void visit(const Call *) override { plain = false; }
        void visit(const Cast *op) override {
            plain = plain && op->type.is_int() && op->type.bits() >= 32;
            IRVisitor::visit(op);
        }
        void visit(const Variable *v) override {
            plain = plain && (v->type.element_of() == Int(32) || v->type.is_bool());
        }
    } v;
    e.accept(&v);
    return v.plain;
}

// A constant. Offsets of accumulators are constants, and most predicates are true.
bool is_number(const Expr &e) {
    if (const auto *r = e.as<Ramp>()) return is_number(r->base) && is_number(r->stride);
    if (const auto *b = e.as<Broadcast>()) return is_number(b->value);
    return e.as<IntImm>() || e.as<UIntImm>();
}

// Remainders of neighbouring indices: (6 x + 1) % 12 is (6 x) % 12 + 1.
class SplitRemainders : public IRMutator {
    using IRMutator::visit;
    Expr visit(const Mod *op) override {
        const Expr a = mutate(op->a);
        const auto m = as_const_int(op->b);
        if (!m || *m <= 0 || !op->type.is_scalar()) return Mod::make(a, op->b);
        const ModulusRemainder known = modulus_remainder(a);
        if (known.remainder <= 0 || known.modulus <= 1 || *m % known.modulus) return Mod::make(a, op->b);
        const Expr rest = make_const(op->type, known.remainder);
        return simplify((a - rest) % op->b) + rest;
    }
};

class SimplifyIndices : public IRMutator {
public:
    explicit SimplifyIndices(const Lowering &l) : bounds_(l.facts.bounds()) {}

private:
    using IRMutator::visit;
    Bounds bounds_;

    // Results of simplification within the enclosing loops; unrolled copies contain the same
    // indices many times.
    std::map<Expr, Expr, IRDeepCompare> known_;

    Expr offset(const Expr &e) {
        if (is_number(e)) return e;
        if (const auto found = known_.find(e); found != known_.end()) return found->second;
        const Expr inner = IRMutator::mutate(e); // loads inside an index (a gather)
        const Expr simple = is_index(inner) ? simplify(split_remainders(inner), true, bounds_) : inner;
        known_.emplace(e, simple);
        return simple;
    }
    Expr condition(const Expr &e) { return offset(e); }

    Expr visit(const Load *op) override {
        return Load::make(op->type, op->name, offset(op->index), op->image, op->param, condition(op->predicate),
                          op->alignment);
    }
    Stmt visit(const Store *op) override {
        const Expr p = condition(op->predicate);
        return Store::make(op->name, mutate(op->value), offset(op->index), op->param, p, op->alignment);
    }
    Expr visit(const Select *op) override {
        const Expr c = condition(op->condition);
        if (is_const_one(c)) return mutate(op->true_value);
        if (is_const_zero(c)) return mutate(op->false_value);
        return Select::make(c, mutate(op->true_value), mutate(op->false_value));
    }
    Expr visit(const Call *op) override {
        if (op->name == "kumiko.prefetch")
            return Call::make(op->type, op->name, {op->args[0], offset(op->args[1]), op->args[2], op->args[3]},
                              op->call_type);
        if (!op->is_intrinsic(Call::if_then_else)) return IRMutator::visit(op);
        const Expr c = condition(op->args[0]);
        if (is_const_one(c)) return mutate(op->args[1]);
        if (is_const_zero(c) && op->args.size() > 2) return mutate(op->args[2]);
        std::vector<Expr> args = {c, mutate(op->args[1])};
        if (op->args.size() > 2) args.push_back(mutate(op->args[2]));
        return Call::make(op->type, op->name, args, op->call_type);
    }
    Stmt visit(const IfThenElse *op) override {
        const Expr c = condition(op->condition);
        if (is_const_one(c)) return mutate(op->then_case);
        if (is_const_zero(c)) return op->else_case.defined() ? mutate(op->else_case) : Evaluate::make(0);
        return IfThenElse::make(c, mutate(op->then_case), op->else_case.defined() ? mutate(op->else_case) : Stmt());
    }
    Stmt visit(const For *op) override {
        const Expr min = offset(op->min), extent = offset(op->extent);
        if (is_const_zero(extent)) return Evaluate::make(0);
        bounds_.push(op->name, Interval(min, simplify(min + extent - 1)));
        auto outside = std::exchange(known_, {});
        Stmt body = mutate(op->body);
        known_ = std::move(outside);
        bounds_.pop(op->name);
        return For::make(op->name, min, extent, op->for_type, op->partition_policy, op->device_api, body);
    }
    Stmt visit(const Block *op) override {
        Stmt first = mutate(op->first), rest = mutate(op->rest);
        if (is_no_op(first)) return rest;
        if (is_no_op(rest)) return first;
        return Block::make(first, rest);
    }
};

} // namespace

Expr split_remainders(const Expr &index) { return SplitRemainders().mutate(index); }

void simplify_indices(Lowering &l) { l.nest.body = SimplifyIndices(l).mutate(l.nest.body); }

} // namespace kumiko
