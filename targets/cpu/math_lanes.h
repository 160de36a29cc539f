// Private to targets/cpu: short notation for straight-line vector arithmetic in LLVM IR, used by
// the math functions. A Lanes is a scalar or a vector of f32, f64, i32 or i64; constants take the
// width of their partner.
//
// On processors with few vector registers, the constants of a vector function (about twenty) are
// memory operands. Otherwise LLVM keeps them all in registers across the enclosing loop and spills
// more than it computes.
#pragma once

#include <llvm/IR/Constants.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <vector>

namespace kumiko::cpu {

struct Lanes {
    llvm::IRBuilder<> *ir = nullptr;
    llvm::Value *v = nullptr;
    // Bits of the vectors that constants in memory are stored as; 0: constants are immediate.
    int constant_bits = 0;

    llvm::Type *type() const { return v->getType(); }
    Lanes with(llvm::Value *value) const { return {ir, value, constant_bits}; }
    // A floating-point constant of this shape.
    Lanes f(double c) const { return with(placed(llvm::ConstantFP::get(type(), c))); }
    // An integer constant of this shape.
    Lanes i(uint64_t c) const { return with(placed(llvm::ConstantInt::get(type(), c))); }
    llvm::Value *placed(llvm::Constant *c) const;
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

// max(x, 0), where negative numbers, -0 and NaN give -0: adding it to a result keeps the result's
// sign of zero.
inline Lanes positive_part(Lanes x) { return pick(x >= x.f(0), x, x.f(-0.0)); }

// The constant itself, or a load from a variable that is never written but that LLVM must assume
// stores may change.
inline llvm::Value *Lanes::placed(llvm::Constant *c) const {
    auto *vector = llvm::dyn_cast<llvm::FixedVectorType>(c->getType());
    if (!constant_bits || !vector || c->isNullValue()) return c;
    llvm::Type *element = vector->getElementType();
    const unsigned lanes = vector->getNumElements(), native = constant_bits / element->getScalarSizeInBits();
    const unsigned piece = lanes % native == 0 ? native : lanes;
    llvm::Constant *splat = llvm::ConstantVector::getSplat(llvm::ElementCount::getFixed(piece), c->getSplatValue());
    llvm::Module &module = *ir->GetInsertBlock()->getModule();
    llvm::GlobalVariable *place = nullptr;
    for (llvm::GlobalVariable &g : module.globals()) {
        if (g.isExternallyInitialized() && g.hasInitializer() && g.getInitializer() == splat) place = &g;
    }
    if (!place) {
        place = new llvm::GlobalVariable(module, splat->getType(), false, llvm::GlobalValue::PrivateLinkage, splat,
                                         "constant", nullptr, llvm::GlobalValue::NotThreadLocal, std::nullopt, true);
        place->setAlignment(llvm::Align(constant_bits / 8));
    }
    llvm::Value *loaded = ir->CreateAlignedLoad(splat->getType(), place, llvm::Align(constant_bits / 8));
    if (piece == lanes) return loaded;
    std::vector<int> all(lanes);
    for (unsigned n = 0; n < lanes; n++) all[n] = static_cast<int>(n % piece);
    return ir->CreateShuffleVector(loaded, all);
}

// a * b + c, fused if the processor can. The functions below keep their error bounds either way.
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
