#include "targets/cpu/arithmetic.h"

namespace kumiko::cpu {

// max(a, b) = a > b ? a : b, and min likewise with <: what maxps and minps do, NaN included.
Value *Arithmetic::minmax(Type t, Value *a, Value *b, bool maximum) {
    if (t.is_float()) {
        Value *x = is_half(t) ? widen_half(a, t) : a, *y = is_half(t) ? widen_half(b, t) : b;
        return ir_.CreateSelect(maximum ? ir_.CreateFCmpOGT(x, y) : ir_.CreateFCmpOLT(x, y), a, b);
    }
    if (t.is_bool()) {
        return maximum ? ir_.CreateOr(a, b) : ir_.CreateAnd(a, b);
    }
    auto id = t.is_uint() ? (maximum ? llvm::Intrinsic::umax : llvm::Intrinsic::umin)
                          : (maximum ? llvm::Intrinsic::smax : llvm::Intrinsic::smin);
    return ir_.CreateBinaryIntrinsic(id, a, b);
}

} // namespace kumiko::cpu
