// Calls: Halide's intrinsics, math functions, tensor instructions, prefetches.
#include "schedules/values.h"
#include "targets/cpu/expressions.h"
#include "targets/lower/extern_calls.h"

#include "support/error.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/InlineAsm.h>

namespace kumiko::cpu {

using namespace Halide::Internal;

// Only the selected side is evaluated; under a vector condition both are.
Value *Expressions::if_then_else(const Expr &c, const Expr &a, const Expr &b) {
    Value *test = condition(c);
    if (is_vector(test)) {
        Value *x = value(a);
        return select(test, x, b.defined() ? value(b) : llvm::PoisonValue::get(x->getType()));
    }
    llvm::BasicBlock *then = block("then"), *otherwise = block("else"), *after = block("after");
    ir_.CreateCondBr(test, then, otherwise);
    const int around = std::exchange(branch_, ++branches_);
    const Called before = called_;
    ir_.SetInsertPoint(then);
    Value *x = value(a);
    then = ir_.GetInsertBlock();
    ir_.CreateBr(after);
    branch_ = ++branches_;
    called_ = before;
    ir_.SetInsertPoint(otherwise);
    Value *y = b.defined() ? value(b) : llvm::Constant::getNullValue(x->getType());
    otherwise = ir_.GetInsertBlock();
    ir_.CreateBr(after);
    branch_ = around;
    called_ = before;
    ir_.SetInsertPoint(after);
    llvm::PHINode *result = ir_.CreatePHI(x->getType(), 2);
    result->addIncoming(x, then);
    result->addIncoming(y, otherwise);
    return result;
}

// A negative amount shifts the other way. Amounts of at least the width give 0, or the sign for
// signed right shifts.
Value *Expressions::shift(const Call *op, bool left) {
    Type t = op->type, amount_type = op->args[1].type();
    Value *a = value(op->args[0]), *n = value(op->args[1]);
    Value *bits = constant(t, t.bits()), *zero = constant(t, 0), *last = constant(t, t.bits() - 1);
    auto shifted = [&](Value *by, bool to_left) {
        if (auto *c = llvm::dyn_cast<llvm::Constant>(by)) {
            if (auto *s =
                    llvm::dyn_cast_or_null<llvm::ConstantInt>(c->getType()->isVectorTy() ? c->getSplatValue() : c);
                s && s->getValue().ult(t.bits())) {
                return to_left ? ir_.CreateShl(a, by) : t.is_int() ? ir_.CreateAShr(a, by) : ir_.CreateLShr(a, by);
            }
        }
        Value *small = ir_.CreateICmpULT(by, bits);
        Value *safe = ir_.CreateSelect(small, by, last);
        if (!to_left && t.is_int()) {
            return ir_.CreateAShr(a, safe);
        }
        return ir_.CreateSelect(small, to_left ? ir_.CreateShl(a, safe) : ir_.CreateLShr(a, safe), zero);
    };
    if (amount_type.is_uint() || is_nonnegative(op->args[1])) {
        return shifted(n, left);
    }
    return ir_.CreateSelect(ir_.CreateICmpSLT(n, zero), shifted(ir_.CreateNeg(n), !left), shifted(n, left));
}

// kumiko.prefetch(array, index, locality 1 (far) to 3 (near), write)
Value *Expressions::prefetch(const Call *op) {
    std::string name;
    if (const auto *v = op->args[0].as<Variable>()) {
        name = v->name;
    } else if (const auto *s = op->args[0].as<StringImm>()) {
        name = s->value;
    }
    const Array *array = arrays_.find(name);
    if (!array || op->args.size() < 2) {
        throw InternalError("kernel " + kernel_ + ": prefetch of unknown array \"" + name + "\"");
    }
    if (array->pointer) {
        auto constant_arg = [&](size_t i, int64_t otherwise) {
            const auto *c = i < op->args.size() ? op->args[i].as<IntImm>() : nullptr;
            return ir_.getInt32(c ? c->value : otherwise);
        };
        Value *address = element(array->pointer, array->type, index(op->args[1]));
        ir_.CreateIntrinsic(llvm::Intrinsic::prefetch, {address->getType()},
                            {address, constant_arg(3, 0), constant_arg(2, 3), ir_.getInt32(1)});
    }
    return ir_.getInt32(0);
}

// The address of an operand that an instruction takes in memory.
Value *Expressions::address_of(const Load *element) {
    const Array *array = arrays_.find(element->name);
    if (!array || !array->pointer)
        throw Unsupported("kernel " + kernel_ + ": an instruction that takes " + element->name +
                          " in memory, which is in registers; keep it in a cache level");
    return this->element(array->pointer, array->type, index(element->index));
}

Emission Expressions::emission(const std::string &name) const {
    const Instruction *declared = instructions_ ? instructions_->find(name) : nullptr;
    if (declared && declared->emitter)
        return {.declared = declared, .emitter = static_cast<const Emitter *>(declared->emitter.get()), .own = true};
    return {.declared = declared,
            .emitter = emitters_->find(name),
            .tiles = emitters_->find_tiles(name),
            .builtin = emitters_->is_builtin(name)};
}

Value *Expressions::instruction(const Call *op) {
    const std::string name = op->name.substr(instruction_prefix.size());
    const Emission how = emission(name);
    if (!how.emitter) {
        throw Unsupported("kernel " + kernel_ + ": no emitter is registered for the instruction \"" + name +
                          "\"; give it one with Instruction::emit, or in CompileOptions::emitters");
    }
    std::vector<Value *> args;
    for (const Expr &arg : op->args) {
        const auto *address = arg.as<Call>();
        const bool in_memory = address && address->name == address_call_name;
        args.push_back(in_memory ? address_of(address->args[0].as<Load>()) : value(arg));
    }
    Value *result = (*how.emitter)(ir_, args);
    if (how.declared && how.declared->in_memory) return ir_.getInt32(0);
    if (!result || result->getType() != type(op->type)) {
        throw UserError("the emitter of instruction \"" + name +
                        "\" did not return a value of the type that the nest states");
    }
    return result;
}

// kumiko.opaque(x) is x behind a barrier that LLVM cannot see through.
Value *Expressions::opaque(const Call *op) {
    Value *v = value(op->args[0]);
    auto *of = llvm::FunctionType::get(v->getType(), {v->getType()}, false);
    return ir_.CreateCall(llvm::InlineAsm::get(of, "", "=r,0", false), {v});
}

Value *Expressions::math_call(const Call *op, const std::string &function, Type of) {
    if (const auto known = called_.find(op); known != called_.end()) return known->second;
    std::vector<Value *> args;
    for (const Expr &arg : op->args) args.push_back(value(arg));
    Value *result = math(function, of.with_lanes(op->type.lanes()), args);
    if (stores_) called_[op] = result;
    return result;
}

Value *Expressions::call(const Call *op) {
    if (op->name == "kumiko.opaque") {
        return opaque(op);
    }
    if (op->name == "kumiko.prefetch") {
        return prefetch(op);
    }
    if (op->name == within_call_name) {
        return within(op);
    }
    if (op->name == extern_call_name) {
        return extern_call(op);
    }
    if (op->name.starts_with(instruction_prefix)) {
        return instruction(op);
    }
    if (op->is_intrinsic()) {
        return intrinsic(op);
    }
    size_t dash = op->name.rfind('_');
    if (op->is_extern() && dash != std::string::npos) {
        std::string suffix = op->name.substr(dash + 1), function = op->name.substr(0, dash);
        Type t = suffix == "f64"    ? Float(64)
                 : suffix == "f32"  ? Float(32)
                 : suffix == "f16"  ? Float(16)
                 : suffix == "bf16" ? BFloat(16)
                                    : Type();
        if (t.bits()) return math_call(op, function, t);
    }
    throw Unsupported("kernel " + kernel_ + ": call of \"" + op->name + "\", which code generation does not know");
}

Value *Expressions::absolute(const Call *op) {
    const bool half = op->type.is_float() && op->type.bits() == 16;
    Type from = op->args[0].type();
    Value *a = value(op->args[0]);
    if (half) {
        return ir_.CreateAnd(a, llvm::ConstantInt::get(type(op->type), 0x7fff));
    }
    if (from.is_float()) {
        return ir_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, a);
    }
    return from.is_int() ? ir_.CreateBinaryIntrinsic(llvm::Intrinsic::abs, a, ir_.getFalse()) : a;
}

