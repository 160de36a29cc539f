#include "targets/cpu/vectors.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/PatternMatch.h>

#include <numeric>

namespace kumiko::cpu {

llvm::Type *Vectors::with_lanes(llvm::Type *t, int lanes) const {
    return lanes == 1 ? t : llvm::FixedVectorType::get(t, lanes);
}

llvm::Type *Vectors::type(Type t) const {
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

llvm::Type *Vectors::memory_type(Type t) const { return type(t.is_bool() ? UInt(8, t.lanes()) : t); }

Value *Vectors::constant(Type t, int64_t v) const {
    if (t.is_float() && !t.is_bfloat() && t.bits() >= 32) {
        return llvm::ConstantFP::get(type(t), double(v));
    }
    return llvm::ConstantInt::get(type(t), uint64_t(v), true);
}

int Vectors::lanes(Value *v) const {
    auto *vector = llvm::dyn_cast<llvm::FixedVectorType>(v->getType());
    return vector ? int(vector->getNumElements()) : 1;
}

Value *Vectors::broadcast(Value *scalar, int lanes) {
    return lanes == 1 ? scalar : ir_.CreateVectorSplat(lanes, scalar);
}

Value *Vectors::lanes_of(Value *v, const std::vector<int> &lanes) {
    if (lanes.size() == 1) {
        return is_vector(v) ? ir_.CreateExtractElement(v, uint64_t(lanes[0])) : v;
    }
    return is_vector(v) ? ir_.CreateShuffleVector(v, lanes) : broadcast(v, int(lanes.size()));
}

Value *Vectors::slice(Value *v, int first, int count) {
    if (first == 0 && count == lanes(v)) {
        return v;
    }
    std::vector<int> taken(count);
    for (int i = 0; i < count; i++) {
        taken[i] = first + i;
    }
    return lanes_of(v, taken);
}

Value *Vectors::concat(std::vector<Value *> parts) {
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

int Vectors::native_lanes(Type t) const { return std::max(1, options_.target.vector_bits / std::max(8, t.bits())); }

bool Vectors::has_fma() const {
    const CpuTarget &target = options_.target;
    return target.architecture() != "x86_64" || target.has("fma") || target.has("avx512f");
}

bool Vectors::has_f16_conversion() const {
    const CpuTarget &target = options_.target;
    return target.architecture() == "aarch64" || target.has("f16c") || target.has("avx512f");
}

bool Vectors::has_f16_arithmetic() const {
    const CpuTarget &target = options_.target;
    return target.has("avx512fp16") || target.has("fullfp16");
}

bool Vectors::has_lane_masks() const { return options_.target.has("avx512f") && options_.target.has("avx512vl"); }

// Some lanes of a mask. Conjunctions are sliced term by term, so that a register for which one term
// is all false has an all-false mask for LLVM too. LLVM treats a mask with unused lanes as full
// unless it sees that it is empty.
Value *Vectors::slice_mask(Value *mask, int first, int count) {
    Value *a, *b;
    if (llvm::PatternMatch::match(
            mask, llvm::PatternMatch::m_And(llvm::PatternMatch::m_Value(a), llvm::PatternMatch::m_Value(b))))
        return ir_.CreateAnd(slice_mask(a, first, count), slice_mask(b, first, count));
    return slice(mask, first, count);
}

// v followed by lanes of zeros.
Value *Vectors::widened(Value *v, int width) {
    if (lanes(v) == width) {
        return v;
    }
    if (!is_vector(v)) {
        return ir_.CreateInsertElement(llvm::Constant::getNullValue(with_lanes(v->getType(), width)), v, uint64_t(0));
    }
    std::vector<int> taken(width, lanes(v)); // of the zeros
    std::iota(taken.begin(), taken.begin() + lanes(v), 0);
    return ir_.CreateShuffleVector(v, llvm::Constant::getNullValue(v->getType()), taken);
}

Value *Vectors::ramp(Value *base, Value *stride, int lanes, bool no_wrap) {
    if (is_vector(base)) { // a nested ramp: whole vectors, each one stride after the other
        std::vector<Value *> parts{base};
        for (int i = 1; i < lanes; i++) {
            parts.push_back(ir_.CreateAdd(parts.back(), stride, "", false, no_wrap));
        }
        return concat(parts);
    }
    std::vector<llvm::Constant *> steps;
    for (int i = 0; i < lanes; i++) {
        steps.push_back(llvm::ConstantInt::get(base->getType(), i));
    }
    Value *offsets = llvm::ConstantVector::get(steps);
    offsets = ir_.CreateMul(offsets, broadcast(stride, lanes), "", false, no_wrap);
    return ir_.CreateAdd(broadcast(base, lanes), offsets, "", false, no_wrap);
}

Value *Vectors::select(Value *c, Value *a, Value *b) { return ir_.CreateSelect(c, a, b); }

bool Vectors::has_lane_tables() const {
    return options_.target.has("avx512f") && options_.target.vector_bits == 32 * 16;
}

} // namespace kumiko::cpu
