// Casts among all types. Integers truncate or extend by the source's sign. Floats round once, to
// nearest even. A float becomes an integer by truncation with saturation, and NaN becomes 0.
// Anything becomes bool by comparison with zero.
#include "targets/cpu/expressions.h"

#include <llvm/IR/Constants.h>

#include <cmath>

namespace kumiko::cpu {

using namespace Halide::Internal;

// The range of a float expression that minima and maxima with constants limit. These return the
// constant for NaN.
Arithmetic::FloatRange Arithmetic::range_of_clamped(const Expr &e) {
    const auto *least = e.as<Min>();
    const auto *greatest = e.as<Max>();
    const auto limit = least ? as_const_float(least->b) : greatest ? as_const_float(greatest->b) : std::nullopt;
    if (!limit || std::isnan(*limit)) return {};
    FloatRange range = range_of_clamped(least ? least->a : greatest->a);
    const auto apply = [&](double x) { return least ? std::min(x, *limit) : std::max(x, *limit); };
    return {apply(range.low), apply(range.high), false};
}

// Limits a float to [low, high]; NaN becomes `number`. Omits what the range makes redundant.
Value *Arithmetic::limited(Value *x, double low, double high, double number, const FloatRange &range) {
    llvm::Type *f = x->getType();
    Value *lower = llvm::ConstantFP::get(f, low), *upper = llvm::ConstantFP::get(f, high);
    // NaN is not above the lower bound and needs no test if it becomes that.
    const bool raise = range.low < low || (range.may_be_nan && number == low);
    if (range.may_be_nan && number != low)
        x = ir_.CreateSelect(ir_.CreateFCmpORD(x, x), x, llvm::ConstantFP::get(f, number));
    if (raise) x = ir_.CreateSelect(ir_.CreateFCmpOGT(x, lower), x, lower);
    if (range.high > high) x = ir_.CreateSelect(ir_.CreateFCmpOLT(x, upper), x, upper);
    return x;
}

// If both bounds are exact in the float type, the value is clamped before the conversion; otherwise
// the result is patched after it. So every step is one vector instruction and no step is undefined.
Value *Arithmetic::float_to_int(Value *v, Type from, Type to, const FloatRange &range) {
    if (from.bits() == 16) {
        v = widen_half(v, from);
        from = Float(32, from.lanes());
    }
    llvm::Type *f = type(from);
    bool is_signed = to.is_int();
    double low = is_signed ? -std::ldexp(1.0, to.bits() - 1) : 0.0;
    // One more than the greatest.
    double above = std::ldexp(1.0, is_signed ? to.bits() - 1 : to.bits());
    int precision = from.bits() == 32 ? 24 : 53;
    if (to.bits() < precision) { // both bounds are exact
        Value *x = limited(v, low, above - 1, 0, range);
        if (to.bits() < 32) { // via i32, since vector units convert to it
            Value *wide = ir_.CreateFPToSI(x, with_lanes(ir_.getInt32Ty(), to.lanes()));
            return ir_.CreateTrunc(wide, type(to));
        }
        return is_signed ? ir_.CreateFPToSI(x, type(to)) : ir_.CreateFPToUI(x, type(to));
    }
    Value *too_low = ir_.CreateFCmpOLT(v, llvm::ConstantFP::get(f, low));
    Value *too_high = ir_.CreateFCmpOGE(v, llvm::ConstantFP::get(f, above));
    Value *zero = llvm::ConstantFP::get(f, 0.0), *is_number = ir_.CreateFCmpORD(v, v);
    Value *inside = ir_.CreateAnd(is_number, ir_.CreateNot(ir_.CreateOr(too_low, too_high)));
    Value *x = ir_.CreateSelect(inside, v, zero);
    Value *result = is_signed ? ir_.CreateFPToSI(x, type(to)) : ir_.CreateFPToUI(x, type(to));
    auto limit = [&](bool greatest) {
        llvm::APInt bits = is_signed ? (greatest ? llvm::APInt::getSignedMaxValue(to.bits())
                                                 : llvm::APInt::getSignedMinValue(to.bits()))
                                     : (greatest ? llvm::APInt::getMaxValue(to.bits()) : llvm::APInt(to.bits(), 0));
        return llvm::ConstantInt::get(type(to), bits);
    };
    result = ir_.CreateSelect(too_high, limit(true), result);
    return ir_.CreateSelect(too_low, limit(false), result);
}

// round(x), or round(x) plus an integer, as 8 or 16 bits. x is clamped to the range of the result
// and rounded by the conversion itself. The second clamp as an integer is free: it becomes a
// saturating narrowing instruction. A clamp of round(x) by integers is one of x.
Value *Expressions::rounded_to_int(const Cast *op) {
    const Type to = op->type, from = op->value.type();
    if (!to.is_int_or_uint() || (to.bits() != 8 && to.bits() != 16) || from.element_of() != Float(32)) return nullptr;
    const auto integer = [](const Expr &e) {
        const auto number = as_const_float(e);
        return number && std::trunc(*number) == *number && std::abs(*number) <= 0x10000 ? number : std::nullopt;
    };
    Expr rounded = op->value;
    double plus = 0;
    if (const auto *add = rounded.as<Add>()) {
        const auto number = integer(add->b);
        if (!number) return nullptr;
        plus = *number, rounded = add->a;
    }
    const auto unclamped = [&](Expr e) { // without minima and maxima with integers
        for (;;) {
            if (const auto *least = e.as<Min>(); least && integer(least->b))
                e = least->a;
            else if (const auto *greatest = e.as<Max>(); greatest && integer(greatest->b))
                e = greatest->a;
            else
                return e;
        }
    };
    const Expr inner = unclamped(rounded);
    const auto *call = inner.as<Call>();
    if (!call || !call->is_intrinsic(Call::round) || call->args.size() != 1) return nullptr;
    const Expr clamped = inner.same_as(rounded) ? call->args[0] : substitute(inner, call->args[0], rounded);
    Value *x = value(clamped);
    llvm::IRBuilderBase::FastMathFlagGuard guard(ir_);
    ir_.clearFastMathFlags();
    const double low = to.is_int() ? -std::ldexp(1.0, to.bits() - 1) : 0.0,
                 high = std::ldexp(1.0, to.is_int() ? to.bits() - 1 : to.bits()) - 1;
    // For unsigned types 0 is the lower bound.
    x = limited(x, low - plus, high - plus, -plus, range_of_clamped(clamped));
    llvm::Type *wide = with_lanes(ir_.getInt32Ty(), to.lanes());
    const auto whole = [&](double n) { return llvm::ConstantInt::get(wide, uint64_t(int64_t(n)), true); };
    // To nearest even.
    Value *i = ir_.CreateIntrinsic(llvm::Intrinsic::lrint, {wide, type(from)}, {x});
    if (plus != 0) i = ir_.CreateNSWAdd(i, whole(plus));
    i = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, i, whole(low));
    i = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, i, whole(high));
    return ir_.CreateTrunc(i, type(to));
}

