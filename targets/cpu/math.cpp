// Math functions: which types they go through, and the simple ones.
#include "targets/cpu/math_functions.h"
#include "targets/cpu/math_lanes.h"

#include "support/error.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/InlineAsm.h>

#include <limits>

namespace kumiko::cpu {

Value *MathFunctions::math(const std::string &function, Type t, std::vector<Value *> args) {
    llvm::IRBuilderBase::FastMathFlagGuard guard(ir_);
    ir_.clearFastMathFlags();
    bool half = t.bits() == 16;
    Type wide = half ? Float(32, t.lanes()) : t;
    if (half) {
        for (Value *&arg : args) {
            arg = widen_half(arg, t);
        }
    }
    llvm::Type *f = type(wide);
    auto c = [&](double v) { return llvm::ConstantFP::get(f, v); };
    const double infinity = std::numeric_limits<double>::infinity();
    auto finish = [&](Value *v) { return half ? narrow_to_half(v, t) : v; };
    auto is = [&](std::initializer_list<const char *> names) {
        return std::find(names.begin(), names.end(), function) != names.end();
    };
    if (is({"is_nan"})) {
        return ir_.CreateFCmpUNO(args[0], args[0]);
    } else if (is({"is_inf"})) {
        return ir_.CreateFCmpOEQ(ir_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, args[0]), c(infinity));
    } else if (is({"is_finite"})) {
        return ir_.CreateFCmpOLT(ir_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, args[0]), c(infinity));
    } else if (is({"inf", "neg_inf", "nan"})) {
        double v = function == "nan"   ? std::numeric_limits<double>::quiet_NaN()
                   : function == "inf" ? infinity
                                       : -infinity;
        return finish(c(v));
    } else if (is({"sqrt"})) {
        return finish(ir_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, args[0]));
    } else if (is({"floor"})) {
        return finish(ir_.CreateUnaryIntrinsic(llvm::Intrinsic::floor, args[0]));
    } else if (is({"ceil"})) {
        return finish(ir_.CreateUnaryIntrinsic(llvm::Intrinsic::ceil, args[0]));
    } else if (is({"trunc"})) {
        return finish(ir_.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, args[0]));
    } else if (is({"round"})) { // to nearest even
        return finish(ir_.CreateUnaryIntrinsic(llvm::Intrinsic::rint, args[0]));
    } else if (is({"abs"})) {
        return finish(ir_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, args[0]));
    } else if (is({"inverse", "fast_inverse"})) {
        return finish(ir_.CreateFDiv(c(1), args[0]));
    } else if (is({"rsqrt", "inverse_sqrt", "fast_inverse_sqrt"})) {
        return finish(ir_.CreateFDiv(c(1), ir_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, args[0])));
    }
    if (is({"pow"})) {
        if (Value *v = constant_power(args[0], args[1], t)) return finish(v);
    }
    if (lanes_for_math(args[0]).constant_bits) {
        // LLVM may see that no store around here can change the constants; the barrier hides that.
        auto *nothing = llvm::FunctionType::get(ir_.getVoidTy(), false);
        ir_.CreateCall(llvm::InlineAsm::get(nothing, "", "~{memory}", true));
    }
    return finish(wide.bits() == 64 ? math_f64(function, args) : math_f32(function, args));
}

// Lane by lane through the C library.
Value *MathFunctions::libm(const std::string &function, Type t, const std::vector<Value *> &args) {
    static const std::set<std::string> known = {"exp",  "log",  "tanh",  "erf",   "erfc",  "expm1", "log1p",
                                                "pow",  "sin",  "cos",   "tan",   "asin",  "acos",  "atan",
                                                "sinh", "cosh", "atan2", "asinh", "acosh", "atanh", "fmod"};
    if (!known.count(function)) {
        throw Unsupported("kernel " + kernel_ + ": math function \"" + function +
                          "\", which code generation does not know");
    }
    llvm::Type *f64 = ir_.getDoubleTy();
    std::vector<llvm::Type *> params(args.size(), f64);
    auto callee =
        module->getOrInsertFunction(options_.libm_prefix + function, llvm::FunctionType::get(f64, params, false));
    if (auto *f = llvm::dyn_cast<llvm::Function>(callee.getCallee())) {
        f->setDoesNotThrow();
        f->setDoesNotAccessMemory();
        f->addFnAttr(llvm::Attribute::WillReturn);
    }
    std::vector<Value *> results;
    for (int i = 0; i < lanes(args[0]); i++) {
        std::vector<Value *> scalars;
        for (Value *arg : args) {
            Value *v = is_vector(arg) ? ir_.CreateExtractElement(arg, uint64_t(i)) : arg;
            scalars.push_back(v->getType() == f64 ? v : ir_.CreateFPExt(v, f64));
        }
        Value *r = ir_.CreateCall(callee, scalars);
        results.push_back(t.bits() == 64 ? r : ir_.CreateFPTrunc(r, ir_.getFloatTy()));
    }
    return concat(results);
}

} // namespace kumiko::cpu