Value *Expressions::absolute_difference(const Call *op) {
    const bool half = op->type.is_float() && op->type.bits() == 16;
    Type from = op->args[0].type();
    Value *a = value(op->args[0]), *b = value(op->args[1]);
    if (from.is_float()) {
        if (half) {
            a = widen_half(a, from);
            b = widen_half(b, from);
        }
        Value *d = ir_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, ir_.CreateFSub(a, b));
        return half ? narrow_to_half(d, op->type) : d;
    }
    Value *less = from.is_int() ? ir_.CreateICmpSLT(a, b) : ir_.CreateICmpULT(a, b);
    return ir_.CreateSelect(less, ir_.CreateSub(b, a), ir_.CreateSub(a, b));
}

// Like C's / and %, except that x/0 = 0 and the least number divided by -1 wraps around.
Value *Expressions::divide_to_zero(const Call *op) {
    Type t = op->type;
    Value *a = value(op->args[0]), *b = value(op->args[1]), *zero = constant(t, 0);
    Value *bad = ir_.CreateICmpEQ(b, zero);
    Value *safe = ir_.CreateSelect(bad, constant(t, 1), b);
    Value *minus = nullptr;
    if (t.is_int()) {
        minus = ir_.CreateICmpEQ(b, constant(t, -1));
        safe = ir_.CreateSelect(minus, constant(t, 1), safe);
    }
    if (op->is_intrinsic(Call::div_round_to_zero)) {
        Value *q = t.is_int() ? ir_.CreateSDiv(a, safe) : ir_.CreateUDiv(a, safe);
        q = minus ? ir_.CreateSelect(minus, ir_.CreateNeg(a), q) : q;
        return ir_.CreateSelect(bad, zero, q);
    }
    Value *r = t.is_int() ? ir_.CreateSRem(a, safe) : ir_.CreateURem(a, safe);
    return ir_.CreateSelect(minus ? ir_.CreateOr(bad, minus) : bad, zero, r);
}