Value *Arithmetic::cast(Value *v, Type from, Type to, const FloatRange &range) {
    llvm::IRBuilderBase::FastMathFlagGuard guard(ir_);
    ir_.clearFastMathFlags();
    from = from.with_lanes(to.lanes());
    if (from == to) {
        return v;
    }
    if (from.is_handle() || to.is_handle()) {
        return ir_.CreateBitOrPointerCast(v, type(to));
    }
    bool from_half = from.is_float() && from.bits() == 16, to_half = to.is_float() && to.bits() == 16;
    if (to.is_bool()) {
        if (from_half) {
            v = widen_half(v, from);
            from = Float(32, from.lanes());
        }
        return from.is_float() ? ir_.CreateFCmpUNE(v, llvm::Constant::getNullValue(type(from)))
                               : ir_.CreateICmpNE(v, llvm::Constant::getNullValue(type(from)));
    }
    if (!from.is_float() && !to.is_float()) {
        return from.is_int() ? ir_.CreateSExtOrTrunc(v, type(to)) : ir_.CreateZExtOrTrunc(v, type(to));
    }
    if (from.is_float() && !to.is_float()) {
        return float_to_int(v, from, to, range);
    }
    if (!from.is_float()) {
        if (to_half) {
            return int_to_half(v, from, to);
        }
        return from.is_int() ? ir_.CreateSIToFP(v, type(to)) : ir_.CreateUIToFP(v, type(to));
    }
    if (from_half) {
        v = widen_half(v, from);
        from = Float(32, from.lanes());
    }
    if (to_half) {
        return narrow_to_half(from.bits() == 64 ? round_to_odd(v) : v, to);
    }
    return from.bits() < to.bits()   ? ir_.CreateFPExt(v, type(to))
           : from.bits() > to.bits() ? ir_.CreateFPTrunc(v, type(to))
                                     : v;
}

} // namespace kumiko::cpu
