// Private to targets/cpu: short notation for straight-line vector arithmetic in LLVM IR, used by the math functions.
// A Lanes is a scalar or a vector of f32, f64, i32 or i64; constants take the width of their partner.
#pragma once

#include <llvm/IR/Constants.h>
#include <llvm/IR/IRBuilder.h>

namespace kumiko::cpu {

struct Lanes {
    llvm::IRBuilder<> *ir = nullptr;
    llvm::Value *v = nullptr;

    llvm::Type *type() const { return v->getType(); }
    Lanes with(llvm::Value *value) const { return {ir, value}; }
    Lanes f(double c) const { return with(llvm::ConstantFP::get(type(), c)); }    // this shape, floating point
    Lanes i(uint64_t c) const { return with(llvm::ConstantInt::get(type(), c)); } // this shape, integer
    llvm::Type *shaped(llvm::Type *scalar) const {
        auto *vector = llvm::dyn_cast<llvm::FixedVectorType>(type());
        return vector ? static_cast<llvm::Type *>(llvm::FixedVectorType::get(scalar, vector->getNumElements()))
                      : scalar;
    }
    Lanes bits() const { // of f32 as i32, of f64 as i64
        return with(
            ir->CreateBitCast(v, shaped(type()->getScalarType()->isDoubleTy() ? ir->getInt64Ty() : ir->getInt32Ty())));
    }
    Lanes floats() const { // the reverse
        return with(
            ir->CreateBitCast(v, shaped(type()->getScalarSizeInBits() == 64 ? ir->getDoubleTy() : ir->getFloatTy())));
    }
    Lanes to_double() const { return with(ir->CreateFPExt(v, shaped(ir->getDoubleTy()))); }
    Lanes to_float() const { return with(ir->CreateFPTrunc(v, shaped(ir->getFloatTy()))); }
    Lanes to_i32() const { return with(ir->CreateTrunc(v, shaped(ir->getInt32Ty()))); }
    Lanes abs() const { return with(ir->CreateUnaryIntrinsic(llvm::Intrinsic::fabs, v)); }
    Lanes floor() const { return with(ir->CreateUnaryIntrinsic(llvm::Intrinsic::floor, v)); }
    Lanes copysign(Lanes sign) const { return with(ir->CreateBinaryIntrinsic(llvm::Intrinsic::copysign, v, sign.v)); }
    Lanes shl(int n) const { return with(ir->CreateShl(v, n)); }
    Lanes shr(int n) const { return with(ir->CreateLShr(v, n)); }
    Lanes sar(int n) const { return with(ir->CreateAShr(v, n)); }

    Lanes operator-() const { return with(ir->CreateFNeg(v)); }
    bool real() const { return type()->isFPOrFPVectorTy(); }
};

inline Lanes operator+(Lanes a, Lanes b) {
    return a.with(a.real() ? a.ir->CreateFAdd(a.v, b.v) : a.ir->CreateAdd(a.v, b.v));
}
inline Lanes operator-(Lanes a, Lanes b) {
    return a.with(a.real() ? a.ir->CreateFSub(a.v, b.v) : a.ir->CreateSub(a.v, b.v));
}
inline Lanes operator*(Lanes a, Lanes b) {
    return a.with(a.real() ? a.ir->CreateFMul(a.v, b.v) : a.ir->CreateMul(a.v, b.v));
}
inline Lanes operator/(Lanes a, Lanes b) { return a.with(a.ir->CreateFDiv(a.v, b.v)); }
inline Lanes operator&(Lanes a, Lanes b) { return a.with(a.ir->CreateAnd(a.v, b.v)); }
inline Lanes operator|(Lanes a, Lanes b) { return a.with(a.ir->CreateOr(a.v, b.v)); }
inline Lanes operator^(Lanes a, Lanes b) { return a.with(a.ir->CreateXor(a.v, b.v)); }
// Ordered floating-point comparisons: false when an operand is NaN.
inline Lanes operator<(Lanes a, Lanes b) { return a.with(a.ir->CreateFCmpOLT(a.v, b.v)); }
inline Lanes operator>(Lanes a, Lanes b) { return a.with(a.ir->CreateFCmpOGT(a.v, b.v)); }
inline Lanes operator>=(Lanes a, Lanes b) { return a.with(a.ir->CreateFCmpOGE(a.v, b.v)); }
inline Lanes equal(Lanes a, Lanes b) {
    return a.with(a.real() ? a.ir->CreateFCmpOEQ(a.v, b.v) : a.ir->CreateICmpEQ(a.v, b.v));
}
inline Lanes unequal(Lanes a, Lanes b) {
    return a.with(a.real() ? a.ir->CreateFCmpUNE(a.v, b.v) : a.ir->CreateICmpNE(a.v, b.v));
}
inline Lanes pick(Lanes c, Lanes a, Lanes b) { return a.with(a.ir->CreateSelect(c.v, a.v, b.v)); }

// a * b + c, fused where the processor has it. The functions below are within their bounds either way.
struct Mad {
    bool fused;
    Lanes operator()(Lanes a, Lanes b, Lanes c) const {
        return fused ? a.with(a.ir->CreateIntrinsic(llvm::Intrinsic::fma, {a.type()}, {a.v, b.v, c.v})) : a * b + c;
    }
    // c[0]*x^n + ... + c[n], by Horner's rule.
    Lanes polynomial(Lanes x, std::initializer_list<double> c) const {
        Lanes result = x.f(*c.begin());
        for (auto next = c.begin() + 1; next != c.end(); ++next) {
            result = (*this)(result, x, x.f(*next));
        }
        return result;
    }
};

} // namespace kumiko::cpu
