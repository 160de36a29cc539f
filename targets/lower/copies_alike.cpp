// Decides whether an unrolled loop may stay a loop for callers that only count operations
// (LowerOptions::to_count).
#include "schedules/linear.h"
#include "targets/lower/lowering.h"

#include <numeric>

namespace kumiko {

using namespace Halide::Internal;

namespace {

// Whether an index changes by the same amount at every iteration of a loop: all values of the loop
// fall into one block of each divisor.
bool even(const Expr &index, const std::string &loop, int64_t first, int64_t last) {
    struct Find : IRVisitor {
        using IRVisitor::visit;
        const std::string *loop;
        int64_t first, last;
        bool found = false;
        void divided(const Expr &e, const Expr &numerator, const Expr &denominator) {
            if (!expr_uses_var(e, *loop)) return;
            LinearSum sum;
            const auto by = as_const_int(denominator);
            if (!by || *by <= 0 || !sum.add(numerator, 1)) {
                found = true;
                return;
            }
            const int64_t own = sum.coefficient_of(*loop);
            int64_t block = *by; // the gcd of the divisor and the steps of the other variables
            for (const auto &[name, factor] : sum.terms) {
                if (name != *loop) block = std::gcd(block, factor);
            }
            const auto at = [&](int64_t value) { return div_imp(sum.constant + own * value, block); };
            found = found || at(first) != at(last);
        }
        void visit(const Div *op) override { divided(op, op->a, op->b); }
        void visit(const Mod *op) override { divided(op, op->a, op->b); }
        // For clipped loops, simplifying the copies finds more than simplifying the loop.
        void visit(const Min *) override { found = true; }
        void visit(const Max *) override { found = true; }
        void visit(const Select *) override { found = true; }
        void visit(const Load *) override { found = true; }
    } find;
    find.loop = &loop;
    find.first = first;
    find.last = last;
    index.accept(&find);
    return !find.found;
}

} // namespace

bool copies_alike(const For *unrolled, const Stmt &body, int vector_bits) {
    const auto extent = as_const_int(unrolled->extent), min = as_const_int(unrolled->min);
    if (!min) return false;
    struct Find : IRVisitor {
        using IRVisitor::visit;
        const std::string *loop;
        int64_t first, last;
        int vector_bits;
        bool found = false;
        // Whether copies store neighbouring elements that join_stores combines.
        bool joined(const Store *op, const Ramp *r) const {
            const Type t = op->value.type();
            LinearSum sum;
            return r && 2 * t.bits() * t.lanes() <= vector_bits && sum.add(r->base, 1) &&
                   sum.coefficient_of(*loop) == t.lanes();
        }
        void no(bool differs) { found = found || differs; }
        void condition(const Expr &e) { no(expr_uses_var(e, *loop)); }
        void visit(const Load *op) override {
            condition(op->predicate);
            no(!even(op->index, *loop, first, last));
        }
        void visit(const Store *op) override {
            condition(op->predicate);
            const Ramp *r = op->index.as<Ramp>();
            no((r && !is_const_one(r->stride)) || joined(op, r) || !even(op->index, *loop, first, last));
            op->value.accept(this);
        }
        void visit(const IfThenElse *op) override {
            condition(op->condition);
            IRVisitor::visit(op);
        }
        void visit(const Select *op) override {
            condition(op->condition);
            IRVisitor::visit(op);
        }
        void visit(const Call *op) override {
            if (op->is_intrinsic(Call::if_then_else)) condition(op->args[0]);
            IRVisitor::visit(op);
        }
    } find;
    find.loop = &unrolled->name;
    find.first = *min;
    find.last = *min + *extent - 1;
    find.vector_bits = vector_bits;
    body.accept(&find);
    return !find.found;
}

} // namespace kumiko
