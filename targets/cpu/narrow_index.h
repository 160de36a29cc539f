// Private to targets/cpu: 32-bit forms of indices, for proofs.
#pragma once

#include "dsl/halide_passes.h"

namespace kumiko::cpu {

class NarrowIndex : public Halide::Internal::IRMutator {
public:
    bool fits = true;

private:
    using IRMutator::visit;
    // Gives up if `wrong`.
    Halide::Expr fail_if(bool wrong, const Halide::Internal::BaseExprNode *op) {
        fits = fits && !wrong;
        return op;
    }
    // The operation on narrow operands.
    template<typename T>
    Halide::Expr narrow_operands(const T *op) {
        const Halide::Expr a = mutate(op->a), b = mutate(op->b);
        return fits ? T::make(a, b) : Halide::Expr(op);
    }
    Halide::Expr visit(const Halide::Internal::IntImm *op) override {
        if (op->value < INT32_MIN || op->value > INT32_MAX) return fail_if(true, op);
        return Halide::Internal::IntImm::make(Halide::Int(32), op->value);
    }
    Halide::Expr visit(const Halide::Internal::Cast *op) override {
        if (op->value.type() == Halide::Int(32) && op->type == Halide::Int(64)) return mutate(op->value);
        return fail_if(true, op);
    }
    Halide::Expr visit(const Halide::Internal::Variable *op) override {
        return fail_if(op->type != Halide::Int(32), op);
    }
    Halide::Expr visit(const Halide::Internal::Load *op) override { return fail_if(true, op); }
    Halide::Expr visit(const Halide::Internal::Call *op) override { return fail_if(true, op); }
    Halide::Expr visit(const Halide::Internal::Select *op) override { return fail_if(true, op); }
    Halide::Expr visit(const Halide::Internal::Let *op) override { return fail_if(true, op); }
    Halide::Expr visit(const Halide::Internal::Add *op) override { return narrow_operands(op); }
    Halide::Expr visit(const Halide::Internal::Sub *op) override { return narrow_operands(op); }
    Halide::Expr visit(const Halide::Internal::Mul *op) override { return narrow_operands(op); }
    Halide::Expr visit(const Halide::Internal::Min *op) override { return narrow_operands(op); }
    Halide::Expr visit(const Halide::Internal::Max *op) override { return narrow_operands(op); }
    Halide::Expr visit(const Halide::Internal::Div *op) override { return narrow_operands(op); }
    Halide::Expr visit(const Halide::Internal::Mod *op) override { return narrow_operands(op); }
};

// The same scalar index in 32 bits, which Halide's simplifier handles better; returns e if a part
// of it does not fit. Index arithmetic does not wrap around, so a proof about the result holds for
// e. The result must not be evaluated.
inline Halide::Expr narrow_index(const Halide::Expr &e) {
    if (e.type() == Halide::Int(32)) return e;
    NarrowIndex narrow;
    const Halide::Expr result = narrow.mutate(e);
    return narrow.fits ? result : e;
}

} // namespace kumiko::cpu
