// Tensor instructions, declared by their meaning: a small Op, and the register lane of each operand
// element. `tensorize` proves that a block of a nest computes the meaning; the target emits the
// instruction by name (targets/cpu/emit.h). A user-defined instruction:
//
//   Instruction dot4("mine.dot4", [](Axis i, Axis k) {        // 16 lanes, 4 products each
//       Tensor a = input("a", u8, {k}), b = input("b", i8, {i, k});
//       return accumulate("c", i32, {i}, sum(cast<int32_t>(a(k)) * cast<int32_t>(b(i, k)), k));
//   }, {16, 4});
//   dot4.needs(Feature::avx512_vnni)
//       .emit([](llvm::IRBuilder<> &ir, auto args) { … }); // targets/cpu/emit.h
//   s.stage("C").tensorize("j.i", dot4);
//
// For example, avx512.vpdpbusd, sixteen dot products of four bytes, is
//   c(i) = sum(i32(a(i, k)) * i32(b(i, k)), k)   with i < 16, k < 4
// Operand a holds element (i, k) in lane 4 i + k. A block whose a does not depend on i matches too:
// its four bytes are then repeated in every group of lanes, by broadcasting one 32-bit word.
#pragma once

#include "dsl/op.h"
#include "machine/machine.h"

#include <memory>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

namespace kumiko {

// The layout of one tensor of the meaning in a register: a step along axis d of the tensor advances
// lane_strides[d] lanes. Every lane holds exactly one element: the strides are those of a dense
// array in some axis order.
struct InstructionOperand {
    std::string tensor; // its name in the meaning
    Type type;
    int lanes = 0;
    std::vector<int> lane_strides; // one per axis of the tensor
    bool accumulator = false;      // read and written: the result is added to its value
};

// Required range of an operand's values.
struct OperandRange {
    std::string tensor;
    int64_t min = 0, max = 0;
};

// A tensor instruction: its meaning as an op, its operands and its emitter.
struct Instruction {
    std::string name;                  // "avx512.vpdpbusd": the emitter's name
    std::string description;           // one line of text
    std::vector<std::string> features; // all are required; names as in Machine::features
    Op meaning;                        // fixed extents, one output, which is the accumulator
    // The operands in the order of the emitter's arguments: accumulator, inputs.
    std::vector<InstructionOperand> operands;
    // An Emitter of targets/cpu/emit.h; null: the target knows an instruction of this name.
    std::shared_ptr<const void> emitter;
    // The target lays out the operands itself: tensorize proves their values but not their
    // addresses.
    bool placed = false;
    // Operands are addresses instead of registers. The outermost axis of an operand (the one with
    // the largest lane stride) may have any constant stride in memory, which is passed to the
    // instruction; the other axes are dense, in lane order.
    bool in_memory = false;
    // The instruction computes its meaning only for operand values in these ranges, and may
    // saturate otherwise. `tensorize` proves the ranges.
    std::vector<OperandRange> ranges;

    Instruction(std::string name, std::string description, std::vector<std::string> features, Op meaning,
                std::vector<InstructionOperand> operands, std::shared_ptr<const void> emitter = nullptr)
        : name(std::move(name)), description(std::move(description)), features(std::move(features)),
          meaning(std::move(meaning)), operands(std::move(operands)), emitter(std::move(emitter)) {}

    // Shorthand. `formula` takes one Axis per extent and returns the accumulator, made with
    // accumulate(). The operands are the accumulator, then the inputs in the order in which the
    // formula reads them, each dense and row-major: element (i, k) of b above is in lane 4 i + k.
    template<typename F, size_t N>
    Instruction(const std::string &name, F formula, const int (&extents)[N])
        : Instruction(name, called(formula, extents, std::make_index_sequence<N>())) {}
    Instruction(const std::string &name, const Tensor &accumulator);

    // Adds required machine features: Feature::avx2, or text as in Machine::features. Returns
    // *this.
    template<typename... Text>
    Instruction &needs(const Text &...names) {
        (features.push_back(names), ...);
        return *this;
    }
    // Sets the LLVM emitter. Defined in targets/cpu/emit.h, which must be included.
    template<typename F>
    Instruction &emit(F f);

    // Operations per issue: the number of points of the meaning's loops × 2, for multiply and add.
    double operations() const;
    bool available_on(const Machine &machine) const;
    // Throws InternalError if there is none.
    const InstructionOperand &operand(const std::string &tensor) const;

    // Throws UserError if the declaration is inconsistent: an operand that is not a tensor of the
    // meaning, wrong types, lanes that do not cover the tensor exactly once, symbolic extents, or a
    // meaning with several stages or outputs.
    void check() const;

private:
    template<typename F, size_t N, size_t... I>
    static Tensor called(F &formula, const int (&extents)[N], std::index_sequence<I...>) {
        return formula(Axis(axis_name(I, N), extents[I])...);
    }
    static std::string axis_name(size_t position, size_t count); // i, j, …; the last one is k
};

// The accumulator of an instruction: the formula's sum is added to the tensor's previous value.
// Throws UserError if the value does not have the stated type.
Tensor accumulate(const std::string &name, Type type, const std::vector<Axis> &axes, const Expr &value,
                  std::source_location where = std::source_location::current());

// Feature names, as in Machine::features.
namespace Feature {
#define KUMIKO_FEATURE(name) inline constexpr const char *name = #name
KUMIKO_FEATURE(avx2);
KUMIKO_FEATURE(fma);
KUMIKO_FEATURE(avx512f);
KUMIKO_FEATURE(avx512_vnni);
KUMIKO_FEATURE(avx512_bf16);
KUMIKO_FEATURE(amx_tile);
KUMIKO_FEATURE(amx_bf16);
KUMIKO_FEATURE(amx_int8);
KUMIKO_FEATURE(neon);
KUMIKO_FEATURE(dotprod);
#undef KUMIKO_FEATURE
} // namespace Feature

// An ordered set of instructions by name. Schedules share one instance, so it is immutable once in
// use.
class InstructionSet {
public:
    // The instructions that Kumiko can emit.
    static const InstructionSet &builtin();

    // Adds an instruction after check(). Throws UserError if the name is in use.
    void add(const Instruction &instruction);
    // Throws UserError with a suggestion for an unknown name.
    const Instruction &get(const std::string &name) const;
    const Instruction *find(const std::string &name) const; // null if there is none
    std::vector<std::string> names() const;
    const std::vector<Instruction> &all() const { return instructions_; }
    // The instructions whose features the machine has, the one with the most operations first.
    std::vector<const Instruction *> available_on(const Machine &machine) const;

private:
    std::vector<Instruction> instructions_;
};

} // namespace kumiko
