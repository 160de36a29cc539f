// The instruction word: one very wide instruction per step of four cycles, with a slot for every
// unit.
//
//   Word w;
//   w.l1 = {.op = L1Op::MabBroadcast, .width = 2, .at = {64, {16}}};  // L1BM -> lbf of every PE
//   w.mw = {.on = true, .face = 1, .width = 2, .from = Source::Lbf};  // last step's lbf -> face y
//   w.mau = {.op = MauOp::Mfma, .a = w.read(lm0(0, 1)), .c = w.read(grf0(0, 2)),
//            .to = w.write({grf0(0, 2)})};
//   w.note = "C.mfma";
//
// A memory address is encoded in the word's port, not in the slot that uses it: `read` and `write`
// encode it and return the value for the slot. Two slots that use one port with different addresses
// cannot share a word; `read`, `write` and `merge` then throw HazardError (rules H1, H5, H7).
//
// All addresses and sizes are in long words (LW, 8 bytes). The operations are the rows of
// alu_operations.def and tree_operations.def; operations.h gives their properties, and docs/chip.md
// prints them.
#pragma once

#include "sim/config.h"
#include "support/error.h"

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

namespace kumiko::sim {

// ---- operands ----------------------------------------------------------------------------------

// The source of a slot's operand. The four forwards hold what the unit produced in the previous
// step only.
enum class Source : uint8_t { None, Lm0, Lm1, Grf0, Grf1, T, Aluf, Mauf, Lbf, Mreadf, Imm, Id };
constexpr int source_count = 12;

// The destinations of a slot's result: any set of these, in addition to its forward.
enum Destination : uint8_t { ToLm0 = 1, ToLm1 = 2, ToGrf0 = 4, ToGrf1 = 8, ToT = 16 };

// The division of a value's 64 bits into lanes.
enum class Type : uint8_t { I16, U16, F16, I32, U32, F32 };
constexpr int type_count = 6;
constexpr bool is_16_bit(Type t) { return t <= Type::F16; }

// The addresses of a port in the four cycles of a step: at[0] + t·stride, or at[t] if `listed`;
// plus i0·repeat[0] + i1·repeat[1] in the outer and inner REP, plus a base register, plus (LM0
// only) the low 16 bits of T's word t in each PE.
struct PortAddress {
    std::array<uint16_t, 4> at{};
    int16_t stride = 0;
    std::array<int16_t, 2> repeat{};
    bool listed = false;
    bool by_t = false;
    uint8_t base = 0; // 0: none; 1..4: base register b0..b3 is added

    bool operator==(const PortAddress &) const = default;
};

// A memory's port: whether it is used, and its addresses.
struct Port {
    bool on = false;
    PortAddress address;
    bool operator==(const Port &) const = default;
};

// An address in L1BM or L2BM: at + i0·repeat[0] + i1·repeat[1].
struct TreeAddress {
    uint16_t at = 0;
    std::array<int16_t, 2> repeat{};
    bool operator==(const TreeAddress &) const = default;
};

// An operand before it is encoded in a word.
struct Operand {
    Source source = Source::None;
    PortAddress address{};  // of Lm0, Lm1, Grf0, Grf1
    uint64_t immediate = 0; // of Imm: the bits of the LW
};

// Operands in memories: LM0, LM1, GRF0 or GRF1 at start + t · stride in cycle t. `repeat` is what
// each iteration of the outer and the inner REP adds.
Operand lm0(int start, int stride = 0, std::array<int, 2> repeat = {0, 0});
Operand lm1(int start, int stride = 0, std::array<int, 2> repeat = {0, 0});
Operand grf0(int start, int stride = 0, std::array<int, 2> repeat = {0, 0});
Operand grf1(int start, int stride = 0, std::array<int, 2> repeat = {0, 0});
// Four explicit addresses.
Operand listed(Source memory, std::array<int, 4> at, std::array<int, 2> repeat = {0, 0});
// LM0 at start + t·stride + T's word t of each PE.
Operand lm0_by_t(int start, int stride = 0, std::array<int, 2> repeat = {0, 0});
// The same operand with base register b (0..3) added.
Operand with_base(Operand operand, int base);

Operand t_register(); // T
Operand aluf();       // the forward of the ALU
Operand mauf();       // of the MAU
Operand lbf();        // of L1, downwards
Operand mreadf();     // of MR
// int16 lanes: PE in its MAB, MAB in its L1B, L1B in its L2B, L2B in the chip.
Operand unit_id();
Operand immediate(uint64_t bits);
Operand immediate_f32(float value); // in both lanes
Operand immediate_f16(float value); // rounded to nearest even, in all four lanes
Operand immediate_i32(int32_t value);
Operand immediate_i16(int16_t value);

// ---- slots -------------------------------------------------------------------------------------

// Wait, repeat, base registers, end of program.
struct Control {
    // Before this word, wait until every earlier move with this tag (0..15) is complete.
    std::optional<uint8_t> wait;
    // The next `length` words, beginning with this one, execute `count` times. A word may begin
    // two: repeat[0] is the outer one.
    struct Repeat {
        uint32_t count = 0; // 0: none
        uint8_t length = 0;
        bool operator==(const Repeat &) const = default;
    };
    std::array<Repeat, 2> repeat{};
    std::optional<uint8_t> base; // set this base register (0..3) ...
    int16_t base_value = 0;      // ... to this,
    bool base_add = false;       // ... or add this to it
    bool end = false;            // the program's last word

