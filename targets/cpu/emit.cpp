#include "targets/cpu/emit.h"

#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>

namespace kumiko {

namespace {

using llvm::FixedVectorType;
using llvm::IRBuilder;
using llvm::Value;

Value *fma(IRBuilder<> &ir, const std::vector<Value *> &args) {
    return ir.CreateIntrinsic(llvm::Intrinsic::fma, {args[0]->getType()}, {args[0], args[1], args[2]});
}

Value *vpmaddwd(IRBuilder<> &ir, const std::vector<Value *> &args) {
    return ir.CreateAdd(args[0], ir.CreateIntrinsic(llvm::Intrinsic::x86_avx2_pmadd_wd, {}, {args[1], args[2]}));
}

// LLVM 19 declares the byte operands as vectors of 32-bit groups.
Value *vpdpbusd(IRBuilder<> &ir, const std::vector<Value *> &args) {
    auto *groups = FixedVectorType::get(ir.getInt32Ty(), 16);
    return ir.CreateIntrinsic(llvm::Intrinsic::x86_avx512_vpdpbusd_512, {},
                              {args[0], ir.CreateBitCast(args[1], groups), ir.CreateBitCast(args[2], groups)});
}

Value *vdpbf16ps(IRBuilder<> &ir, const std::vector<Value *> &args) {
    auto *pairs = FixedVectorType::get(ir.getBFloatTy(), 32);
    return ir.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_dpbf16ps_512, {},
                              {args[0], ir.CreateBitCast(args[1], pairs), ir.CreateBitCast(args[2], pairs)});
}

} // namespace

EmitterRegistry EmitterRegistry::builtin() {
    EmitterRegistry registry;
    registry.add("fma", fma);
    registry.add("avx2.vpmaddwd", vpmaddwd);
    registry.add("avx512.vpdpbusd", vpdpbusd);
    registry.add("avx512.vdpbf16ps", vdpbf16ps);
    return registry;
}

std::vector<std::string> EmitterRegistry::names() const {
    std::vector<std::string> result;
    for (const auto &[name, emitter] : emitters_) {
        result.push_back(name);
    }
    return result;
}

} // namespace kumiko
