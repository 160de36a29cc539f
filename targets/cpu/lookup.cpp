// Loads of bytes at any index from an array that fits four registers, such as a table of a function
// of bytes. The array is held in registers, from which instructions of AVX-512 VBMI select each
// lane, instead of one load for each lane.
#include "targets/cpu/accesses.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/IntrinsicsX86.h>

namespace kumiko::cpu {

Value *Accesses::load_from_registers(const Array &array, const std::string &name, Type t, Value *base, Value *offsets,
                                     Value *mask) {
    constexpr int width = 64, most = 4; // bytes of a register, registers
    const int64_t size = array.elements;
    if (t.bits() != 8 || size < 1 || size > most * width || !options_.target.has("avx512vbmi")) return nullptr;
    llvm::Type *byte = ir_.getInt8Ty();
    std::vector<Value *> registers;
    for (int64_t first = 0; first < size; first += width) {
        std::vector<llvm::Constant *> on;
        for (int64_t i = first; i < first + width; i++) on.push_back(ir_.getInt1(i < size));
        Value *inside = first + width > size ? llvm::ConstantVector::get(on) : nullptr;
        registers.push_back(load_dense(array, name, t.with_lanes(width), i64(first), inside, 1));
    }
    // Selects by the low 6 bits of each lane from one register, or by 7 bits from two.
    const auto select_from = [&](size_t first, Value *at) -> Value * {
        if (first + 1 >= registers.size())
            return ir_.CreateIntrinsic(llvm::Intrinsic::x86_avx512_permvar_qi_512, {}, {registers[first], at});
        return ir_.CreateIntrinsic(llvm::Intrinsic::x86_avx512_vpermi2var_qi_512, {},
                                   {registers[first], at, registers[first + 1]});
    };
    Value *index = ir_.CreateTrunc(offsets, with_lanes(byte, t.lanes()));
    index = ir_.CreateAdd(index, broadcast(ir_.CreateTrunc(base, byte), t.lanes()));
    std::vector<Value *> parts;
    for (int first = 0; first < t.lanes(); first += width) {
        const int count = std::min(width, t.lanes() - first);
        Value *at = widened(slice(index, first, count), width), *v = select_from(0, at);
        if (registers.size() > 2) {
            Value *from_128 = ir_.CreateICmpSLT(at, llvm::Constant::getNullValue(at->getType()));
            v = ir_.CreateSelect(from_128, select_from(2, at), v);
        }
        parts.push_back(slice(v, 0, count));
    }
    Value *all = concat(parts);
    return mask ? ir_.CreateSelect(mask, all, llvm::Constant::getNullValue(all->getType())) : all;
}

} // namespace kumiko::cpu
