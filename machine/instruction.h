// Tensor instructions, declared by what they mean: a small Op, and where each element of an operand stands in its register.
// `tensorize` proves that a block of a nest is the meaning; the target emits it by name (targets/cpu/emit.h knows how).
// A user's own instruction is one more row.
//
// For example avx512.vpdpbusd, sixteen dot products of four bytes, is
//   c(i) = sum(i32(a(i, k)) * i32(b(i, k)), k)   with i < 16, k < 4
// whose operand a keeps element (i, k) in lane 4 i + k. A block whose a does not depend on i matches too: its four bytes
// are then repeated in every group of lanes, which broadcasting one 32-bit word does.
#pragma once

#include "dsl/op.h"
#include "machine/machine.h"

#include <string>
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

struct Instruction {
    std::string name;                         // "avx512.vpdpbusd": the emitter's name
    std::string description;                  // one line for people
    std::vector<std::string> features;        // all needed, as in Machine::features
    Op meaning;                               // fixed extents, one output; the output is the accumulator
    std::vector<InstructionOperand> operands; // in the order of the emitter's arguments: accumulator, then inputs

    // What it does in one issue, multiply and add counted as two for a sum of products: points of the meaning's loops × 2.
    double operations() const;
    bool available_on(const Machine &machine) const;
    const InstructionOperand &operand(const std::string &tensor) const; // throws InternalError when there is none

    // Throws UserError when the declaration contradicts itself: an operand that is no tensor of the meaning, other types,
    // lanes that do not cover the tensor once, symbolic extents, a meaning with several stages or outputs.
    void check() const;
};

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
