#include "sim/operations.h"

#include "sim/kernels/kernels.h"
#include "support/error.h"

#include <fmt/format.h>

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

constexpr bool Down = false, Up = true;

constexpr L1Info l1_table[l1_op_count] = {
    {"none", Down, L1Words::Pe, false, ""},
#define KUMIKO_L1(op, name, direction, words, reduces, meaning) {name, direction, L1Words::words, reduces, meaning},
#include "sim/tree_operations.def"
};

constexpr L2Info l2_table[l2_op_count] = {
    {"none", Down, false, false, L2Second::None, false, ""},
#define KUMIKO_L2(op, name, direction, distributes, child, second, reduces, meaning)                                   \
    {name, direction, distributes, child, L2Second::second, reduces, meaning},
#include "sim/tree_operations.def"
};

constexpr MvInfo mv_table[mv_op_count] = {
    {"none", MvKind::Load, false, false, ""},
#define KUMIKO_MV(op, name, kind, distributes, reduces, meaning) {name, MvKind::kind, distributes, reduces, meaning},
#include "sim/tree_operations.def"
};

} // namespace

// A number beyond the table's end gives the first row, so that errors about it can be printed.
#define KUMIKO_ROW(table, index) table[size_t(index) < std::size(table) ? size_t(index) : 0]
const AluInfo &info(AluOp op) { return KUMIKO_ROW(alu_table, op); }
const MauInfo &info(MauOp op) { return KUMIKO_ROW(mau_table, op); }
const L1Info &info(L1Op op) { return KUMIKO_ROW(l1_table, op); }
const L2Info &info(L2Op op) { return KUMIKO_ROW(l2_table, op); }
const MvInfo &info(MvOp op) { return KUMIKO_ROW(mv_table, op); }

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

int64_t l1_words(const L1 &l1, const Config &config) {
    const auto a_cycle = [&]() -> int64_t {
        switch (info(l1.op).words) {
        case L1Words::Pe:
            return l1.width;
        case L1Words::Mab:
            return int64_t(pes_per_mab) * l1.width;
        case L1Words::FourMabs:
            return int64_t(l1.width) * config.mabs;
        case L1Words::Whole:
            break;
        }
        return config.pes_per_l1b();
    };
    return cycles_per_step * a_cycle();
}
int64_t l2_words_of_l1bm(const L2 &l2, const Config &config) {
    return int64_t(cycles_per_step) * (info(l2.op).distributes ? config.links.l2_scatter : config.links.l2_broadcast);
}
int64_t l2_words_of_l2bm(const L2 &l2, const Config &config) {
    return l2_words_of_l1bm(l2, config) * (info(l2.op).distributes ? config.l1bs : 1);
}

uint32_t alu_lane(AluOp op, Type type, uint32_t a, uint32_t b) {
    const auto lane = baseline_kernels()->lane[int(op)][int(type)];
    if (!lane) throw InternalError(fmt::format("{} of {} is not computed lane by lane", info(op).name, name_of(type)));
    return lane(a, b);
}

int alu_operand_width(const Alu &alu) { return info(alu.op).result == AluResult::Narrower ? 2 : alu.width; }
int alu_result_width(const Alu &alu) { return info(alu.op).result == AluResult::Wider ? 2 : alu.width; }
int mau_a_width(const Mau &mau) { return mau.op == MauOp::Pass ? mau.width : 1; }
int mau_c_width(const Mau &mau) { return mau.precision == Type::F16 && !mau.narrow_c ? 2 : 1; }
int mau_result_width(const Mau &mau) {
    if (mau.narrow_y) return 1;
    return mau.op == MauOp::Pass ? mau.width : mau.precision == Type::F16 ? 2 : 1;
}

MaskForm mask_form(const Alu &alu) {
    const AluResult result = info(alu.op).result;
    if (result == AluResult::Wider) return MaskForm::Wide;
    if (result == AluResult::Narrower) return MaskForm::Lanes;
    return is_16_bit(alu.type) ? MaskForm::Lanes : MaskForm::Pairs;
}
MaskForm mask_form(const Mau &mau) {
    if (mau.precision == Type::F32) return MaskForm::Pairs;
    return mau_result_width(mau) == 2 ? MaskForm::Wide : MaskForm::Lanes;
}

int face_size(Type precision) { return precision == Type::F16 ? 16 : 8; }
int face_rows(int width) { return cycles_per_step * width; }
int face_parts(Type precision, int width) { return face_size(precision) / face_rows(width); }

std::string operations_page() {
    std::string text = "| ALU | operands | types | LW | meaning |\n|---|---|---|---|---|\n";
    for (int i = 1; i < alu_op_count; i++) {
        const AluInfo &r = alu_table[i];
        std::string types;
        for (int t = 0; t < type_count; t++)
            if (r.types >> t & 1) types += std::string(types.empty() ? "" : " ") + name_of(Type(t));
        text += fmt::format("| `{}` | {} | {} | {} | {} |\n", r.name, r.operands, types, r.max_width, r.meaning);
    }
    text += "\n| MAU | meaning |\n|---|---|\n";
    for (int i = 1; i < mau_op_count; i++)
        text += fmt::format("| `{}` | {} |\n", mau_table[i].name, mau_table[i].meaning);
    const auto tree = [&](const char *heading, const auto *rows, int count) {
        text += fmt::format("\n| {} | meaning |\n|---|---|\n", heading);
        for (int i = 1; i < count; i++) text += fmt::format("| `{}` | {} |\n", rows[i].name, rows[i].meaning);
    };
    tree("L1", l1_table, l1_op_count);
    tree("L2", l2_table, l2_op_count);
    tree("MV", mv_table, mv_op_count);
    return text;
}

} // namespace kumiko::sim
