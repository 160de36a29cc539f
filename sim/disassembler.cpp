#include "sim/assembler.h"
#include "sim/operations.h"

#include <fmt/format.h>

namespace kumiko::sim {

namespace {

std::string repeat_text(const std::array<int16_t, 2> &r) {
    if (r[1]) return fmt::format(" ^{} ^{}", r[0], r[1]);
    return r[0] ? fmt::format(" ^{}", r[0]) : "";
}

std::string port_text(const char *name, const Port &p) {
    const PortAddress &a = p.address;
    std::string text = std::string(name) + "[";
    if (a.base) text += fmt::format("b{}+", a.base - 1);
    if (a.by_t) text += "t+";
    if (a.listed)
        text += fmt::format("{},{},{},{}", a.at[0], a.at[1], a.at[2], a.at[3]);
    else
        text += fmt::format("{}", a.at[0]) + (a.stride ? fmt::format("{:+}", a.stride) : "");
    return text + repeat_text(a.repeat) + "]";
}

std::string tree_text(const char *name, const TreeAddress &a) {
    return fmt::format("{}[{}{}]", name, a.at, repeat_text(a.repeat));
}

// {0-3,7}; empty for all.
std::string set_text(uint32_t set, uint32_t all = all_units) {
    if (set == all) return "";
    std::string text = "{";
    for (int i = 0; i < 32; i++) {
        if (!(set >> i & 1)) continue;
        int last = i;
        while (last < 31 && set >> (last + 1) & 1) last++;
        text += fmt::format("{}{}", text.size() > 1 ? "," : "", i) + (last > i ? fmt::format("-{}", last) : "");
        i = last;
    }
    return text + "}";
}

std::string source_text(const Word &w, Source s) {
    switch (s) {
    case Source::Lm0:
        return port_text("lm0", w.lm0);
    case Source::Lm1:
        return port_text("lm1", w.lm1);
    case Source::Grf0:
        return port_text("grf0", w.grf0_read);
    case Source::Grf1:
        return port_text("grf1", w.grf1_read);
    case Source::Imm:
        return fmt::format("imm({:#x})", w.immediate);
    default:
        return name_of(s);
    }
}

std::string destinations_text(const Word &w, uint8_t to, uint8_t mask = 0) {
    std::string text;
    const auto add = [&](const std::string &part) { text += (text.empty() ? " -> " : ", ") + part; };
    if (to & ToLm0) add(port_text("lm0", w.lm0));
    if (to & ToLm1) add(port_text("lm1", w.lm1));
    if (to & ToGrf0) add(port_text("grf0", w.grf0_write));
    if (to & ToGrf1) add(port_text("grf1", w.grf1_write));
    if (to & ToT) add("t");
    if (mask) add(fmt::format("mask {}", mask));
    return text;
}

std::string control_text(const Control &c) {
    std::string text;
    const auto add = [&](const std::string &part) { text += (text.empty() ? "" : " | ") + part; };
    if (c.wait) add(fmt::format("wait {}", *c.wait));
    for (const auto &r : c.repeat)
        if (r.count) add(fmt::format("rep {},{}", r.count, r.length));
    if (c.base) add(fmt::format("base b{} {} {}", *c.base, c.base_add ? "+=" : "=", c.base_value));
    if (c.end) add("end");
    return text;
}

std::string mv_text(const Mv &m) {
    std::string text = info(m.op).name;
    if (info(m.op).reduces) text += std::string(".") + name_of(m.reduction);
    const std::string memory = fmt::format("{}[{}]", m.pdm ? "pdm" : "dram", m.address),
                      l2bm = fmt::format("l2bm[{}]", m.l2bm);
    if (is_inside(m))
        text += fmt::format(" {} -> l2bm[{}], child {}", l2bm, m.to, m.child);
    else
        text += is_load(m) ? " " + memory + " -> " + l2bm : " " + l2bm + " -> " + memory;
    if (m.chip) text += ", chip";
    if (m.blocks != 1) text += fmt::format(", blocks {}", m.blocks);
    text += fmt::format(", size {}", m.size);
    if (m.stride) text += fmt::format(", stride {}", m.stride);
    if (m.indirect) text += fmt::format(", table {}", m.table);
    if (m.groups != 0xffff) text += ", groups " + set_text(m.groups);
    if (m.l2bs != all_units) text += ", l2bs " + set_text(m.l2bs);
    return text + fmt::format(", tag {}", m.tag);
}

std::string l2_text(const L2 &l) {
    const L2Info &i = info(l.op);
    std::string text = i.name;
    if (i.reduces) text += std::string(".") + name_of(l.reduction);
    const std::string l1bm = tree_text("l1bm", l.l1bm), l2bm = i.multicast() ? "" : tree_text("l2bm", l.l2bm);
    std::string from = i.up ? l1bm : l2bm;
    if (i.second == L2Second::L1bm) from = tree_text("l1bm", l.second);
    if (i.second == L2Second::L2bm) from += ", " + tree_text("l2bm", l.second);
    text += " " + from + " -> " + (i.up ? l2bm : l1bm);
    if (l.l1bs != all_units) text += " " + set_text(l.l1bs);
    if (i.child) text += fmt::format(", child {}", l.child);
    return text;
}

std::string l1_text(const Word &w) {
    const L1 &l = w.l1;
    std::string text = info(l.op).name;
    if (info(l.op).words != L1Words::Whole) text += fmt::format(".{}", l.width);
    if (info(l.op).reduces) text += std::string(".") + name_of(l.reduction);
    const std::string set = l.mabs == all_units ? "" : " " + set_text(l.mabs);
    if (is_upward(l.op)) return text + " " + source_text(w, l.from) + " -> " + tree_text("l1bm", l.at) + set;
    return text + " " + tree_text("l1bm", l.at) + set + destinations_text(w, l.to);
}

std::string mau_text(const Word &w) {
    const Mau &m = w.mau;
    const MauInfo &i = info(m.op);
    std::string text = std::string(i.name) + "." + name_of(m.precision);
    if (m.width == 2) text += ".2";
    if (m.negate) text += ".neg";
    if (m.narrow_c) text += ".hc";
    if (m.narrow_y) text += ".hy";
    std::string separator = " ";
    const auto add = [&](const std::string &part) { text += separator + part, separator = ", "; };
    if (i.matrix) add(std::string(m.face ? "y" : "x") + (m.precision == Type::F32 ? fmt::format(".{}", m.half) : ""));
    if (i.a) add(source_text(w, m.a));
    if (i.b) add(source_text(w, m.b));
    if (i.c) add(source_text(w, m.c));
    return text + destinations_text(w, m.to);
}

std::string alu_text(const Word &w) {
    const Alu &a = w.alu;
    const AluInfo &i = info(a.op);
    std::string text =
        std::string(i.name) + "." + name_of(a.type) + (a.width == 2 ? ".2" : "") + " " + source_text(w, a.a);
    if (i.operands > 1) text += ", " + source_text(w, a.b);
    if (a.op == AluOp::Rotate) text += fmt::format(", {}", a.rotate);
    return text + destinations_text(w, a.to, a.mask);
}

std::string mask_text(const Mask &m) {
    return fmt::format("mask {}{}{}",
                       m.mode == MaskMode::Zero     ? "zero "
                       : m.mode == MaskMode::Select ? "sel "
                                                    : "",
                       m.invert ? "!" : "", m.entry);
}

std::string quoted(const std::string &text) {
    std::string out = "\"";
    for (char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        if (c == '\n')
            out += "\\n";
        else if (c == '\r')
            out += "\\r";
        else
            out += c;
    }
    return out + "\"";
}

} // namespace

std::string slot_name(Slot slot) {
    constexpr const char *names[slot_count] = {"CTRL", "MV", "L2", "L1", "MW", "MAU", "MR", "ALU", "mask"};
    return names[int(slot)];
}

std::string disassemble(const Word &w, Slot slot) {
    switch (slot) {
    case Slot::Control:
        return control_text(w.control);
    case Slot::Mv:
        return w.mv.op == MvOp::None ? "" : mv_text(w.mv);
    case Slot::L2:
        return w.l2.op == L2Op::None ? "" : l2_text(w.l2);
    case Slot::L1:
        return w.l1.op == L1Op::None ? "" : l1_text(w);
    case Slot::MatrixWrite:
        return !w.mw.on ? ""
                        : fmt::format("mwrite.{}.{} {}.{}, {}", name_of(w.mw.precision), w.mw.width,
                                      w.mw.face ? "y" : "x", w.mw.part, source_text(w, w.mw.from));
    case Slot::Mau:
        return w.mau.op == MauOp::None ? "" : mau_text(w);
    case Slot::MatrixRead:
        return !w.mr.on ? ""
                        : fmt::format("mread.{}.{} {}.{}{}", name_of(w.mr.precision), w.mr.width, w.mr.face ? "y" : "x",
                                      w.mr.part, destinations_text(w, w.mr.to));
    case Slot::Alu:
        return w.alu.op == AluOp::None ? "" : alu_text(w);
    case Slot::Mask:
        return w.mask.mode == MaskMode::None ? "" : mask_text(w.mask);
    }
    return "";
}

std::string disassemble(const Word &word) {
    const Word w = canonical(word);
    std::string text;
    for (int s = 0; s < slot_count; s++) {
        const std::string part = disassemble(w, Slot(s));
        if (!part.empty()) text += (text.empty() ? "" : " | ") + part;
    }
    if (text.empty()) text = "nop";
    if (!w.note.empty()) text += " | note " + quoted(w.note);
    return text;
}

std::string disassemble(const Program &program) {
    std::string text;
    if (!program.machine.empty()) text += ".machine " + program.machine + "\n";
    // The words of a rep are indented under its first.
    std::vector<size_t> ends;
    for (size_t i = 0; i < program.words.size(); i++) {
        while (!ends.empty() && ends.back() <= i) ends.pop_back();
        text += std::string(2 * ends.size(), ' ') + disassemble(program.words[i]) + "\n";
        for (const auto &r : program.words[i].control.repeat)
            if (r.count) ends.push_back(i + r.length);
    }
    return text;
}

} // namespace kumiko::sim
