// Private to targets/cpu: types, constants and lanes.
#pragma once

#include "dsl/halide.h"
#include "targets/cpu/function_builder.h"

namespace kumiko::cpu {

// Whether it is f16 or bf16.
inline bool is_half(Type t) { return t.is_float() && t.bits() == 16; }

// Values of Halide's types as LLVM's, and operations on their lanes. Halide's types map to LLVM as
// follows:
//   bool      i1 in registers, one byte 0 or 1 in memory
//   f16, bf16 their 16 bits as i16, in registers and in memory; arithmetic in f32 (half.cpp)
//   the rest  the LLVM type of the same name
class Vectors : protected FunctionBuilder {
protected:
    using FunctionBuilder::FunctionBuilder;

    llvm::Type *type(Type t) const;        // in registers
    llvm::Type *memory_type(Type t) const; // in memory, with lanes
    llvm::Type *with_lanes(llvm::Type *t, int lanes) const;
    Value *constant(Type t, int64_t v) const;
    Value *broadcast(Value *scalar, int lanes);
    // base + stride * lane; a nested ramp if base is a vector.
    Value *ramp(Value *base, Value *stride, int lanes, bool no_wrap);
    // Lanes [first, first + lanes).
    Value *slice(Value *v, int first, int lanes);
    // The same of a mask, term by term of a conjunction.
    Value *slice_mask(Value *mask, int first, int count);
    Value *concat(std::vector<Value *> parts);
    // The given lanes of a value.
    Value *lanes_of(Value *v, const std::vector<int> &lanes);
    // The value followed by lanes of zeros.
    Value *widened(Value *v, int width);
    // Column k of the rows, for each k (transpose.cpp).
    std::vector<Value *> transposed(const std::vector<Value *> &rows);
    // The lane order that strided loads produce (lane_order.cpp).
    static std::vector<int> deinterleaved_lanes();
    // A select in which each lane of the condition, or the one for all lanes, decides.
    Value *select(Value *condition, Value *a, Value *b);
    bool is_vector(Value *v) const { return v->getType()->isVectorTy(); }
    // The number of lanes of a value.
    int lanes(Value *v) const;
    // The number of lanes of a vector register.
    int native_lanes(Type t) const;
    bool has_fma() const;
    bool has_f16_conversion() const;
    bool has_f16_arithmetic() const;
    bool has_lane_masks() const;  // masked accesses cost no more than others
    bool has_lane_tables() const; // one instruction takes each lane from any of two registers of 16
};

} // namespace kumiko::cpu
