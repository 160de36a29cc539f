// Proves that a block of loops computes exactly what a tensor instruction means: same loops, same
// expression, same addresses.
//
// A block is matched twice: by tensorize, with index expressions, so that errors appear at the
// directive; and during lowering, after flattening, just before the block is replaced.
#pragma once

#include "machine/instruction.h"
#include "schedules/frame.h"

namespace kumiko {

// A loop of the block that an instruction may replace.
struct BlockLoop {
    std::string variable;
    int64_t extent = 0;
    bool reduction = false;
};

// The loops, the stored element and the stored value of a block.
struct TensorBlock {
    std::vector<BlockLoop> loops; // outermost first
    // `target`: the stored element, as a read of it; `value`: the stored expression.
    Expr target, value;
    // The offset of a read (a Call of type Image, or a Load) in elements; undefined if not known
    // yet.
    std::function<Expr(const Expr &read)> offset;
    const Bounds *bounds = nullptr; // of the block's loops, the enclosing loops, and the sizes
};

// How an operand of the instruction is read from the block.
struct TensorOperand {
    Expr read;              // a read of the block, or a constant
    std::vector<int> lanes; // per register lane, the index of the element it takes
    // Number of contiguous elements; fewer than the lanes if they are repeated.
    int elements = 0;
    Expr row; // for a memory operand: the stride of its outermost axis, in elements
    bool repeated() const { return elements != static_cast<int>(lanes.size()); }
};

struct TensorMatch {
    // The first difference between block and meaning; "" if they match.
    std::string difference;
    std::vector<TensorOperand> operands; // in the order of Instruction::operands
};

// Compares the block with the meaning of the instruction.
TensorMatch match_tensor(const Instruction &instruction, const TensorBlock &block);

} // namespace kumiko
