// Checks a word by itself.
#include "sim/accesses.h"
#include "sim/assembler.h"
#include "sim/operations.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace kumiko::sim {

namespace {

class WordCheck {
public:
    explicit WordCheck(const Word &word) : w(word) {}

    void run() {
        control();
        ports();
        l2();
        l1();
        mau();
        matrix();
        alu();
        mask();
        mv();
        shared();
    }

private:
    const Word &w;

    [[noreturn]] void fail(Slot slot, const std::string &message) const {
        throw UserError(
            fmt::format("{}: {}{}", disassemble(w, slot), message, w.note.empty() ? "" : " (" + w.note + ")"));
    }
    [[noreturn]] void hazard(Rule rule, const std::string &resource, const std::string &cause, Slot a, Slot b) const {
        throw HazardError(rule, resource, cause, {-1, -1, disassemble(w, a), w.note},
                          {-1, -1, disassemble(w, b), w.note});
    }
    template<typename T>
    void within(Slot slot, T value, int low, int high, const char *what) const {
        if (int64_t(value) < low || int64_t(value) > high)
            fail(slot, fmt::format("{} {} is not in {}..{}", what, int64_t(value), low, high));
    }

    void operand(Slot slot, Source s, const char *name) const {
        if (s == Source::None) fail(slot, fmt::format("operand {} is missing", name));
        within(slot, int(s), 1, source_count - 1, "source");
        const bool on = s == Source::Lm0    ? w.lm0.on
                        : s == Source::Lm1  ? w.lm1.on
                        : s == Source::Grf0 ? w.grf0_read.on
                        : s == Source::Grf1 ? w.grf1_read.on
                        : s == Source::Imm  ? w.has_immediate
                                            : true;
        if (!on) fail(slot, fmt::format("operand {} is {}, whose port has no address in this word", name, name_of(s)));
    }
    void destinations(Slot slot, uint8_t to) const {
        within(slot, to, 0, 31, "set of destinations");
        if ((to & ToLm0 && !w.lm0.on) || (to & ToLm1 && !w.lm1.on) || (to & ToGrf0 && !w.grf0_write.on) ||
            (to & ToGrf1 && !w.grf1_write.on))
            fail(slot, "a destination's port has no address in this word");
    }

