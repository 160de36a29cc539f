// The operations as tables: name, operands, types, widths, and the meaning as text. The assembler,
// the checker and docs/chip.md use them; the ALU's rows, with their meaning in C++, are in
// alu_operations.def.
#pragma once

#include "sim/isa.h"

#include <string>

namespace kumiko::sim {

enum class AluResult : uint8_t { Same, Mask, Wider, Narrower, Whole };
struct AluInfo {
    const char *name;
    int operands;
    uint8_t types; // bit Type
    int max_width; // LW a cycle
    AluResult result;
    const char *meaning;
};
const AluInfo &info(AluOp op);

struct MauInfo {
    const char *name;
    bool a, b, c, matrix;
    const char *meaning;
};
const MauInfo &info(MauOp op);

struct TreeInfo {
    const char *name;
    const char *meaning;
};
const TreeInfo &info(L1Op op);
const TreeInfo &info(L2Op op);
const TreeInfo &info(MvOp op);
const char *name_of(Reduction reduction); // "add.f32"
const char *name_of(Type type);           // "f16"
const char *name_of(Source source);       // "lm0"

// LW per cycle that the slots read and write.
int alu_operand_width(const Alu &alu);
int alu_result_width(const Alu &alu);
int mau_c_width(const Mau &mau);
int mau_a_width(const Mau &mau);
int mau_result_width(const Mau &mau);

// How the four lanes of a mask control a result. Lanes: each controls a 16-bit lane of every LW.
// Pairs: two control a 32-bit lane of every LW (enabled if both are). Wide: each controls one of
// the four 32-bit elements of two LW.
enum class MaskForm : uint8_t { Lanes, Pairs, Wide };
MaskForm mask_form(const Alu &alu);
MaskForm mask_form(const Mau &mau);

// Rows of a face per matrix write or read, and the number of those that fill it.
int face_size(Type precision);             // 16 or 8
int face_rows(int width);                  // 4·width
int face_parts(Type precision, int width); // face_size / face_rows

} // namespace kumiko::sim
