// The epilogue of a row product: registers, operands, and the vector program that it runs on
// complete sums.
#pragma once

#include "targets/chip/stage/row_product_memory.h"
#include "targets/chip/stage/row_product_moves.h"
#include "targets/chip/vector/emit.h"

#include <memory>

namespace kumiko::chip {

class ProductEpilogue {
public:
    ProductEpilogue(Context &c, const ProductForm &form, ProductMemory &memory)
        : c_(c), f_(form), m_(memory), moves_(c, form) {}
    // Takes registers; throws Unsupported for operands that cannot be read.
    void begin(const ScheduleState &state);

    int64_t operands() const { return int64_t(operands_.size()); }
    Ring &registers() { return registers_; }
    VectorEmitter &code() { return *code_; }
    const VectorProgram &program() const { return program_; }

    // Loads the rows of the operands for a tile to L2BM.
    void load(const Values &tile);
    // Loads the words of all operands for four words of every MAB: pieces from `piece` on, in the
    // arrangement of the sums.
    void load_pieces(int64_t piece);
    // The operand for read `which` of the program: one of the words of the sums or of an operand.
    sim::Operand read(const sim::Operand &sums, int which, int word) const;
    // The epilogue in f32 on four reloaded rows of 8 LW: each PE has two words of each.
    sim::Operand finished(const sim::Operand &sums, int64_t piece);
    // The words at `at` in the bank of the registers.
    sim::Operand joined(int64_t at, int stride) const;
    // Reloads reduced sums from L1BM to the registers.
    sim::Operand reload(int64_t l1bm, uint32_t mabs, int64_t at, int64_t stride);

private:
    struct EpilogueOperand {
        Expr read;
        ProductView view;
        int64_t l2bm = 0;  // address of this tile's rows
        sim::Operand here; // the current words
    };
    Context &c_;
    const ProductForm &f_;
    ProductMemory &m_;
    ProductMoves moves_;
    std::vector<EpilogueOperand> operands_;
    std::unique_ptr<VectorEmitter> code_;
    VectorProgram program_; // read 0: the sums; from 1 on: the operands
    Bank operands_bank_ = Bank::Grf0, registers_bank_ = Bank::Grf1;
    Ring registers_, operands_ring_;

    void take_registers();
    void take_operands(const ScheduleState &state);
    void load_epilogue(EpilogueOperand &o, int64_t piece);
};

} // namespace kumiko::chip