    void control() const {
        const Control &c = w.control;
        if (c.wait) within(Slot::Control, *c.wait, 0, 15, "tag");
        if (c.base) within(Slot::Control, *c.base, 0, 3, "base register");
        for (const auto &r : c.repeat)
            if (r.count && r.length == 0) fail(Slot::Control, "a rep needs at least one word");
        if (c.repeat[1].count && c.repeat[0].count && c.repeat[1].length > c.repeat[0].length)
            fail(Slot::Control, fmt::format("the inner rep has {} words, but the outer only {}", c.repeat[1].length,
                                            c.repeat[0].length));
    }
    void ports() const {
        for (const Port *p : {&w.lm0, &w.lm1, &w.grf0_read, &w.grf0_write, &w.grf1_read, &w.grf1_write}) {
            if (!p->on) continue;
            if (p->address.base > 4) throw UserError("there is no base register beyond b3");
            const bool lm = p == &w.lm0 || p == &w.lm1;
            if (p->address.base && !lm) throw UserError("base registers add to addresses of LM0 and LM1 only");
            if (p->address.by_t && p != &w.lm0) throw UserError("only LM0 can be addressed by T");
            if (p->address.by_t && p->address.listed)
                throw UserError("an address by T is a start and a stride, not a list");
        }
    }
    void l2() const {
        if (w.l2.op == L2Op::None) return;
        within(Slot::L2, w.l2.op, 0, l2_op_count - 1, "operation");
        within(Slot::L2, w.l2.reduction, 0, reduction_count - 1, "reduction");
    }
    void l1() const {
        if (w.l1.op == L1Op::None) return;
        within(Slot::L1, w.l1.op, 0, l1_op_count - 1, "operation");
        within(Slot::L1, w.l1.reduction, 0, reduction_count - 1, "reduction");
        within(Slot::L1, w.l1.width, 1, info(w.l1.op).words == L1Words::Whole ? 1 : 2, "width");
        if (is_upward(w.l1.op)) {
            operand(Slot::L1, w.l1.from, "source");
            if (w.l1.to) fail(Slot::L1, "it goes to L1BM, and has no other destination");
        } else {
            if (w.l1.from != Source::None) fail(Slot::L1, "it comes from L1BM, and has no other source");
            destinations(Slot::L1, w.l1.to);
        }
    }
    void mau() const {
        const Mau &m = w.mau;
        if (m.op == MauOp::None) return;
        within(Slot::Mau, m.op, 0, mau_op_count - 1, "operation");
        if (m.precision != Type::F16 && m.precision != Type::F32) fail(Slot::Mau, "the precision is f16 or f32");
        within(Slot::Mau, m.face, 0, 1, "face");
        within(Slot::Mau, m.half, 0, 1, "half");
        within(Slot::Mau, m.width, 1, m.op == MauOp::Pass ? 2 : 1, "width");
        if (m.precision == Type::F32 && (m.narrow_c || m.narrow_y))
            fail(Slot::Mau, "f32 has no narrow operands or results");
        if (m.op == MauOp::Pass && m.narrow_y && m.width != 2) fail(Slot::Mau, "only two LW can be narrowed to one");
        const MauInfo &i = info(m.op);
        if (i.a) operand(Slot::Mau, m.a, "a");
        if (i.b) operand(Slot::Mau, m.b, "b");
        if (i.c) operand(Slot::Mau, m.c, "c");
        destinations(Slot::Mau, m.to);
    }
    template<typename M>
    void face_access(Slot slot, const M &m) const {
        if (m.precision != Type::F16 && m.precision != Type::F32) fail(slot, "the precision is f16 or f32");
        within(slot, m.face, 0, 1, "face");
        within(slot, m.width, 1, 2, "width");
        within(slot, m.part, 0, face_parts(m.precision, m.width) - 1, "part");
    }
    void matrix() const {
        if (w.mw.on) {
            face_access(Slot::MatrixWrite, w.mw);
            operand(Slot::MatrixWrite, w.mw.from, "source");
        }
        if (w.mr.on) {
            face_access(Slot::MatrixRead, w.mr);
            destinations(Slot::MatrixRead, w.mr.to);
        }
    }
    void alu() const {
        const Alu &a = w.alu;
        if (a.op == AluOp::None) return;
        within(Slot::Alu, a.op, 0, alu_op_count - 1, "operation");
        within(Slot::Alu, a.type, 0, type_count - 1, "type");
        const AluInfo &i = info(a.op);
        if (!(i.types >> int(a.type) & 1)) {
            std::string legal;
            for (int t = 0; t < type_count; t++)
                if (i.types >> t & 1) legal += std::string(legal.empty() ? "" : ", ") + name_of(Type(t));
            fail(Slot::Alu, fmt::format("{} does not take {}; it takes {}", i.name, name_of(a.type), legal));
        }
        within(Slot::Alu, a.width, 1, i.max_width, "width");
        within(Slot::Alu, a.rotate, 0, 3, "rotation");
        within(Slot::Alu, a.mask, 0, 15, "mask entry to write");
        if (a.mask && i.result != AluResult::Mask && a.op != AluOp::SetMask)
            fail(Slot::Alu, "only comparisons and setmask write a mask entry");
        operand(Slot::Alu, a.a, "a");
        if (i.operands > 1) operand(Slot::Alu, a.b, "b");
        if (a.op == AluOp::SetMask) {
            if (a.a != Source::Imm) fail(Slot::Alu, "its operand is an immediate");
            if (!a.mask) fail(Slot::Alu, "it needs a mask entry to write, 1..15");
            if (a.to) fail(Slot::Alu, "it writes a mask entry and nothing else");
        }
        destinations(Slot::Alu, a.to);
    }
    void mask() const {
        const bool select = w.alu.op == AluOp::Select;
        if (select != (w.mask.mode == MaskMode::Select)) {
            if (select) fail(Slot::Alu, "select needs `mask sel N` in its word");
            fail(Slot::Mask, "`mask sel` is for select, which is not in this word");
        }
        if (w.mask.mode == MaskMode::None) return;
        within(Slot::Mask, w.mask.entry, 0, 19, "mask entry");
        within(Slot::Mask, int(w.mask.mode), 0, 3, "mask mode");
        const bool mau = w.mau.op != MauOp::None, alu = w.alu.op != AluOp::None;
        if (!mau && !alu) fail(Slot::Mask, "a mask controls ALU and MAU, and neither is in this word");
        if (mau && alu && !select && (mask_form(w.mau) == MaskForm::Pairs) != (mask_form(w.alu) == MaskForm::Pairs))
            hazard(Rule::H8, "the mask", "ALU and MAU under one mask must have lanes of the same width", Slot::Mau,
                   Slot::Alu);
    }
    void mv() const {
        const Mv &m = w.mv;
        if (m.op == MvOp::None) return;
        within(Slot::Mv, m.op, 0, mv_op_count - 1, "operation");
        within(Slot::Mv, m.reduction, 0, reduction_count - 1, "reduction");
        within(Slot::Mv, m.tag, 0, 15, "tag");
        within(Slot::Mv, m.blocks, 1, 65535, "blocks");
        within(Slot::Mv, m.size, 1, 65535, "size");
        if (m.indirect && m.pdm) fail(Slot::Mv, "only moves of DRAM can be indirect");
    }

