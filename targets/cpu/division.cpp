// Integer division with Halide's semantics: Euclidean (the remainder is never negative, so for
// positive divisors the quotient rounds to floor), and x/0 = x%0 = 0. The least number divided by
// -1 wraps.
#include "targets/cpu/arithmetic.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/PatternMatch.h>

namespace kumiko::cpu {

namespace {

// The divisor if it is the same constant in all lanes.
std::optional<int64_t> uniform_constant(Value *v, bool is_unsigned) {
    if (auto *c = llvm::dyn_cast<llvm::Constant>(v)) {
        llvm::Constant *scalar = c->getType()->isVectorTy() ? c->getSplatValue() : c;
        if (auto *i = llvm::dyn_cast_or_null<llvm::ConstantInt>(scalar)) {
            if (is_unsigned) {
                uint64_t u = i->getZExtValue();
                return u <= uint64_t(INT64_MAX) ? std::optional<int64_t>(int64_t(u)) : std::nullopt;
            }
            return i->getSExtValue();
        }
    }
    return std::nullopt;
}

int log2_exact(int64_t v) { return v > 0 && (v & (v - 1)) == 0 ? __builtin_ctzll(v) : -1; }

} // namespace

// Quotient and remainder by a divisor that is not a constant.
std::pair<Value *, Value *> Arithmetic::divide_floor(Type t, Value *a, Value *b) {
    Value *zero = constant(t, 0), *one = constant(t, 1);
    Value *by_zero = ir_.CreateICmpEQ(b, zero);
    Value *safe = ir_.CreateSelect(by_zero, one, b);
    Value *by_minus_one = nullptr;
    if (t.is_int()) {
        by_minus_one = ir_.CreateICmpEQ(b, constant(t, -1));
        safe = ir_.CreateSelect(by_minus_one, one, safe);
    }
    // Most processors divide vectors of floats, not of integers: RISC-V's vector unit does both.
    // The truncated quotient of two n-bit integers is exact in floats with p bits of precision if
    // n < p: a/b is at least 1/b away from the next integer, and its rounding error is below
    // 2^(n-p)/b. So f32 serves for n = 8 and 16, and f64 for n = 32.
    Value *quotient;
    if (t.is_vector() && t.bits() <= 32 && !options_.target.has("v")) {
        llvm::Type *f = with_lanes(t.bits() <= 16 ? ir_.getFloatTy() : ir_.getDoubleTy(), t.lanes());
        auto to_float = [&](Value *v) { return t.is_int() ? ir_.CreateSIToFP(v, f) : ir_.CreateUIToFP(v, f); };
        llvm::IRBuilderBase::FastMathFlagGuard guard(ir_);
        ir_.clearFastMathFlags();
        Value *q = ir_.CreateFDiv(to_float(a), to_float(safe));
        if (t.bits() < 32) { // via i32, since vector units convert to it
            llvm::Type *i32 = with_lanes(ir_.getInt32Ty(), t.lanes());
            quotient = ir_.CreateTrunc(ir_.CreateFPToSI(q, i32), type(t));
        } else {
            quotient = t.is_int() ? ir_.CreateFPToSI(q, type(t)) : ir_.CreateFPToUI(q, type(t));
        }
    } else {
        quotient = t.is_int() ? ir_.CreateSDiv(a, safe) : ir_.CreateUDiv(a, safe);
    }
    Value *remainder = ir_.CreateSub(a, ir_.CreateMul(quotient, safe));
    if (t.is_int()) {
        Value *negative = ir_.CreateICmpSLT(remainder, zero), *divisor_negative = ir_.CreateICmpSLT(safe, zero);
        quotient = ir_.CreateAdd(
            quotient, ir_.CreateSelect(negative, ir_.CreateSelect(divisor_negative, one, constant(t, -1)), zero));
        remainder = ir_.CreateAdd(
            remainder, ir_.CreateSelect(negative, ir_.CreateSelect(divisor_negative, ir_.CreateNeg(safe), safe), zero));
        quotient = ir_.CreateSelect(by_minus_one, ir_.CreateNeg(a), quotient);
        remainder = ir_.CreateSelect(by_minus_one, zero, remainder);
    }
    return {ir_.CreateSelect(by_zero, zero, quotient), ir_.CreateSelect(by_zero, zero, remainder)};
}

Value *Arithmetic::divide(Type t, Value *a, Value *b, bool nonnegative) {
    if (t.is_bool()) {
        return ir_.CreateAnd(a, b); // x/1 = x, x/0 = 0
    }
    auto c = uniform_constant(b, t.is_uint());
    if (!c || *c < 0) {
        return divide_floor(t, a, b).first;
    }
    if (*c == 0) {
        return constant(t, 0);
    }
    int shift = log2_exact(*c);
    if (t.is_uint()) {
        return shift >= 0 ? ir_.CreateLShr(a, constant(t, shift)) : ir_.CreateUDiv(a, b);
    }
    if (shift >= 0) {
        return nonnegative ? ir_.CreateLShr(a, constant(t, shift)) : ir_.CreateAShr(a, constant(t, shift));
    }
    if (nonnegative) {
        return ir_.CreateUDiv(a, b);
    }
    // floor(a/c) = a/c for a >= 0, and ~((~a)/c) below 0: one unsigned division between two
    // exclusive ors.
    Value *sign = ir_.CreateAShr(a, constant(t, t.bits() - 1));
    return ir_.CreateXor(ir_.CreateUDiv(ir_.CreateXor(a, sign), b), sign);
}

Value *Arithmetic::modulo(Type t, Value *a, Value *b, bool nonnegative) {
    if (t.is_bool()) {
        return constant(t, 0); // x%1 = 0, x%0 = 0
    }
    auto c = uniform_constant(b, t.is_uint());
    if (!c || *c < 0) {
        return divide_floor(t, a, b).second;
    }
    if (*c == 0) {
        return constant(t, 0);
    }
    if (log2_exact(*c) >= 0) {
        return ir_.CreateAnd(a, constant(t, *c - 1));
    }
    if (t.is_uint() || nonnegative) {
        return ir_.CreateURem(a, b);
    }
    return ir_.CreateSub(a, ir_.CreateMul(divide(t, a, b), b));
}

} // namespace kumiko::cpu
