// Conditions on values: the minimum and the maximum of an array, found in vectors of several
// registers and then one by one.
#include "targets/cpu/expressions.h"

#include "schedules/values.h"
#include "support/error.h"

#include <llvm/IR/Constants.h>

namespace kumiko::cpu {

using namespace Halide::Internal;

namespace {

// The smallest and the largest value so far.
struct Extremes {
    Value *min, *max;
};

Extremes joined(llvm::IRBuilder<> &ir, const Extremes &a, Value *v, bool sign) {
    const auto of = [&](llvm::Intrinsic::ID id, Value *x) { return ir.CreateBinaryIntrinsic(id, x, v); };
    return {of(sign ? llvm::Intrinsic::smin : llvm::Intrinsic::umin, a.min),
            of(sign ? llvm::Intrinsic::smax : llvm::Intrinsic::umax, a.max)};
}

} // namespace

// kumiko.within(array, min, max, elements)
Value *Expressions::within(const Call *op) {
    constexpr int bytes_at_once = 128;
    const std::string name = op->args[0].as<StringImm>()->value;
    const Array *array = arrays_.find(name);
    if (!array || !array->pointer)
        throw InternalError("kernel " + kernel_ + ": the values of unknown array \"" + name + "\"");
    const Type t = array->type;
    const int at_once = bytes_at_once / t.bytes();
    Value *count = index(op->args[3]);
    const ValueRange all = *values_of(t);
    const Extremes nothing = {constant(t, all.max), constant(t, all.min)};

    // Runs from `first` on while at least `step` more elements remain; returns the index reached.
    const auto loop = [&](Value *first, int step, const Extremes &from) {
        llvm::Type *of = with_lanes(type(t), step);
        llvm::BasicBlock *before = ir_.GetInsertBlock(), *head = block("values"), *body = block("look"),
                         *after = block("looked");
        ir_.CreateBr(head);
        ir_.SetInsertPoint(head);
        llvm::PHINode *at = ir_.CreatePHI(ir_.getInt64Ty(), 2), *min = ir_.CreatePHI(of, 2),
                      *max = ir_.CreatePHI(of, 2);
        at->addIncoming(first, before), min->addIncoming(from.min, before), max->addIncoming(from.max, before);
        Value *next = ir_.CreateNSWAdd(at, i64(step));
        ir_.CreateCondBr(ir_.CreateICmpSLE(next, count), body, after);
        ir_.SetInsertPoint(body);
        Value *v = ir_.CreateAlignedLoad(of, element(array->pointer, t, at), llvm::Align(unsigned(t.bytes())));
        const Extremes now = joined(ir_, {min, max}, v, t.is_int());
        at->addIncoming(next, body), min->addIncoming(now.min, body), max->addIncoming(now.max, body);
        ir_.CreateBr(head);
        ir_.SetInsertPoint(after);
        return std::pair<Value *, Extremes>(at, {min, max});
    };
    const auto [reached, lanes] =
        loop(i64(0), at_once, {broadcast(nothing.min, at_once), broadcast(nothing.max, at_once)});
    const Extremes some = {ir_.CreateIntMinReduce(lanes.min, t.is_int()),
                           ir_.CreateIntMaxReduce(lanes.max, t.is_int())};
    const Extremes found = loop(reached, 1, some).second;
    const auto wide = [&](Value *v) {
        return t.is_int() ? ir_.CreateSExt(v, ir_.getInt64Ty()) : ir_.CreateZExt(v, ir_.getInt64Ty());
    };
    Value *above = ir_.CreateICmpSGE(wide(found.min), i64(*as_const_int(op->args[1])));
    Value *below = ir_.CreateICmpSLE(wide(found.max), i64(*as_const_int(op->args[2])));
    return ir_.CreateOr(ir_.CreateICmpSLE(count, i64(0)), ir_.CreateAnd(above, below));
}

} // namespace kumiko::cpu