    // Rules between the slots of the word.
    void shared() const {
        struct User {
            Slot slot;
            uint8_t to = 0;
            uint32_t from = 0; // bit Source
        };
        User users[] = {{Slot::L1}, {Slot::MatrixWrite}, {Slot::Mau}, {Slot::MatrixRead}, {Slot::Alu}};
        const auto user = [&](Slot slot) -> User & {
            return *std::find_if(std::begin(users), std::end(users), [&](const User &u) { return u.slot == slot; });
        };
        const auto bit = [](Source s) { return 1u << int(s); };
        each_read(w, [&](Slot slot, Source s, int) { user(slot).from |= bit(s); });
        each_write(w, [&](Slot slot, uint8_t to, int) { user(slot).to |= to; });
        constexpr const char *written[] = {"the port of LM0", "the port of LM1", "the write port of GRF0",
                                           "the write port of GRF1", "the write port of T"};
        for (const User &a : users) {
            for (const User &b : users) {
                if (&a < &b && (a.to & b.to))
                    hazard(Rule::H1, written[std::countr_zero(unsigned(a.to & b.to))], "it serves one slot a step",
                           a.slot, b.slot);
                for (const auto &[to, source, name] :
                     {std::tuple{ToLm0, Source::Lm0, "LM0"}, {ToLm1, Source::Lm1, "LM1"}})
                    if (a.to & to && b.from & bit(source))
                        hazard(Rule::H1, fmt::format("the port of {}", name),
                               "it is accessed once a step, read or written", b.slot, a.slot);
                const auto uses_lm0 = [&](const User &u) { return u.from & bit(Source::Lm0) || u.to & ToLm0; };
                if (a.from & bit(Source::Imm) && uses_lm0(b))
                    hazard(Rule::H7, "the field of LM0", "an immediate is encoded in LM0's field of the word", a.slot,
                           b.slot);
                if (&a < &b && w.lm0.address.by_t && uses_lm0(a) && uses_lm0(b))
                    hazard(Rule::H5, "the port of LM0", "a port that is addressed by T cannot be shared", a.slot,
                           b.slot);
            }
        }
        const bool mau = w.mau.op != MauOp::None, matrix = info(w.mau.op).matrix;
        if (mau && w.mw.on && w.mr.on)
            hazard(Rule::H4, "MAU, MW, MR", "at most two of them work in a step", Slot::Mau, Slot::MatrixRead);
        if (mau && w.mw.on && w.mau.precision != w.mw.precision)
            hazard(Rule::H4, "the matrix unit's precision", "MAU and MW must have the same precision in a step",
                   Slot::Mau, Slot::MatrixWrite);
        if (w.mw.on && matrix && w.mw.face == w.mau.face)
            hazard(Rule::H6, w.mw.face ? "face y" : "face x", "a face cannot be read and written in one step",
                   Slot::Mau, Slot::MatrixWrite);
        if (w.mw.on && w.mr.on && w.mw.face == w.mr.face)
            hazard(Rule::H6, w.mw.face ? "face y" : "face x", "a face cannot be read and written in one step",
                   Slot::MatrixRead, Slot::MatrixWrite);
    }
};

} // namespace

void check_word(const Word &word) { WordCheck(word).run(); }

} // namespace kumiko::sim
