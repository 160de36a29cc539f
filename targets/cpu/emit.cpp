#include "targets/cpu/emit.h"

#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsAArch64.h>
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

Value *vpmaddwd_512(IRBuilder<> &ir, const std::vector<Value *> &args) {
    return ir.CreateAdd(args[0], ir.CreateIntrinsic(llvm::Intrinsic::x86_avx512_pmaddw_d_512, {}, {args[1], args[2]}));
}

// Sums of pairs of byte products in 16 bits, which a multiplication by 1 adds pairwise in 32 bits.
template<llvm::Intrinsic::ID bytes, llvm::Intrinsic::ID words>
Value *vpmaddubsw(IRBuilder<> &ir, const std::vector<Value *> &args) {
    Value *pairs = ir.CreateIntrinsic(bytes, {}, {args[1], args[2]});
    return ir.CreateAdd(args[0], ir.CreateIntrinsic(words, {}, {pairs, llvm::ConstantInt::get(pairs->getType(), 1)}));
}

// LLVM 19 declares the byte operands as vectors of 32-bit groups; the narrower form has the same
// name with and without AVX-512.
template<llvm::Intrinsic::ID id>
Value *vpdpbusd(IRBuilder<> &ir, const std::vector<Value *> &args) {
    auto *groups = args[0]->getType();
    return ir.CreateIntrinsic(id, {}, {args[0], ir.CreateBitCast(args[1], groups), ir.CreateBitCast(args[2], groups)});
}

template<llvm::Intrinsic::ID id>
Value *neon_dot(IRBuilder<> &ir, const std::vector<Value *> &args) {
    return ir.CreateIntrinsic(id, {args[0]->getType(), args[1]->getType()}, {args[0], args[1], args[2]});
}

Value *bfdot(IRBuilder<> &ir, const std::vector<Value *> &args) {
    auto *pairs = FixedVectorType::get(ir.getBFloatTy(), 8);
    return ir.CreateIntrinsic(llvm::Intrinsic::aarch64_neon_bfdot, {args[0]->getType(), pairs},
                              {args[0], ir.CreateBitCast(args[1], pairs), ir.CreateBitCast(args[2], pairs)});
}

Value *vdpbf16ps(IRBuilder<> &ir, const std::vector<Value *> &args) {
    auto *pairs = FixedVectorType::get(ir.getBFloatTy(), 32);
    return ir.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_dpbf16ps_512, {},
                              {args[0], ir.CreateBitCast(args[1], pairs), ir.CreateBitCast(args[2], pairs)});
}

// Tiles of 16 rows of 64 bytes. LLVM chooses the registers and writes the configuration.
TileEmitter amx(llvm::Intrinsic::ID product) {
    const auto rows = [](IRBuilder<> &ir) { return ir.getInt16(16); };
    const auto bytes = [](IRBuilder<> &ir) { return ir.getInt16(64); };
    TileEmitter e;
    e.registers = 8;
    e.zero = [=](IRBuilder<> &ir) {
        return ir.CreateIntrinsic(llvm::Intrinsic::x86_tilezero_internal, {}, {rows(ir), bytes(ir)});
    };
    e.load = [=](IRBuilder<> &ir, Value *address, Value *row) {
        return ir.CreateIntrinsic(llvm::Intrinsic::x86_tileloadd64_internal, {}, {rows(ir), bytes(ir), address, row});
    };
    e.multiply = [=](IRBuilder<> &ir, Value *c, Value *a, Value *b) {
        return ir.CreateIntrinsic(product, {}, {rows(ir), bytes(ir), bytes(ir), c, a, b});
    };
    e.store = [=](IRBuilder<> &ir, Value *address, Value *row, Value *c) {
        ir.CreateIntrinsic(llvm::Intrinsic::x86_tilestored64_internal, {}, {rows(ir), bytes(ir), address, row, c});
    };
    return e;
}

} // namespace

EmitterRegistry EmitterRegistry::builtin() {
    EmitterRegistry registry;
    registry.add("fma", fma);
    registry.add("avx2.vpmaddwd", vpmaddwd);
    registry.add("avx512.vpmaddwd", vpmaddwd_512);
    registry.add("avx2.vpmaddubsw",
                 vpmaddubsw<llvm::Intrinsic::x86_avx2_pmadd_ub_sw, llvm::Intrinsic::x86_avx2_pmadd_wd>);
    registry.add("avx512.vpmaddubsw",
                 vpmaddubsw<llvm::Intrinsic::x86_avx512_pmaddubs_w_512, llvm::Intrinsic::x86_avx512_pmaddw_d_512>);
    registry.add("avx512.vpdpbusd", vpdpbusd<llvm::Intrinsic::x86_avx512_vpdpbusd_512>);
    registry.add("avx_vnni.vpdpbusd", vpdpbusd<llvm::Intrinsic::x86_avx512_vpdpbusd_256>);
    registry.add("neon.sdot", neon_dot<llvm::Intrinsic::aarch64_neon_sdot>);
    registry.add("neon.udot", neon_dot<llvm::Intrinsic::aarch64_neon_udot>);
    registry.add("neon.usdot", neon_dot<llvm::Intrinsic::aarch64_neon_usdot>);
    registry.add("neon.bfdot", bfdot);
    registry.add("avx512.vdpbf16ps", vdpbf16ps);
    registry.add("amx.tdpbf16ps", amx(llvm::Intrinsic::x86_tdpbf16ps_internal));
    registry.add("amx.tdpbssd", amx(llvm::Intrinsic::x86_tdpbssd_internal));
    registry.add("amx.tdpbsud", amx(llvm::Intrinsic::x86_tdpbsud_internal));
    registry.add("amx.tdpbusd", amx(llvm::Intrinsic::x86_tdpbusd_internal));
    registry.add("amx.tdpbuud", amx(llvm::Intrinsic::x86_tdpbuud_internal));
    for (const std::string &name : registry.names()) registry.builtin_.insert(name);
    return registry;
}

void EmitterRegistry::add(const std::string &name, const TileEmitter &tiles) {
    add(name, [tiles](IRBuilder<> &ir, const std::vector<Value *> &args) {
        Value *c = tiles.load(ir, args[0], args[1]), *a = tiles.load(ir, args[2], args[3]);
        tiles.store(ir, args[0], args[1], tiles.multiply(ir, c, a, tiles.load(ir, args[4], args[5])));
        return ir.getInt32(0);
    });
    tiles_[name] = tiles;
}

std::vector<std::string> EmitterRegistry::names() const {
    std::vector<std::string> result;
    for (const auto &[name, emitter] : emitters_) {
        result.push_back(name);
    }
    return result;
}

} // namespace kumiko
