// Private to targets/cpu: expressions.
#pragma once

#include "targets/cpu/accesses.h"
#include "targets/cpu/emit.h"

#include <string_view>

namespace kumiko::cpu {

// A call whose name has this prefix is a tensor instruction.
inline constexpr std::string_view instruction_prefix = "kumiko.inst.";

// How an instruction is emitted: by its own declaration, or else by the emitter registered under
// its name.
struct Emission {
    const Instruction *declared = nullptr; // null: the schedule has no instruction of that name
    const Emitter *emitter = nullptr;      // null: no emitter is registered
    const TileEmitter *tiles = nullptr;    // null: it does not operate on tiles
    // Whether its own declaration emits it; whether Kumiko's built-in emitter does.
    bool own = false, builtin = false;
};

// The value bound to a name of the nest.
struct Symbol {
    Value *value = nullptr; // in the type of the variable
    Value *index = nullptr; // the same as i64, when the variable is a scalar
                            // Int(32) or Int(64)
    bool nonnegative = false;
    ModulusRemainder alignment;
};

// Values of expressions. Index arithmetic is done in i64 without wrap-around (the "index" functions
// below); value arithmetic is done in the value's own type.
class Expressions : protected Accesses {
protected:
    Expressions(llvm::LLVMContext &context, const CodegenOptions &options, const std::string &module_name);

    // The value of an expression, in the type of the expression.
    Value *value(const Expr &e);
    Value *index(const Expr &e); // i64, or a vector of i64
    // The value of a bool, i1 or a vector of i1.
    Value *condition(const Expr &e);
    // An index as one i64 for all lanes and an offset per lane; null if all offsets are 0.
    std::pair<Value *, Value *> base_and_offsets(const Expr &index);
    // Whether the expression is known not to be negative.
    bool is_nonnegative(const Expr &e);
    // The value of a let, as a symbol.
    Symbol bind(const Expr &e);
    // A symbol for a loop variable or a size.
    Symbol bind_index(Value *i64, Type type, bool nonnegative, ModulusRemainder alignment);
    // The address of an operand that an instruction takes in memory.
    Value *address_of(const Halide::Internal::Load *element);
    // How the instruction of this name is emitted.
    Emission emission(const std::string &name) const;

    // The values of the current store's math calls and of its loads that needed branches. Each
    // value was computed in a block that dominates the current one. An expression is a graph, so a
    // shared subexpression is generated once. Empty between stores, because stores change memory.
    using Called = std::map<Expr, Value *, Halide::Internal::IRDeepCompare>;
    Called called_;
    bool stores_ = false;

    std::shared_ptr<const InstructionSet> instructions_; // of the kernel's schedule
    Scope<Symbol> symbols_;
    // Loads whose values are already available as columns of transposed rows.
    std::map<const Halide::Internal::Load *, Value *> transposed_;
    // What may be read beside each strided load.
    std::map<const Halide::Internal::Load *, Reach> reaches_;

private:
    std::shared_ptr<const EmitterRegistry> emitters_;

    // ---- Operations (expressions.cpp, casts.cpp)
    // The arithmetic operation e on a and b.
    Value *binary(const Expr &e, const Expr &a, const Expr &b);
    // The comparison e of a and b.
    Value *compare(const Expr &e, const Expr &a, const Expr &b);
    Value *shuffle(const Halide::Internal::Shuffle *op);
    // Reduces the lanes of each group as a balanced tree, whose order depends on their number only.
    Value *vector_reduce(const Halide::Internal::VectorReduce *op);
    // Null if op is not a rounding to a type of 8 or 16 bits.
    Value *rounded_to_int(const Halide::Internal::Cast *op);

    // ---- Calls (calls.cpp)
    // A call: an intrinsic, a math function, an instruction, or one of Kumiko's own.
    Value *call(const Halide::Internal::Call *op);
    // An intrinsic of Halide.
    Value *intrinsic(const Halide::Internal::Call *op);
    // |x|; integers give the unsigned type.
    Value *absolute(const Halide::Internal::Call *op);
    // |a - b| of integers, in the unsigned type.
    Value *absolute_difference(const Halide::Internal::Call *op);
    // C's / and %, except that x/0 = 0.
    Value *divide_to_zero(const Halide::Internal::Call *op);
    // An operation on floats without contraction.
    Value *strict(const Halide::Internal::Call *op);
    // A negative amount shifts in the other direction.
    Value *shift(const Halide::Internal::Call *op, bool left);
    // Evaluates only the selected side if the condition is a scalar.
    Value *if_then_else(const Expr &condition, const Expr &a, const Expr &b);
    // kumiko.prefetch(array, index, locality, write).
    Value *prefetch(const Halide::Internal::Call *op);
    // kumiko.opaque(x): x behind a barrier that LLVM cannot see through.
    Value *opaque(const Halide::Internal::Call *op);
    // A tensor instruction, by its emitter.
    Value *instruction(const Halide::Internal::Call *op);
    Value *extern_call(const Halide::Internal::Call *op); // extern.cpp
    Value *within(const Halide::Internal::Call *op);      // values.cpp
    // The math function of a call, generated once for equal calls of a store.
    Value *math_call(const Halide::Internal::Call *op, const std::string &function, Type of);

    // ---- Loads (memory.cpp)
    // A load of any index: dense, strided, near, or a gather.
    Value *load(const Halide::Internal::Load *op);
    // A load behind a branch on the terms of its predicate that all lanes share; null if there are
    // none.
    Value *load_under_branch(const Halide::Internal::Load *op);
    // A load whose index is a ramp of a small constant stride, by load_strided; null for others.
    Value *load_constant_stride(const Array &array, const Halide::Internal::Load *op, Value *mask);
    // A load of a vector whose index is no ramp.
    Value *gather(const Array &array, const Halide::Internal::Load *op, Value *mask);
};

} // namespace kumiko::cpu
