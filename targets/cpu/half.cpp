// The two 16-bit floats, represented by their bits. Arithmetic is done in f32 and rounded after
// each operation, which for + - * / and sqrt gives the correctly rounded result, because f32 has
// more than twice their precision plus two bits (Figueroa, "When is double rounding innocuous?",
// 1995). Sums and products of f16 are the processor's own where it has them (Expressions::binary).
#include "targets/cpu/expressions.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/MDBuilder.h>

namespace kumiko::cpu {

Value *Arithmetic::widen_half(Value *v, Type from) {
    int n = lanes(v);
    llvm::Type *i32 = with_lanes(ir_.getInt32Ty(), n), *f32 = with_lanes(ir_.getFloatTy(), n);
    auto c = [&](uint32_t bits) { return llvm::ConstantInt::get(i32, bits); };
    if (from.is_bfloat()) {
        return ir_.CreateBitCast(ir_.CreateShl(ir_.CreateZExt(v, i32), c(16)), f32);
    }
    if (has_f16_conversion()) {
        return ir_.CreateFPExt(ir_.CreateBitCast(v, with_lanes(ir_.getHalfTy(), n)), f32);
    }
    // Shift the exponent and fraction to their positions in f32. Multiplying by 2^112 then corrects
    // the exponent bias and normalises subnormal numbers; infinities and NaNs get f32's greatest
    // exponent.
    Value *bits = ir_.CreateZExt(v, i32);
    Value *magnitude = ir_.CreateAnd(bits, c(0x7fff));
    Value *scaled = ir_.CreateFMul(ir_.CreateBitCast(ir_.CreateShl(magnitude, c(13)), f32),
                                   ir_.CreateBitCast(c((127 + 112) << 23), f32));
    Value *result = ir_.CreateBitCast(scaled, i32);
    Value *special = ir_.CreateOr(ir_.CreateShl(magnitude, c(13)), c(0x7f800000));
    special = ir_.CreateSelect(ir_.CreateICmpUGT(magnitude, c(0x7c00)), ir_.CreateOr(special, c(0x400000)), special);
    result = ir_.CreateSelect(ir_.CreateICmpUGE(magnitude, c(0x7c00)), special, result);
    result = ir_.CreateOr(result, ir_.CreateShl(ir_.CreateAnd(bits, c(0x8000)), c(16)));
    return ir_.CreateBitCast(result, f32);
}

// Adds just under half of the last kept place, or exactly half when that place is odd.
Value *Arithmetic::narrow_to_bfloat(Value *v) {
    int n = lanes(v);
    llvm::Type *i32 = with_lanes(ir_.getInt32Ty(), n), *i16 = with_lanes(ir_.getInt16Ty(), n);
    auto c = [&](uint32_t bits) { return llvm::ConstantInt::get(i32, bits); };
    Value *bits = ir_.CreateBitCast(v, i32);
    Value *high = ir_.CreateLShr(bits, c(16));
    Value *rounded = ir_.CreateAdd(bits, ir_.CreateAdd(c(0x7fff), ir_.CreateAnd(high, c(1))));
    rounded = ir_.CreateLShr(rounded, c(16));
    Value *nan = ir_.CreateOr(high, c(0x40));
    return ir_.CreateTrunc(ir_.CreateSelect(ir_.CreateFCmpUNO(v, v), nan, rounded), i16);
}

// AVX-512's conversion of 16 or 32 lanes rounds to nearest in every mode, but treats subnormal
// numbers as zeros. If a lane has one, narrow_to_bfloat converts all lanes.
Value *Arithmetic::narrow_by_instruction(Value *v) {
    const int n = lanes(v);
    constexpr int subnormal = 0x20;
    Value *any = nullptr;
    std::vector<Value *> parts;
    for (int first = 0; first < n;) {
        const int together = n - first >= 32 ? 32 : 16;
        std::vector<Value *> halves;
        for (int at = first; at < first + together; at += 16) {
            halves.push_back(slice(v, at, 16));
            Value *found = ir_.CreateIntrinsic(llvm::Intrinsic::x86_avx512_fpclass_ps_512, {},
                                               {halves.back(), ir_.getInt32(subnormal)});
            any = any ? ir_.CreateOr(any, found) : found;
        }
        Value *part =
            together == 32
                ? ir_.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_cvtne2ps2bf16_512, {}, {halves[1], halves[0]})
                : ir_.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_cvtneps2bf16_512, {}, {halves[0]});
        parts.push_back(ir_.CreateBitCast(part, with_lanes(ir_.getInt16Ty(), together)));
        first += together;
    }
    Value *fast = concat(parts);
    llvm::BasicBlock *exact = block("subnormal"), *after = block("narrowed"), *before = ir_.GetInsertBlock();
    Value *none = ir_.CreateICmpEQ(ir_.CreateBitCast(any, ir_.getInt16Ty()), ir_.getInt16(0));
    ir_.CreateCondBr(none, after, exact, llvm::MDBuilder(context_).createLikelyBranchWeights());
    ir_.SetInsertPoint(exact);
    Value *slow = narrow_to_bfloat(v);
    ir_.CreateBr(after);
    after->moveAfter(exact);
    ir_.SetInsertPoint(after);
    llvm::PHINode *result = ir_.CreatePHI(fast->getType(), 2);
    result->addIncoming(fast, before);
    result->addIncoming(slow, exact);
    return result;
}