    bool operator==(const Control &) const = default;
};

// Operation with which values of several units are combined.
enum class Reduction : uint8_t { AddF32, MaxF32, MinF32, AddI32, MaxI32, MinI32 };
constexpr int reduction_count = 6;

constexpr uint32_t all_units = 0xffffffff; // in a set of units: all there are

// Between L2BM and the L1BMs below it (tree_operations.def).
enum class L2Op : uint8_t {
    None,
#define KUMIKO_L2(op, ...) op,
#include "sim/tree_operations.def"
};
constexpr int l2_op_count = 1
#define KUMIKO_L2(op, ...) +1
#include "sim/tree_operations.def"
    ;

// The L2 slot of a word.
struct L2 {
    L2Op op = L2Op::None;
    Reduction reduction = Reduction::AddF32; // of Reduce
    uint8_t child = 0;                       // the L1B of the unicasts; the source of Multicast
    uint32_t l1bs = all_units;               // the L1Bs that take part
    TreeAddress l2bm, l1bm;
    // Broadcast2: L2BM's for the upper half of the L1Bs; Multicast: L1BM's in the source.
    TreeAddress second;
    bool operator==(const L2 &) const = default;
};

// Between L1BM and the PEs below it. Downwards the data becomes `lbf` and is written to `to`;
// upwards it comes from `from` (tree_operations.def).
enum class L1Op : uint8_t {
    None,
#define KUMIKO_L1(op, ...) op,
#include "sim/tree_operations.def"
};
constexpr int l1_op_count = 1
#define KUMIKO_L1(op, ...) +1
#include "sim/tree_operations.def"
    ;

// The L1 slot of a word.
struct L1 {
    L1Op op = L1Op::None;
    Reduction reduction = Reduction::AddF32;
    uint8_t width = 1; // LW a cycle and PE; scatter and gather: 1
    uint32_t mabs = all_units;
    TreeAddress at; // in L1BM
    Source from = Source::None;
    uint8_t to = 0;
    bool operator==(const L1 &) const = default;
};

// The matrix unit, in matrix and vector mode, with precision F16 or F32.
enum class MauOp : uint8_t { None, Mfma, Mmul, Vfma, Vmul, Vadd, Pass };
constexpr int mau_op_count = 7;

// The MAU slot of a word.
struct Mau {
    MauOp op = MauOp::None;
    Type precision = Type::F16;
    uint8_t face = 0;      // 0: x, 1: y
    uint8_t half = 0;      // f32 matrix operations: which word of each LW
    bool negate = false;   // the product's sign (Vadd: the sign of a)
    bool narrow_c = false; // f16: c is 4 fp16 in one LW, not 4 fp32 in two
    bool narrow_y = false; // f16: so is the result, rounded
    uint8_t width = 1;     // Pass: LW a cycle
    Source a = Source::None, b = Source::None, c = Source::None;
    uint8_t to = 0;
    bool operator==(const Mau &) const = default;
};

// Matrix write: rows of a face from the PEs. Part h of 16/(4·width) for f16, of 8/(4·width) for
// f32.
struct MatrixWrite {
    bool on = false;
    Type precision = Type::F16;
    uint8_t face = 0, part = 0, width = 2;
    Source from = Source::None;
    bool operator==(const MatrixWrite &) const = default;
};

// Matrix read: columns of a face to the PEs, so that write and read transpose.
struct MatrixRead {
    bool on = false;
    Type precision = Type::F16;
    uint8_t face = 0, part = 0, width = 2;
    uint8_t to = 0;
    bool operator==(const MatrixRead &) const = default;
};

// Integers, logic, comparisons, conversions (alu_operations.def). operations.h gives the types and
// widths of each.
enum class AluOp : uint8_t {
    None,
#define KUMIKO_ALU(op, ...) op,
#include "sim/alu_operations.def"
#undef KUMIKO_ALU
};
constexpr int alu_op_count = 1
#define KUMIKO_ALU(op, ...) +1
#include "sim/alu_operations.def"
#undef KUMIKO_ALU
    ;

// The ALU slot of a word.
struct Alu {
    AluOp op = AluOp::None;
    Type type = Type::I32;
    uint8_t width = 1;  // LW a cycle and operand
    uint8_t rotate = 0; // Rotate: PE p receives from PE (p + rotate) mod 4
    uint8_t mask = 0;   // comparisons, SetMask: also write this mask entry (1..15); 0: none
    Source a = Source::None, b = Source::None;
    uint8_t to = 0;
    bool operator==(const Alu &) const = default;
};

// The effect of a mask entry on the results of ALU and MAU in this word.
enum class MaskMode : uint8_t { None, Write, Zero, Select };
// The mask entry of a word.
struct Mask {
    MaskMode mode = MaskMode::None;
    uint8_t entry = 0; // 0: all ones; 1..15 written by ALU; 16 + p: PE p of each MAB
    bool invert = false;
    bool operator==(const Mask &) const = default;
};

// Moves concurrent with the instruction stream: between DRAM or PDM and the L2BMs, and among L2BMs
// (tree_operations.def).
enum class MvOp : uint8_t {
    None,
#define KUMIKO_MV(op, ...) op,
#include "sim/tree_operations.def"
};
constexpr int mv_op_count = 1
#define KUMIKO_MV(op, ...) +1
#include "sim/tree_operations.def"
    ;

// The MV slot of a word.
struct Mv {
    MvOp op = MvOp::None;
    // false: each chosen group separately, with its own memory and its own chosen L2Bs; true: one
    // chosen group's memory, with any chosen L2Bs of the chip.
    bool chip = false;
    bool pdm = false;      // PDM instead of DRAM
    bool indirect = false; // the granules at `address + 16·table[i]`; DRAM only
    Reduction reduction = Reduction::AddF32;
    uint8_t tag = 0;
    uint8_t child = 0; // of the chip's L2Bs
    uint16_t groups = 0xffff;
    uint32_t l2bs = all_units; // of the chip's: number group·(L2Bs in a group) + L2B
    uint32_t address = 0;      // in the group's DRAM or PDM
    int32_t stride = 0;        // from block to block
    uint16_t blocks = 1;
    uint16_t size = 1; // of a block, in units of 64 LW
    uint16_t l2bm = 0;
    uint16_t to = 0; // Copy, ReduceTo: the address in the destination's L2BM
    // Indirect: the address of the table in the group's DRAM; two 32-bit entries per LW, low half
    // first.
    uint32_t table = 0;
    bool operator==(const Mv &) const = default;
};

// ---- the word ----------------------------------------------------------------------------------

// One instruction word: what all units do in one step of four cycles.
struct Word {
    Control control;
    L2 l2;
    L1 l1;
    Mau mau;
    MatrixWrite mw;
    MatrixRead mr;
    Alu alu;
    Mask mask;
    Mv mv;
    // An LM has one port, for reading or writing; a GRF one of each.
    Port lm0, lm1, grf0_read, grf0_write, grf1_read, grf1_write;
    bool has_immediate = false; // every slot that names Imm reads this one
    uint64_t immediate = 0;
    // The origin of the word, for readers. Kept in files, shown in errors and traces; not part of
    // the encoding.
    std::string note;

