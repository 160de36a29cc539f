// Masked accesses, gathers and scatters of many lanes that the target performs lane by lane: a loop
// over the lanes, via the stack. LLVM would write out each lane with its own branch or insertion:
// 32 bytes at the end of a row become about a hundred instructions, and several such loops take a
// second to compile. AVX2 has 32-bit gathers, but LLVM writes out those of 16 lanes for most
// processors, where they are slow.
#include "targets/cpu/accesses.h"

#include <llvm/IR/Constants.h>

#include <bit>

namespace kumiko::cpu {

bool Accesses::lane_by_lane(Type t, Value *mask, bool gathers) const {
    constexpr int few = 16; // of 8 floats the lanes written out are about as long as the loop
    if (t.lanes() < few || (mask && llvm::isa<llvm::Constant>(mask))) return false;
    const CpuTarget &target = options_.target;
    const bool wide = t.bits() >= 32;
    if (target.architecture() == "riscv64") return !target.has("v");
    if (target.has("avx512f")) return gathers ? !wide : !wide && !(target.has("avx512bw") && target.has("avx512vl"));
    return gathers || !wide || !target.has("avx");
}

// One slot for all accesses of the function: its content is consumed before the next access.
Value *Accesses::lane_slot(const std::string &role, llvm::Type *type) {
    Value *&slot = lane_slots_[{function_, role, type}];
    if (!slot) slot = stack_slot(type, 64, role);
    return slot;
}

void Accesses::for_each_lane(int lanes, Value *mask, const std::function<void(Value *lane)> &access) {
    Value *on = nullptr;
    if (mask) {
        llvm::Type *bytes = with_lanes(ir_.getInt8Ty(), lanes);
        on = lane_slot("mask", bytes);
        ir_.CreateAlignedStore(ir_.CreateZExt(mask, bytes), on, llvm::Align(64));
    }
    llvm::BasicBlock *before = ir_.GetInsertBlock(), *each = block("lane"), *after = block("lanes.end");
    ir_.CreateBr(each);
    ir_.SetInsertPoint(each);
    llvm::PHINode *lane = ir_.CreatePHI(ir_.getInt64Ty(), 2, "lane");
    lane->addIncoming(i64(0), before);
    if (mask) {
        llvm::BasicBlock *taken = block("lane.on"), *next = block("lane.next");
        Value *is_on = ir_.CreateLoad(ir_.getInt8Ty(), ir_.CreateInBoundsGEP(ir_.getInt8Ty(), on, lane));
        ir_.CreateCondBr(ir_.CreateIsNotNull(is_on), taken, next);
        ir_.SetInsertPoint(taken);
        access(lane);
        ir_.CreateBr(next);
        ir_.SetInsertPoint(next);
    } else {
        access(lane);
    }
    Value *step = ir_.CreateNUWAdd(lane, i64(1));
    lane->addIncoming(step, ir_.GetInsertBlock());
    ir_.CreateCondBr(ir_.CreateICmpULT(step, i64(lanes)), each, after);
    ir_.SetInsertPoint(after);
}

// Returns the function that gives the offset of a lane. A gather's offsets are stored on the stack
// first. Without offsets, the offset is the lane's number.
std::function<Value *(Value *)> Accesses::offset_of_lane(Value *offsets) {
    if (!offsets) return [](Value *lane) { return lane; };
    Value *slot = lane_slot("offsets", offsets->getType());
    ir_.CreateAlignedStore(offsets, slot, llvm::Align(64));
    return [this, slot](Value *lane) -> Value * {
        return ir_.CreateLoad(ir_.getInt64Ty(), ir_.CreateInBoundsGEP(ir_.getInt64Ty(), slot, lane));
    };
}

Value *Accesses::load_lane_by_lane(const std::string &name, Type t, Value *first, Value *offsets, Value *mask) {
    llvm::Type *all = memory_type(t), *one = memory_type(t.element_of());
    // The slot is aligned, so LLVM loads whole registers for a vector of 17 and computes on the
    // extra lanes, which are zeros here.
    const auto registers = std::bit_ceil(unsigned(t.lanes()));
    llvm::Type *whole = with_lanes(one, static_cast<int>(registers));
    Value *slot = lane_slot("lanes", whole);
    if (mask || whole != all) ir_.CreateAlignedStore(llvm::Constant::getNullValue(whole), slot, llvm::Align(64));
    const auto offset = offset_of_lane(offsets);
    for_each_lane(t.lanes(), mask, [&](Value *lane) {
        Value *v = ir_.CreateAlignedLoad(one, ir_.CreateInBoundsGEP(one, first, offset(lane)), llvm::Align(t.bytes()));
        tag(v, name);
        ir_.CreateAlignedStore(v, ir_.CreateInBoundsGEP(one, slot, lane), llvm::Align(t.bytes()));
    });
    return ir_.CreateAlignedLoad(all, slot, llvm::Align(64));
}

void Accesses::store_lane_by_lane(const std::string &name, Type t, Value *first, Value *offsets, Value *v,
                                  Value *mask) {
    llvm::Type *one = memory_type(t.element_of());
    Value *slot = lane_slot("lanes", v->getType());
    ir_.CreateAlignedStore(v, slot, llvm::Align(64));
    const auto offset = offset_of_lane(offsets);
    for_each_lane(t.lanes(), mask, [&](Value *lane) {
        Value *e = ir_.CreateAlignedLoad(one, ir_.CreateInBoundsGEP(one, slot, lane), llvm::Align(t.bytes()));
        tag(ir_.CreateAlignedStore(e, ir_.CreateInBoundsGEP(one, first, offset(lane)), llvm::Align(t.bytes())), name);
    });
}

} // namespace kumiko::cpu