// The plain operation on floats, without contraction.
Value *Expressions::strict(const Call *op) {
    Type t = op->type;
    llvm::IRBuilderBase::FastMathFlagGuard guard(ir_);
    Type from = op->args[0].type();
    Value *a = value(op->args[0]), *b = value(op->args[1]);
    ir_.clearFastMathFlags();
    bool narrow = from.bits() == 16;
    if (op->is_intrinsic({Call::strict_min, Call::strict_max})) {
        return minmax(t, a, b, op->is_intrinsic(Call::strict_max));
    }
    if (narrow) {
        a = widen_half(a, from);
        b = widen_half(b, from);
    }
    if (op->is_intrinsic(Call::strict_lt)) {
        return ir_.CreateFCmpOLT(a, b);
    } else if (op->is_intrinsic(Call::strict_le)) {
        return ir_.CreateFCmpOLE(a, b);
    } else if (op->is_intrinsic(Call::strict_eq)) {
        return ir_.CreateFCmpOEQ(a, b);
    }
    Value *r = op->is_intrinsic(Call::strict_add)   ? ir_.CreateFAdd(a, b)
               : op->is_intrinsic(Call::strict_sub) ? ir_.CreateFSub(a, b)
               : op->is_intrinsic(Call::strict_mul) ? ir_.CreateFMul(a, b)
                                                    : ir_.CreateFDiv(a, b);
    return narrow ? narrow_to_half(r, t) : r;
}

