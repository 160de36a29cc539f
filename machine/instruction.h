// Tensor instructions, declared by what they mean: a small Op, and where each element of an operand stands in its register.
// `tensorize` proves that a block of a nest is the meaning; the target emits it by name (targets/cpu/emit.h knows how).
// A user's own instruction is one more row:
//
//   Instruction dot4("mine.dot4", [](Axis i, Axis k) {        // 16 lanes, 4 products each
//       Tensor a = input("a", u8, {k}), b = input("b", i8, {i, k});
//       return accumulate("c", i32, {i}, sum(cast<int32_t>(a(k)) * cast<int32_t>(b(i, k)), k));
//   }, {16, 4});
//   dot4.needs(Feature::avx512_vnni).emit([](llvm::IRBuilder<> &ir, auto args) { … });      // targets/cpu/emit.h
//   s.stage("C").tensorize("j.i", dot4);
//
// For example avx512.vpdpbusd, sixteen dot products of four bytes, is
//   c(i) = sum(i32(a(i, k)) * i32(b(i, k)), k)   with i < 16, k < 4
// whose operand a keeps element (i, k) in lane 4 i + k. A block whose a does not depend on i matches too: its four bytes
// are then repeated in every group of lanes, which broadcasting one 32-bit word does.
#pragma once

#include "dsl/op.h"
#include "machine/machine.h"

#include <memory>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

namespace kumiko {

// How one tensor of the meaning lies in a register: axis d of the tensor counts lane_strides[d] lanes a step. Every lane
// belongs to exactly one element: the strides are those of a dense array, in some order of the axes.
struct InstructionOperand {
    std::string tensor; // the meaning's name for it
    Type type;
    int lanes = 0;
    std::vector<int> lane_strides; // one per axis of the tensor
    bool accumulator = false;      // read and written: the result is added to what it holds
};

// What the values of an operand have to be.
struct OperandRange {
    std::string tensor;
    int64_t min = 0, max = 0;
};

struct Instruction {
    std::string name;                         // "avx512.vpdpbusd": the emitter's name
    std::string description;                  // one line for people
    std::vector<std::string> features;        // all needed, as in Machine::features
    Op meaning;                               // fixed extents, one output; the output is the accumulator
    std::vector<InstructionOperand> operands; // in the order of the emitter's arguments: accumulator, then inputs
    // How a target writes it, an Emitter of targets/cpu/emit.h; null: the target knows an instruction of this name.
    std::shared_ptr<const void> emitter;
    // The target lays the operands out for it: tensorize proves what they are, not where they lie.
    bool placed = false;
    // Its operands are addresses, not registers. What the outermost axis of an operand (the one of the most lanes a step) steps
    // over may lie at any fixed distance, which the instruction is given too; the rest is dense as its lanes are.
    bool in_memory = false;
    // It computes its meaning for such values of its operands; for others it may saturate. `tensorize` proves that they are such.
    std::vector<OperandRange> ranges;

    Instruction(std::string name, std::string description, std::vector<std::string> features, Op meaning,
                std::vector<InstructionOperand> operands, std::shared_ptr<const void> emitter = nullptr)
        : name(std::move(name)), description(std::move(description)), features(std::move(features)),
          meaning(std::move(meaning)), operands(std::move(operands)), emitter(std::move(emitter)) {}

    // The short form. `formula` takes one Axis for each extent and returns the accumulator, made by accumulate(). The operands
    // are the accumulator and then the inputs in the order in which the formula reads them, each dense and row-major: element
    // (i, k) of b above stands in lane 4 i + k.
    template<typename F, size_t N>
    Instruction(const std::string &name, F formula, const int (&extents)[N])
        : Instruction(name, called(formula, extents, std::make_index_sequence<N>())) {}
    Instruction(const std::string &name, const Tensor &accumulator);

    // Features of the machine that it takes: Feature::avx2, or text as in Machine::features. Returns the instruction.
    template<typename... Text>
    Instruction &needs(const Text &...names) {
        (features.push_back(names), ...);
        return *this;
    }
    // How LLVM writes it; defined by targets/cpu/emit.h, for those who include that.
    template<typename F>
    Instruction &emit(F f);

    // What it does in one issue, multiply and add counted as two for a sum of products: points of the meaning's loops × 2.
    double operations() const;
    bool available_on(const Machine &machine) const;
    const InstructionOperand &operand(const std::string &tensor) const; // throws InternalError when there is none

    // Throws UserError when the declaration contradicts itself: an operand that is no tensor of the meaning, other types,
    // lanes that do not cover the tensor once, symbolic extents, a meaning with several stages or outputs.
    void check() const;

private:
    template<typename F, size_t N, size_t... I>
    static Tensor called(F &formula, const int (&extents)[N], std::index_sequence<I...>) {
        return formula(Axis(axis_name(I, N), extents[I])...);
    }
    static std::string axis_name(size_t position, size_t count); // i, j, …, the last one k
};

// The result of an instruction: what the formula adds up is added to what the tensor held. Throws UserError when the value
// is not of the type stated.
Tensor accumulate(const std::string &name, Type type, const std::vector<Axis> &axes, const Expr &value,
                  std::source_location where = std::source_location::current());

// Features by name, as in Machine::features.
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

// An ordered set of instructions by name. Immutable in use: schedules hold one and share it.
class InstructionSet {
public:
    // Those that Kumiko knows how to emit.
    static const InstructionSet &builtin();

    // Adds, after check(). Throws UserError when the name is taken.
    void add(const Instruction &instruction);
    // Throws UserError with a suggestion for an unknown name.
    const Instruction &get(const std::string &name) const;
    const Instruction *find(const std::string &name) const; // null when there is none
    std::vector<std::string> names() const;
    const std::vector<Instruction> &all() const { return instructions_; }
    // Those whose features the machine has, the one with the most operations first.
    std::vector<const Instruction *> available_on(const Machine &machine) const;

private:
    std::vector<Instruction> instructions_;
};

} // namespace kumiko
