#include "targets/cpu/codegen.h"

#include "support/error.h"

#include <llvm/IR/Constants.h>
#include <llvm/TargetParser/Triple.h>

namespace kumiko::cpu {

Codegen::Codegen(llvm::LLVMContext &context, const CodegenOptions &options, const std::string &module_name)
    : module(std::make_unique<llvm::Module>(module_name, context)), context_(context), options_(options),
      emitters_(options.emitters ? options.emitters
                                 : std::make_shared<const EmitterRegistry>(EmitterRegistry::builtin())),
      ir_(context) {
    module->setTargetTriple(options.target.triple);
    module->setPICLevel(llvm::PICLevel::BigPIC);
    module->setUwtable(llvm::UWTableKind::Async);
    module->setFramePointer(llvm::FramePointerKind::All);
}

llvm::Type *Codegen::with_lanes(llvm::Type *t, int lanes) const {
    return lanes == 1 ? t : llvm::FixedVectorType::get(t, lanes);
}

llvm::Type *Codegen::type(Type t) const {
    llvm::Type *scalar = nullptr;
    if (t.is_handle()) {
        scalar = llvm::PointerType::getUnqual(context_);
    } else if (t.is_float() && t.bits() == 32) {
        scalar = llvm::Type::getFloatTy(context_);
    } else if (t.is_float() && t.bits() == 64) {
        scalar = llvm::Type::getDoubleTy(context_);
    } else {
        scalar = llvm::IntegerType::get(context_, t.bits());
    }
    return with_lanes(scalar, t.lanes());
}

llvm::Type *Codegen::memory_type(Type t) const { return type(t.is_bool() ? UInt(8, t.lanes()) : t); }

Value *Codegen::constant(Type t, int64_t v) const {
    if (t.is_float() && !t.is_bfloat() && t.bits() >= 32) {
        return llvm::ConstantFP::get(type(t), double(v));
    }
    return llvm::ConstantInt::get(type(t), uint64_t(v), true);
}

Value *Codegen::i64(int64_t v) const { return llvm::ConstantInt::get(llvm::Type::getInt64Ty(context_), v); }

int Codegen::lanes(Value *v) const {
    auto *vector = llvm::dyn_cast<llvm::FixedVectorType>(v->getType());
    return vector ? int(vector->getNumElements()) : 1;
}

Value *Codegen::broadcast(Value *scalar, int lanes) {
    return lanes == 1 ? scalar : ir_.CreateVectorSplat(lanes, scalar);
}

Value *Codegen::lanes_of(Value *v, const std::vector<int> &lanes) {
    if (lanes.size() == 1) {
        return is_vector(v) ? ir_.CreateExtractElement(v, uint64_t(lanes[0])) : v;
    }
    return is_vector(v) ? ir_.CreateShuffleVector(v, lanes) : broadcast(v, int(lanes.size()));
}

Value *Codegen::slice(Value *v, int first, int count) {
    if (first == 0 && count == lanes(v)) {
        return v;
    }
    std::vector<int> taken(count);
    for (int i = 0; i < count; i++) {
        taken[i] = first + i;
    }
    return lanes_of(v, taken);
}

Value *Codegen::concat(std::vector<Value *> parts) {
    if (parts.size() == 1) {
        return parts[0];
    }
    bool scalars = std::none_of(parts.begin(), parts.end(), [&](Value *v) { return is_vector(v); });
    if (scalars) {
        Value *result = llvm::PoisonValue::get(with_lanes(parts[0]->getType(), int(parts.size())));
        for (size_t i = 0; i < parts.size(); i++) {
            result = ir_.CreateInsertElement(result, parts[i], uint64_t(i));
        }
        return result;
    }
    // Concatenate pairwise, so that LLVM sees a balanced tree of equal halves if the parts are
    // equal.
    while (parts.size() > 1) {
        std::vector<Value *> next;
        for (size_t i = 0; i + 1 < parts.size(); i += 2) {
            Value *a = parts[i], *b = parts[i + 1];
            int na = lanes(a), nb = lanes(b), wide = std::max(na, nb);
            auto widened = [&](Value *v) {
                if (!is_vector(v)) {
                    return ir_.CreateInsertElement(
                        llvm::PoisonValue::get(llvm::FixedVectorType::get(v->getType(), wide)), v, uint64_t(0));
                }
                std::vector<int> taken(wide, -1);
                for (int k = 0; k < lanes(v); k++) {
                    taken[k] = k;
                }
                return lanes(v) == wide ? v : ir_.CreateShuffleVector(v, taken);
            };
            std::vector<int> taken;
            for (int k = 0; k < na; k++) {
                taken.push_back(k);
            }
            for (int k = 0; k < nb; k++) {
                taken.push_back(wide + k);
            }
            Value *left = widened(a), *right = widened(b);
            next.push_back(ir_.CreateShuffleVector(left, right, taken));
        }
        if (parts.size() % 2) {
            next.push_back(parts.back());
        }
        parts = std::move(next);
    }
    return parts[0];
}

Value *Codegen::stack_slot(llvm::Type *t, unsigned align, const std::string &name) {
    llvm::BasicBlock &entry = function_->getEntryBlock();
    llvm::IRBuilder<> at(&entry, entry.begin());
    llvm::AllocaInst *slot = at.CreateAlloca(t, nullptr, name);
    slot->setAlignment(llvm::Align(align));
    return slot;
}

llvm::BasicBlock *Codegen::block(const std::string &name) {
    return llvm::BasicBlock::Create(context_, name, function_);
}

int Codegen::native_lanes(Type t) const { return std::max(1, options_.target.vector_bits / std::max(8, t.bits())); }

bool Codegen::has_fma() const {
    const CpuTarget &target = options_.target;
    return target.architecture() != "x86_64" || target.has("fma") || target.has("avx512f");
}

bool Codegen::has_f16_conversion() const {
    const CpuTarget &target = options_.target;
    return target.architecture() == "aarch64" || target.has("f16c") || target.has("avx512f");
}

bool Codegen::has_f16_arithmetic() const {
    const CpuTarget &target = options_.target;
    return target.has("avx512fp16") || target.has("fullfp16");
}

bool Codegen::has_lane_masks() const { return options_.target.has("avx512f") && options_.target.has("avx512vl"); }

} // namespace kumiko::cpu
