#include "sim/operations.h"

#include <iterator>

namespace kumiko::sim {

namespace {

constexpr uint8_t bit(Type t) { return uint8_t(1 << int(t)); }
constexpr uint8_t any16 = bit(Type::I16) | bit(Type::U16) | bit(Type::F16);
constexpr uint8_t any32 = bit(Type::I32) | bit(Type::U32) | bit(Type::F32);
constexpr uint8_t any = any16 | any32;
constexpr uint8_t floats = bit(Type::F16) | bit(Type::F32);
constexpr uint8_t ints = any & ~floats;

constexpr AluInfo alu_table[alu_op_count] = {
    {"none", 0, 0, 0, AluResult::Same, ""},
#define KUMIKO_ALU(op, name, operands, types, width, result, lane, meaning)                                            \
    {name, operands, types, width, AluResult::result, meaning},
#include "sim/alu_operations.def"
#undef KUMIKO_ALU
};

constexpr MauInfo mau_table[mau_op_count] = {
    {"none", false, false, false, false, ""},
    {"mfma", true, false, true, true, "W·a + c: the face times the MAB's vector, plus c"},
    {"mmul", true, false, false, true, "W·a"},
    {"vfma", true, true, true, false, "a·b + c, element by element, one rounding"},
    {"vmul", true, true, false, false, "a·b"},
    {"vadd", true, false, true, false, "a + c"},
    {"vpass", true, false, false, false, "a, unchanged; narrow: four fp32 of two LW rounded to fp16"},
};

constexpr TreeInfo l1_table[l1_op_count] = {
    {"none", ""},
    {"l1.pe", "L1BM b + w·t + j -> word j of every PE"},
    {"l1.mab", "L1BM b + 4w·t + w·p + j -> word j of PE p of every MAB"},
    {"l1.mab4", "L1BM b + wM·t + 4w·q + w·p + j -> word j of PE p of the MABs 4q to 4q + 3 (M MABs in an L1B)"},
    {"l1.scatter", "L1BM b + 4M·t + i -> PE i"},
    {"l1.gather", "PE i -> L1BM b + 4M·t + i"},
    {"l1.reduce", "over the MABs, word j of PE p -> L1BM b + 4w·t + w·p + j"},
    {"l1.reduce4", "over the MABs 4q to 4q + 3, word j of PE p -> L1BM b + wM·t + 4w·q + w·p + j"},
};

constexpr TreeInfo l2_table[l2_op_count] = {
    {"none", ""},
    {"l2.bcast", "L2BM b + 16t + j -> every L1BM a + 16t + j"},
    {"l2.bcast2", "the same for the lower half of the L1Bs; the upper half from the second L2BM address"},
    {"l2.scatter", "L2BM b + 8L·t + 8l + j -> L1BM l at a + 8t + j (L L1Bs)"},
    {"l2.down", "L2BM b + 16t + j -> L1BM of the child at a + 16t + j"},
    {"l2.multicast", "L1BM of the child at the second address + 16t + j -> every L1BM a + 16t + j"},
    {"l2.gather", "L1BM l at a + 8t + j -> L2BM b + 8L·t + 8l + j"},
    {"l2.reduce", "over the L1Bs, a + 16t + j -> L2BM b + 16t + j"},
    {"l2.up", "L1BM of the child at a + 16t + j -> L2BM b + 16t + j"},
};

constexpr TreeInfo mv_table[mv_op_count] = {
    {"none", ""},
    {"mv.bcast", "memory -> every chosen L2BM"},
    {"mv.scatter", "memory -> the u-th of the U chosen L2BMs gets the blocks of 64 LW u, u + U, ..."},
    {"mv.gather", "its inverse"},
    {"mv.reduce", "over the chosen L2BMs -> memory"},
    {"mv.copy", "L2BM of the child -> every chosen L2BM"},
    {"mv.reduceto", "over the chosen L2BMs -> L2BM of the child"},
};

} // namespace

// A number beyond the table's end gives the first row, so that errors about it can be printed.
#define KUMIKO_ROW(table, index) table[size_t(index) < std::size(table) ? size_t(index) : 0]
const AluInfo &info(AluOp op) { return KUMIKO_ROW(alu_table, op); }
const MauInfo &info(MauOp op) { return KUMIKO_ROW(mau_table, op); }
const TreeInfo &info(L1Op op) { return KUMIKO_ROW(l1_table, op); }
const TreeInfo &info(L2Op op) { return KUMIKO_ROW(l2_table, op); }
const TreeInfo &info(MvOp op) { return KUMIKO_ROW(mv_table, op); }

const char *name_of(Reduction r) {
    constexpr const char *names[] = {"add.f32", "max.f32", "min.f32", "add.i32", "max.i32", "min.i32"};
    return KUMIKO_ROW(names, r);
}
const char *name_of(Type t) {
    constexpr const char *names[] = {"i16", "u16", "f16", "i32", "u32", "f32"};
    return KUMIKO_ROW(names, t);
}
const char *name_of(Source s) {
    constexpr const char *names[] = {"none", "lm0",  "lm1", "grf0",   "grf1", "t",
                                     "aluf", "mauf", "lbf", "mreadf", "imm",  "id"};
    return KUMIKO_ROW(names, s);
}

int alu_operand_width(const Alu &alu) { return alu.op == AluOp::Narrow ? 2 : alu.width; }
int alu_result_width(const Alu &alu) { return alu.op == AluOp::Widen ? 2 : alu.width; }
int mau_a_width(const Mau &mau) { return mau.op == MauOp::Pass ? mau.width : 1; }
int mau_c_width(const Mau &mau) { return mau.precision == Type::F16 && !mau.narrow_c ? 2 : 1; }
int mau_result_width(const Mau &mau) {
    if (mau.narrow_y) return 1;
    return mau.op == MauOp::Pass ? mau.width : mau.precision == Type::F16 ? 2 : 1;
}

MaskForm mask_form(const Alu &alu) {
    if (alu.op == AluOp::Widen) return MaskForm::Wide;
    if (alu.op == AluOp::Narrow) return MaskForm::Lanes;
    return is_16_bit(alu.type) ? MaskForm::Lanes : MaskForm::Pairs;
}
MaskForm mask_form(const Mau &mau) {
    if (mau.precision == Type::F32) return MaskForm::Pairs;
    return mau_result_width(mau) == 2 ? MaskForm::Wide : MaskForm::Lanes;
}

int face_size(Type precision) { return precision == Type::F16 ? 16 : 8; }
int face_rows(int width) { return cycles_per_step * width; }
int face_parts(Type precision, int width) { return face_size(precision) / face_rows(width); }

} // namespace kumiko::sim