namespace {

// Whether Halide expands the intrinsic into simpler operations.
bool has_lowering(const Call *op) {
    static const std::set<Call::IntrinsicOp> known = {Call::widen_right_add,
                                                      Call::widen_right_mul,
                                                      Call::widen_right_sub,
                                                      Call::widening_add,
                                                      Call::widening_mul,
                                                      Call::widening_sub,
                                                      Call::saturating_add,
                                                      Call::saturating_sub,
                                                      Call::saturating_cast,
                                                      Call::widening_shift_left,
                                                      Call::widening_shift_right,
                                                      Call::rounding_shift_left,
                                                      Call::rounding_shift_right,
                                                      Call::halving_add,
                                                      Call::halving_sub,
                                                      Call::rounding_halving_add,
                                                      Call::rounding_mul_shift_right,
                                                      Call::mul_shift_right,
                                                      Call::sorted_avg};
    return std::any_of(known.begin(), known.end(), [&](Call::IntrinsicOp each) { return op->is_intrinsic(each); });
}

} // namespace

// A list of cases, one for each intrinsic.
Value *Expressions::intrinsic(const Call *op) {
    Type t = op->type;
    auto arg = [&](int i) { return value(op->args[i]); };
    if (op->is_tag() || op->is_intrinsic({Call::promise_clamped, Call::unsafe_promise_clamped})) {
        return arg(0);
    }
    if (op->is_intrinsic(Call::if_then_else)) {
        return if_then_else(op->args[0], op->args[1], op->args.size() > 2 ? op->args[2] : Expr());
    }
    if (op->is_intrinsic(Call::bitwise_and)) {
        Value *a = arg(0);
        return ir_.CreateAnd(a, arg(1));
    }
    if (op->is_intrinsic(Call::bitwise_or)) {
        Value *a = arg(0);
        return ir_.CreateOr(a, arg(1));
    }
    if (op->is_intrinsic(Call::bitwise_xor)) {
        Value *a = arg(0);
        return ir_.CreateXor(a, arg(1));
    }
    if (op->is_intrinsic(Call::bitwise_not)) {
        return ir_.CreateNot(arg(0));
    }
    if (op->is_intrinsic(Call::shift_left) || op->is_intrinsic(Call::shift_right)) {
        return shift(op, op->is_intrinsic(Call::shift_left));
    }
    if (op->is_intrinsic(Call::abs)) return absolute(op);
    if (op->is_intrinsic(Call::absd)) return absolute_difference(op);
    if (op->is_intrinsic(Call::return_second)) {
        arg(0);
        return arg(1);
    }
    if (op->is_intrinsic(Call::undef)) {
        return llvm::Constant::getNullValue(type(t));
    }
    if (op->is_intrinsic(Call::popcount)) {
        return ir_.CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, arg(0));
    }
    if (op->is_intrinsic(Call::count_leading_zeros)) {
        return ir_.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, arg(0), ir_.getFalse());
    }
    if (op->is_intrinsic(Call::count_trailing_zeros)) {
        return ir_.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, arg(0), ir_.getFalse());
    }
    if (op->is_intrinsic({Call::div_round_to_zero, Call::mod_round_to_zero})) return divide_to_zero(op);
    if (op->is_intrinsic({Call::saturating_add, Call::saturating_sub}) && !t.is_float()) {
        bool add = op->is_intrinsic(Call::saturating_add);
        Value *a = arg(0);
        return ir_.CreateBinaryIntrinsic(t.is_uint() ? (add ? llvm::Intrinsic::uadd_sat : llvm::Intrinsic::usub_sat)
                                                     : (add ? llvm::Intrinsic::sadd_sat : llvm::Intrinsic::ssub_sat),
                                         a, arg(1));
    }
    if (op->is_intrinsic(Call::round)) {
        return math("round", t, {arg(0)});
    }
    if (op->is_strict_float_intrinsic()) return strict(op);
    // Lowered independently of the target, as the interpreter does.
    if (op->is_intrinsic(Call::lerp)) {
        return value(lower_lerp(t, op->args[0], op->args[1], op->args[2], {}));
    }
    if (has_lowering(op)) return value(lower_intrinsic(op));
    if (op->is_intrinsic(Call::mux)) {
        return value(lower_mux(op));
    }
    if (op->is_intrinsic(Call::extract_bits)) {
        return value(lower_extract_bits(op));
    }
    if (op->is_intrinsic(Call::concat_bits)) {
        return value(lower_concat_bits(op));
    }
    throw Unsupported("kernel " + kernel_ + ": intrinsic \"" + op->name + "\", which code generation does not know");
}

} // namespace kumiko::cpu
