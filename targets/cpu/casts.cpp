// Casts among all types. Integers truncate or extend by the source's sign. Floats round once, to
// nearest even. A float becomes an integer by truncation with saturation, and NaN becomes 0.
// Anything becomes bool by comparison with zero.
#include "targets/cpu/codegen.h"

#include <llvm/IR/Constants.h>

#include <cmath>

namespace kumiko::cpu {

// If both bounds are exact in the float type, the value is clamped before the conversion; otherwise
// the result is patched after it. So every step is one vector instruction and no step is undefined.
Value *Codegen::float_to_int(Value *v, Type from, Type to) {
    if (from.bits() == 16) {
        v = widen_half(v, from);
        from = Float(32, from.lanes());
    }
    llvm::Type *f = type(from);
    bool is_signed = to.is_int();
    Value *is_number = ir_.CreateFCmpORD(v, v);
    Value *zero = llvm::ConstantFP::get(f, 0.0);
    double low = is_signed ? -std::ldexp(1.0, to.bits() - 1) : 0.0;
    // One more than the greatest.
    double above = std::ldexp(1.0, is_signed ? to.bits() - 1 : to.bits());
    int precision = from.bits() == 32 ? 24 : 53;
    if (to.bits() < precision) { // both bounds are exact
        Value *lower = llvm::ConstantFP::get(f, low), *upper = llvm::ConstantFP::get(f, above - 1);
        // If low is 0, NaN needs no test: it is not above the lower bound.
        Value *x = low == 0 ? v : ir_.CreateSelect(is_number, v, zero);
        x = ir_.CreateSelect(ir_.CreateFCmpOGT(x, lower), x, lower);
        x = ir_.CreateSelect(ir_.CreateFCmpOLT(x, upper), x, upper);
        if (to.bits() < 32) { // via i32, since vector units convert to it
            Value *wide = ir_.CreateFPToSI(x, with_lanes(ir_.getInt32Ty(), to.lanes()));
            return ir_.CreateTrunc(wide, type(to));
        }
        return is_signed ? ir_.CreateFPToSI(x, type(to)) : ir_.CreateFPToUI(x, type(to));
    }
    Value *too_low = ir_.CreateFCmpOLT(v, llvm::ConstantFP::get(f, low));
    Value *too_high = ir_.CreateFCmpOGE(v, llvm::ConstantFP::get(f, above));
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
// saturating narrowing instruction.
Value *Codegen::rounded_to_int(const Halide::Internal::Cast *op) {
    using namespace Halide::Internal;
    const Type to = op->type, from = op->value.type();
    if (!to.is_int_or_uint() || (to.bits() != 8 && to.bits() != 16) || from.element_of() != Float(32)) return nullptr;
    Expr rounded = op->value;
    double plus = 0;
    if (const auto *add = rounded.as<Add>()) {
        const auto number = as_const_float(add->b);
        if (!number || std::trunc(*number) != *number || std::abs(*number) > 0x10000) return nullptr;
        plus = *number, rounded = add->a;
    }
    const auto *call = rounded.as<Call>();
    if (!call || !call->is_intrinsic(Call::round) || call->args.size() != 1) return nullptr;
    Value *x = value(call->args[0]);
    llvm::IRBuilderBase::FastMathFlagGuard guard(ir_);
    ir_.clearFastMathFlags();
    const double low = to.is_int() ? -std::ldexp(1.0, to.bits() - 1) : 0.0,
                 high = std::ldexp(1.0, to.is_int() ? to.bits() - 1 : to.bits()) - 1;
    const auto number = [&](double n) { return llvm::ConstantFP::get(type(from), n); };
    // NaN becomes 0. For unsigned types that is the lower bound, and NaN is not above it.
    if (low != 0) x = ir_.CreateSelect(ir_.CreateFCmpORD(x, x), x, number(-plus));
    x = ir_.CreateSelect(ir_.CreateFCmpOGT(x, number(low - plus)), x, number(low - plus));
    x = ir_.CreateSelect(ir_.CreateFCmpOLT(x, number(high - plus)), x, number(high - plus));
    llvm::Type *wide = with_lanes(ir_.getInt32Ty(), to.lanes());
    const auto whole = [&](double n) { return llvm::ConstantInt::get(wide, uint64_t(int64_t(n)), true); };
    // To nearest even.
    Value *i = ir_.CreateIntrinsic(llvm::Intrinsic::lrint, {wide, type(from)}, {x});
    if (plus != 0) i = ir_.CreateNSWAdd(i, whole(plus));
    i = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, i, whole(low));
    i = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, i, whole(high));
    return ir_.CreateTrunc(i, type(to));
}

Value *Codegen::cast(Value *v, Type from, Type to) {
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
        return float_to_int(v, from, to);
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
