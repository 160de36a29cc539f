// The properties of the operations: name, operands, types, widths, and the meaning as text. The
// encoding, the assembler, the checker, the engine and docs/chip.md use them. The rows of the ALU,
// with their meaning in C++, are in alu_operations.def, those of L1, L2 and MV in
// tree_operations.def.
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

// What one cycle transfers from or to L1BM, w being the slot's width. Pe: w LW. Mab: w LW for each
// PE of one MAB. FourMabs: the same for each four neighbouring MABs (4×4 mode). Whole: one LW for
// each PE, so that w is 1.
enum class L1Words : uint8_t { Pe, Mab, FourMabs, Whole };
struct L1Info {
    const char *name;
    bool up;
    L1Words words;
    bool reduces; // by the slot's reduction
    const char *meaning;
};
const L1Info &info(L1Op op);

enum class L2Second : uint8_t { None, L1bm, L2bm };
struct L2Info {
    const char *name;
    bool up;
    bool distributes; // each L1B has words of its own in L2BM
    bool child;       // names one L1B
    L2Second second;  // the memory of the second source
    bool reduces;
    const char *meaning;
    bool multicast() const { return second == L2Second::L1bm; } // does not use L2BM
    bool unicast() const { return child && !multicast(); }
};
const L2Info &info(L2Op op);

// Between DRAM or PDM and L2BMs, or among L2BMs.
enum class MvKind : uint8_t { Load, Store, Inside };
struct MvInfo {
    const char *name;
    MvKind kind;
    bool distributes; // each L2B has blocks of its own
    bool reduces;
    const char *meaning;
};
const MvInfo &info(MvOp op);

inline bool is_upward(L1Op op) { return info(op).up; }
inline bool is_upward(L2Op op) { return info(op).up; }
inline bool is_load(const Mv &m) { return info(m.op).kind == MvKind::Load; }
inline bool is_store(const Mv &m) { return info(m.op).kind == MvKind::Store; }
inline bool is_inside(const Mv &m) { return info(m.op).kind == MvKind::Inside; }

// LW of L1BM that an L1 step transfers.
int64_t l1_words(const L1 &l1, const Config &config);
// LW that an L2 step transfers: of each L1BM, and of L2BM.
int64_t l2_words_of_l1bm(const L2 &l2, const Config &config);
int64_t l2_words_of_l2bm(const L2 &l2, const Config &config);
// LW of a move, of each of its groups.
inline int64_t words_of(const Mv &m, const Config &config) { return int64_t(m.blocks) * m.size * config.moves.block; }

const char *name_of(Reduction reduction); // "add.f32"
const char *name_of(Type type);           // "f16"
const char *name_of(Source source);       // "lm0"

// The result of one lane of an operation that is computed lane by lane, with lanes of `type`: bits
// in the low part of a and b, and of the result. Throws InternalError for other operations and
// types.
uint32_t alu_lane(AluOp op, Type type, uint32_t a, uint32_t b);

// LW per cycle of the operands and results of a slot.
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

// Rows of a face; rows that one matrix write or read transfers; and how many of these fill a face.
int face_size(Type precision);             // 16 or 8
int face_rows(int width);                  // 4·width
int face_parts(Type precision, int width); // face_size / face_rows

// The tables as Markdown, for docs/chip.md.
std::string operations_page();

} // namespace kumiko::sim
