// Builds words: operands, ports, merging.
#include "sim/isa.h"

#include "sim/operations.h"
#include "support/half.h"

#include <fmt/format.h>

#include <cstring>

namespace kumiko::sim {

namespace {

int16_t signed16(int value, const char *what) {
    if (value < INT16_MIN || value > INT16_MAX)
        throw UserError(fmt::format("{} {} does not fit into 16 bits with a sign", what, value));
    return int16_t(value);
}

uint16_t unsigned16(int value, const char *what) {
    if (value < 0 || value > UINT16_MAX) throw UserError(fmt::format("{} {} is not in 0..65535", what, value));
    return uint16_t(value);
}

Operand in_memory(Source memory, int start, int stride, std::array<int, 2> repeat) {
    Operand o{memory};
    o.address.at[0] = unsigned16(start, "address");
    o.address.stride = signed16(stride, "stride");
    for (int i = 0; i < 2; i++) o.address.repeat[i] = signed16(repeat[i], "REP stride");
    return o;
}

HazardParty party(const Word &word, const std::string &text) { return {-1, -1, text, word.note}; }

struct PortName {
    Port Word::*port;
    const char *name;
};

} // namespace

Operand lm0(int start, int stride, std::array<int, 2> repeat) { return in_memory(Source::Lm0, start, stride, repeat); }
Operand lm1(int start, int stride, std::array<int, 2> repeat) { return in_memory(Source::Lm1, start, stride, repeat); }
Operand grf0(int start, int stride, std::array<int, 2> repeat) {
    return in_memory(Source::Grf0, start, stride, repeat);
}
Operand grf1(int start, int stride, std::array<int, 2> repeat) {
    return in_memory(Source::Grf1, start, stride, repeat);
}

Operand listed(Source memory, std::array<int, 4> at, std::array<int, 2> repeat) {
    Operand o = in_memory(memory, at[0], 0, repeat);
    o.address.listed = true;
    for (int t = 0; t < 4; t++) o.address.at[t] = unsigned16(at[t], "address");
    return o;
}

Operand lm0_by_t(int start, int stride, std::array<int, 2> repeat) {
    Operand o = lm0(start, stride, repeat);
    o.address.by_t = true;
    return o;
}

Operand with_base(Operand operand, int base) {
    if (base < 0 || base > 3) throw UserError(fmt::format("there is no base register b{}; there are b0 to b3", base));
    operand.address.base = uint8_t(base + 1);
    return operand;
}

Operand t_register() { return {Source::T}; }
Operand aluf() { return {Source::Aluf}; }
Operand mauf() { return {Source::Mauf}; }
Operand lbf() { return {Source::Lbf}; }
Operand mreadf() { return {Source::Mreadf}; }
Operand unit_id() { return {Source::Id}; }

Operand immediate(uint64_t bits) {
    Operand o{Source::Imm};
    o.immediate = bits;
    return o;
}
Operand immediate_i32(int32_t value) { return immediate(uint64_t(uint32_t(value)) * 0x100000001); }
Operand immediate_i16(int16_t value) { return immediate(uint64_t(uint16_t(value)) * 0x1000100010001); }
Operand immediate_f16(float value) { return immediate(uint64_t(half_from_float(value)) * 0x1000100010001); }
Operand immediate_f32(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return immediate(uint64_t(bits) * 0x100000001);
}

Source Word::read(const Operand &operand) {
    const auto clash = [&](Rule rule, const std::string &resource, const std::string &cause) {
        throw HazardError(rule, resource, cause, party(*this, "the word so far"), party(*this, "the operand added"));
    };
    const auto use = [&](Port &port, const char *name) {
        if (port.on && !(port.address == operand.address))
            clash(Rule::H5, fmt::format("the read port of {}", name), "it serves one address pattern a step");
        port = {true, operand.address};
    };
    const auto use_lm = [&](Port &port, uint8_t to, const char *name) {
        if ((l1.to | mau.to | mr.to | alu.to) & to)
            clash(Rule::H1, fmt::format("the port of {}", name),
                  "it is written in this word, and can be read or written");
        use(port, name);
    };
    switch (operand.source) {
    case Source::Lm0:
        if (has_immediate) clash(Rule::H7, "the field of LM0", "an immediate is encoded in LM0's field of the word");
        use_lm(lm0, ToLm0, "LM0");
        break;
    case Source::Lm1:
        use_lm(lm1, ToLm1, "LM1");
        break;
    case Source::Grf0:
        use(grf0_read, "GRF0");
        break;
    case Source::Grf1:
        use(grf1_read, "GRF1");
        break;
    case Source::Imm:
        if (lm0.on) clash(Rule::H7, "the field of LM0", "an immediate is encoded in LM0's field of the word");
        if (has_immediate && immediate != operand.immediate)
            clash(Rule::H7, "the immediate", "a word has one, which all slots share");
        has_immediate = true;
        immediate = operand.immediate;
        break;
    default:
        break;
    }
    return operand.source;
}

uint8_t Word::write(std::initializer_list<Operand> operands) { return write(operands.begin(), operands.size()); }

uint8_t Word::write(const Operand *begin, size_t count) {
    uint8_t set = 0;
    for (const Operand *o = begin; o != begin + count; o++) {
        const auto use = [&](Port &port, const char *name, uint8_t to, bool one_port) {
            const auto clash = [&](const char *cause) {
                throw HazardError(Rule::H1, fmt::format("the {}port of {}", one_port ? "" : "write ", name), cause,
                                  party(*this, "the word so far"), party(*this, "the destination added"));
            };
            if (port.on)
                clash(one_port ? "it is in use in this word, and is accessed once a step"
                               : "it is in use in this word");
            port = {true, o->address};
            set |= to;
        };
        switch (o->source) {
        case Source::Lm0:
            if (has_immediate)
                throw HazardError(Rule::H7, "the field of LM0", "an immediate is encoded in LM0's field of the word",
                                  party(*this, "the word so far"), party(*this, "the destination added"));
            use(lm0, "LM0", ToLm0, true);
            break;
        case Source::Lm1:
            use(lm1, "LM1", ToLm1, true);
            break;
        case Source::Grf0:
            use(grf0_write, "GRF0", ToGrf0, false);
            break;
        case Source::Grf1:
            use(grf1_write, "GRF1", ToGrf1, false);
            break;
        case Source::T:
            set |= ToT;
            break;
        default:
            throw UserError(fmt::format("{} cannot be written; lm0, lm1, grf0, grf1 and t can", name_of(o->source)));
        }
    }
    return set;
}

bool Word::same_code(const Word &o) const {
    return control == o.control && l2 == o.l2 && l1 == o.l1 && mau == o.mau && mw == o.mw && mr == o.mr &&
           alu == o.alu && mask == o.mask && mv == o.mv && lm0 == o.lm0 && lm1 == o.lm1 && grf0_read == o.grf0_read &&
           grf0_write == o.grf0_write && grf1_read == o.grf1_read && grf1_write == o.grf1_write &&
           has_immediate == o.has_immediate && immediate == o.immediate;
}

bool Word::empty() const {
    return control == Control{} && l2.op == L2Op::None && l1.op == L1Op::None && mau.op == MauOp::None && !mw.on &&
           !mr.on && alu.op == AluOp::None && mv.op == MvOp::None;
}

std::optional<std::string> merge(Word &into, const Word &from) {
    const auto both = [](bool a, bool b) { return a && b; };
    if (both(into.l2.op != L2Op::None, from.l2.op != L2Op::None)) return "H4: the L2 slot";
    if (both(into.l1.op != L1Op::None, from.l1.op != L1Op::None)) return "H4: the L1 slot";
    if (both(into.mau.op != MauOp::None, from.mau.op != MauOp::None)) return "H4: the MAU slot";
    if (both(into.mw.on, from.mw.on)) return "H4: the MW slot";
    if (both(into.mr.on, from.mr.on)) return "H4: the MR slot";
    if (both(into.alu.op != AluOp::None, from.alu.op != AluOp::None)) return "H4: the ALU slot";
    if (both(into.mv.op != MvOp::None, from.mv.op != MvOp::None)) return "H4: the MV slot";
    if (both(!(into.control == Control{}), !(from.control == Control{}))) return "the control fields";

    Word w = into;
    if (from.l2.op != L2Op::None) w.l2 = from.l2;
    if (from.l1.op != L1Op::None) w.l1 = from.l1;
    if (from.mau.op != MauOp::None) w.mau = from.mau;
    if (from.mw.on) w.mw = from.mw;
    if (from.mr.on) w.mr = from.mr;
    if (from.alu.op != AluOp::None) w.alu = from.alu;
    if (from.mv.op != MvOp::None) w.mv = from.mv;
    if (!(from.control == Control{})) w.control = from.control;

    const bool mau_mw = w.mau.op != MauOp::None && w.mw.on;
    if (mau_mw && w.mr.on) return "H4: MAU, MW and MR in one word";
    if (mau_mw && w.mau.precision != w.mw.precision) return "H4: MAU and MW of different precision";
    const bool matrix = w.mau.op == MauOp::Mfma || w.mau.op == MauOp::Mmul;
    if (w.mw.on && ((matrix && w.mau.face == w.mw.face) || (w.mr.on && w.mr.face == w.mw.face)))
        return "H6: a face read and written";

    const auto unit_masked = [](const Word &x) {
        return x.mask.mode != MaskMode::None && (x.mau.op != MauOp::None || x.alu.op != AluOp::None);
    };
    const auto unit_plain = [](const Word &x) {
        return x.mask.mode == MaskMode::None && (x.mau.op != MauOp::None || x.alu.op != AluOp::None);
    };
    if (both(unit_masked(into), unit_masked(from)) && !(into.mask == from.mask)) return "H8: the mask entry";
    // The mask of a select selects its operand and does not control other results.
    const auto chooses = [](const Word &x) { return x.mask.mode == MaskMode::Select; };
    if ((both(unit_masked(into), unit_plain(from)) && !chooses(into)) ||
        (both(unit_plain(into), unit_masked(from)) && !chooses(from)))
        return "H8: a mask governs both ALU and MAU";
    if (from.mask.mode != MaskMode::None) w.mask = from.mask;
    if (w.mask.mode != MaskMode::None && !chooses(w) && w.mau.op != MauOp::None && w.alu.op != AluOp::None &&
        (mask_form(w.mau) == MaskForm::Pairs) != (mask_form(w.alu) == MaskForm::Pairs))
        return "H8: lanes of different width";

    const auto writes = [](const Word &x) { return uint8_t(x.l1.to | x.mau.to | x.mr.to | x.alu.to); };
    if (writes(into) & writes(from) & ToT) return "H1: the write port of T";
    for (const auto &[port, name] : {PortName{&Word::grf0_write, "GRF0"}, {&Word::grf1_write, "GRF1"}}) {
        if (both((into.*port).on, (from.*port).on)) return fmt::format("H1: the write port of {}", name);
        if ((from.*port).on) w.*port = from.*port;
    }
    for (const auto &[port, name] : {PortName{&Word::grf0_read, "GRF0"}, {&Word::grf1_read, "GRF1"}}) {
        if (both((into.*port).on, (from.*port).on) && !(into.*port == from.*port))
            return fmt::format("H5: the read port of {}", name);
        if ((from.*port).on) w.*port = from.*port;
    }
    const struct {
        Port Word::*port;
        uint8_t to;
        const char *name;
    } lms[] = {{&Word::lm0, ToLm0, "LM0"}, {&Word::lm1, ToLm1, "LM1"}};
    for (const auto &[port, to, name] : lms) {
        if (both((into.*port).on, (from.*port).on)) {
            if ((writes(into) | writes(from)) & to) return fmt::format("H1: the port of {}", name);
            if (!(into.*port == from.*port)) return fmt::format("H5: the read port of {}", name);
        }
        if ((from.*port).on) w.*port = from.*port;
    }
    if (both(into.has_immediate, from.has_immediate) && into.immediate != from.immediate) return "H7: the immediate";
    if (from.has_immediate) w.has_immediate = true, w.immediate = from.immediate;
    if (w.has_immediate && w.lm0.on) return "H7: an immediate takes LM0's place";
    if (!from.note.empty()) w.note += (w.note.empty() ? "" : "; ") + from.note;
    into = std::move(w);
    return std::nullopt;
}

HazardError::HazardError(Rule r, const std::string &what, const std::string &why, HazardParty a, HazardParty b,
                         const std::string &where)
    : UserError([&] {
          const auto describe = [](const HazardParty &p) {
              std::string text = p.text;
              if (p.step >= 0)
                  text = fmt::format("step {}, word {}: {}", p.step, p.word, text);
              else if (p.word >= 0)
                  text = fmt::format("word {}: {}", p.word, text);
              if (!p.note.empty()) text += " (" + p.note + ")";
              return text;
          };
          return fmt::format("{}H{}: {}: {}\n  {}\n  {}", where, int(r), what, why, describe(a), describe(b));
      }()),
      rule(r), resource(what), cause(why), first(std::move(a)), second(std::move(b)) {}

} // namespace kumiko::sim
