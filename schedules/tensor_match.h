// Proof that a block of loops is what a tensor instruction means: same loops, same expression, same addresses.
//
// The block is given twice over a schedule's life: by tensorize, with reads by index, so that an error comes at the directive;
// and in lowering, flattened, as it is about to be replaced.
#pragma once

#include "machine/instruction.h"
#include "schedules/frame.h"

namespace kumiko {

struct BlockLoop {
    std::string variable;
    int64_t extent = 0;
    bool reduction = false;
};

struct TensorBlock {
    std::vector<BlockLoop> loops; // outermost first
    Expr target, value;           // what is stored to, as a read of it, and what is stored
    // The offset in elements of a read (a Call of type Image, or a Load); undefined where that is not known yet.
    std::function<Expr(const Expr &read)> offset;
    const Bounds *bounds = nullptr; // of the loops, those around, and the sizes
};

struct TensorOperand {
    Expr read;              // the block's; or a number
    std::vector<int> lanes; // for each lane of the register, which of the elements from the first on
    int elements = 0;       // how many follow each other in memory; fewer than the lanes where they are repeated
    Expr row;               // of an operand in memory: the distance of the outermost axis's steps, in elements
    bool repeated() const { return elements != static_cast<int>(lanes.size()); }
};

struct TensorMatch {
    std::string difference;              // the first one, on both sides; empty when the block is the meaning
    std::vector<TensorOperand> operands; // in the order of Instruction::operands
};

TensorMatch match_tensor(const Instruction &instruction, const TensorBlock &block);

} // namespace kumiko