    // Equality of everything but the note.
    bool same_code(const Word &other) const;

    // Encodes the operand's address (or immediate) and returns the source for the slot. Throws
    // HazardError if the port already has another address in this word (H5) or is written (H1), or
    // if an immediate conflicts with LM0 or another immediate (H7).
    Source read(const Operand &operand);
    // Encodes the addresses and returns the slot's set of destinations. LM0, LM1, GRF0, GRF1 and T
    // can be written.
    uint8_t write(std::initializer_list<Operand> operands);
    uint8_t write(const Operand *begin, size_t count);

    bool empty() const; // does nothing for a step
};

// Adds what `from` does to `into` if their slots and ports allow it. Otherwise `into` is unchanged
// and the result names the conflict, for example "H5: the read port of GRF0". Control fields merge
// if at most one of the words has any.
std::optional<std::string> merge(Word &into, const Word &from);

// ---- hazards -----------------------------------------------------------------------------------

// The ten rules that the machine leaves to software (docs/chip.md). H2, H3, H9, H10 span words.
enum class Rule : uint8_t { H1 = 1, H2, H3, H4, H5, H6, H7, H8, H9, H10 };

// An instruction involved in a violation.
struct HazardParty {
    int64_t step = -1; // of the run; −1: in no run
    int64_t word = -1; // of the program; −1: none
    std::string text;  // the slot, disassembled
    std::string note;  // the word's
};

// A program violates a rule of the machine.
class HazardError : public UserError {
public:
    // `resource` names the contested resource, "GRF0[5]". The message contains the rule, both
    // parties, their steps and the resource, after the prefix `where` ("a.kasm:3:1: ").
    HazardError(Rule rule, const std::string &resource, const std::string &cause, HazardParty first, HazardParty second,
                const std::string &where = "");

    Rule rule;
    std::string resource, cause;
    HazardParty first, second; // first: the earlier one
};

// Checks the rules that a single word can violate (H1, H4 to H8), and what no configuration allows:
// a missing operand, or a width or type that the operation lacks. Throws HazardError or UserError.
void check_word(const Word &word);
// Also checks what this configuration does not allow: sets that name no unit, moves that exceed a
// memory.
void check_word(const Word &word, const Config &config);

} // namespace kumiko::sim