Value *Arithmetic::narrow_to_half(Value *v, Type to) {
    int n = lanes(v);
    llvm::Type *i32 = with_lanes(ir_.getInt32Ty(), n), *i16 = with_lanes(ir_.getInt16Ty(), n);
    llvm::Type *f32 = with_lanes(ir_.getFloatTy(), n);
    auto c = [&](uint32_t bits) { return llvm::ConstantInt::get(i32, bits); };
    llvm::IRBuilderBase::FastMathFlagGuard guard(ir_);
    ir_.clearFastMathFlags();
    if (to.is_bfloat()) {
        if (n % 16 == 0 && n <= 64 && options_.target.has("avx512bf16") && options_.target.has("avx512dq"))
            return narrow_by_instruction(v);
        return narrow_to_bfloat(v);
    }
    if (has_f16_conversion()) {
        return ir_.CreateBitCast(ir_.CreateFPTrunc(v, with_lanes(ir_.getHalfTy(), n)), i16);
    }
    Value *bits = ir_.CreateBitCast(v, i32);
    Value *magnitude = ir_.CreateAnd(bits, c(0x7fffffff));
    Value *sign = ir_.CreateLShr(ir_.CreateAnd(bits, c(0x80000000u)), c(16));
    // Normal results: drop 13 bits to nearest even and correct the bias.
    Value *odd = ir_.CreateAnd(ir_.CreateLShr(magnitude, c(13)), c(1));
    Value *normal =
        ir_.CreateSub(ir_.CreateLShr(ir_.CreateAdd(magnitude, ir_.CreateAdd(c(0xfff), odd)), c(13)), c(112 << 10));
    // Subnormal results: adding 0.5 aligns the last bit of f32 with f16's smallest number, and the
    // adder rounds.
    Value *half = ir_.CreateBitCast(c(0x3f000000), f32);
    Value *small =
        ir_.CreateSub(ir_.CreateBitCast(ir_.CreateFAdd(ir_.CreateBitCast(magnitude, f32), half), i32), c(0x3f000000));
    Value *result = ir_.CreateSelect(ir_.CreateICmpULT(magnitude, c(113u << 23)), small, normal);
    // 65520 and above round to infinity.
    result = ir_.CreateSelect(ir_.CreateICmpUGE(magnitude, c(0x477ff000)), c(0x7c00), result);
    Value *nan = ir_.CreateOr(c(0x7e00), ir_.CreateAnd(ir_.CreateLShr(magnitude, c(13)), c(0x3ff)));
    result = ir_.CreateSelect(ir_.CreateICmpUGT(magnitude, c(0x7f800000)), nan, result);
    return ir_.CreateTrunc(ir_.CreateOr(result, sign), i16);
}

// Rounding to odd keeps a sticky bit of everything cut off, so that rounding the result again to a
// much shorter format equals a single rounding (Boldo and Melquiond, "Emulation of FMA and
// correctly rounded sums", 2008).
Value *Arithmetic::round_to_odd(Value *v) {
    int n = lanes(v);
    llvm::Type *i32 = with_lanes(ir_.getInt32Ty(), n), *f32 = with_lanes(ir_.getFloatTy(), n);
    llvm::IRBuilderBase::FastMathFlagGuard guard(ir_);
    ir_.clearFastMathFlags();
    Value *nearest = ir_.CreateFPTrunc(v, f32);
    Value *back = ir_.CreateFPExt(nearest, v->getType());
    Value *inexact = ir_.CreateFCmpONE(back, v);
    Value *too_far = ir_.CreateFCmpOGT(ir_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, back),
                                       ir_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, v));
    Value *bits = ir_.CreateBitCast(nearest, i32);
    bits = ir_.CreateSub(bits, ir_.CreateZExt(too_far, i32)); // towards zero
    bits = ir_.CreateOr(bits, ir_.CreateZExt(inexact, i32));
    return ir_.CreateBitCast(bits, f32);
}

// Via f64: exact for 32 bits. For 64 bits all bits below 2^17 are first folded into one sticky bit,
// far below the last place of a 16-bit float of that magnitude.
Value *Arithmetic::int_to_half(Value *v, Type from, Type to) {
    llvm::Type *f64 = with_lanes(ir_.getDoubleTy(), lanes(v)), *f32 = with_lanes(ir_.getFloatTy(), lanes(v));
    if (from.bits() <= 16) {
        return narrow_to_half(from.is_int() ? ir_.CreateSIToFP(v, f32) : ir_.CreateUIToFP(v, f32), to);
    }
    if (from.bits() == 64) {
        auto c = [&](int64_t bits) { return llvm::ConstantInt::get(v->getType(), uint64_t(bits)); };
        Value *low = ir_.CreateAnd(v, c(0x1ffff));
        Value *sticky = ir_.CreateSelect(ir_.CreateICmpNE(low, c(0)), c(0x10000), c(0));
        Value *folded = ir_.CreateOr(ir_.CreateAnd(v, c(~int64_t(0x1ffff))), sticky);
        Value *top = from.is_int() ? ir_.CreateXor(v, ir_.CreateAShr(v, c(63))) : v;
        v = ir_.CreateSelect(ir_.CreateICmpUGE(top, c(int64_t(1) << 52)), folded, v);
    }
    Value *wide = from.is_int() ? ir_.CreateSIToFP(v, f64) : ir_.CreateUIToFP(v, f64);
    return narrow_to_half(round_to_odd(wide), to);
}

} // namespace kumiko::cpu
