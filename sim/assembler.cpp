// Assembles text to words. A cursor moves along a line; any syntax error is reported with its
// position.
//
// One file, because it is one class: the parser of a word, with a method for each operation.
#include "sim/assembler.h"

#include "sim/line.h"
#include "sim/operations.h"
#include "support/names.h"

#include <fmt/format.h>

#include <charconv>
#include <map>

namespace kumiko::sim {

namespace {

// A mnemonic's parts: "mfma", then its modifiers.
struct Mnemonic {
    size_t at;
    std::string full, name;
    std::vector<std::string> parts;
};

template<typename Op, typename Table>
std::map<std::string, Op> names_of(int count, Table table) {
    std::map<std::string, Op> names;
    for (int i = 1; i < count; i++) names[table(Op(i))] = Op(i);
    return names;
}

struct Names {
    std::map<std::string, AluOp> alu = names_of<AluOp>(alu_op_count, [](AluOp op) { return info(op).name; });
    std::map<std::string, MauOp> mau = names_of<MauOp>(mau_op_count, [](MauOp op) { return info(op).name; });
    std::map<std::string, L1Op> l1 = names_of<L1Op>(l1_op_count, [](L1Op op) { return info(op).name; });
    std::map<std::string, L2Op> l2 = names_of<L2Op>(l2_op_count, [](L2Op op) { return info(op).name; });
    std::map<std::string, MvOp> mv = names_of<MvOp>(mv_op_count, [](MvOp op) { return info(op).name; });
    std::map<std::string, Source> forwards = {{"t", Source::T},     {"aluf", Source::Aluf},     {"mauf", Source::Mauf},
                                              {"lbf", Source::Lbf}, {"mreadf", Source::Mreadf}, {"id", Source::Id}};
    std::map<std::string, Source> memories = {
        {"lm0", Source::Lm0}, {"lm1", Source::Lm1}, {"grf0", Source::Grf0}, {"grf1", Source::Grf1}};

    std::vector<std::string> mnemonics() const {
        std::vector<std::string> all = {"nop", "wait", "rep", "base", "end", "mask", "note", "mwrite", "mread"};
        const auto add = [&](const auto &names) {
            for (const auto &[name, op] : names) all.push_back(name);
        };
        add(alu), add(mau), add(l1), add(l2), add(mv);
        return all;
    }
};

const Names &names() {
    static const Names all;
    return all;
}

class WordParser {
public:
    WordParser(std::string_view text, const std::string &where) : line_(text, where) {}

    Word parse() {
        do slot();
        while (line_.take('|'));
        if (!line_.done()) line_.fail("expected '|' or the end of the line, found " + line_.found());
        try {
            check_word(word_);
        } catch (const HazardError &e) {
            throw HazardError(e.rule, e.resource, e.cause, e.first, e.second, line_.place(0));
        } catch (const UserError &e) {
            line_.fail_at(0, e.what());
        }
        return std::move(word_);
    }
    bool blank() const { return line_.done(); }

private:
    Line line_;
    Word word_;
    std::map<std::string, std::string> slots_; // text of the slots so far
    std::map<std::string, std::string> users_; // who uses a resource (as HazardError names it)
    std::string user_;                         // the slot being read: its mnemonic,
    size_t slot_begin_ = 0;                    // and where it begins

    // ---- pieces ----

    Mnemonic mnemonic() {
        Mnemonic m{line_.at(), line_.word(), "", {}};
        if (m.full.empty()) line_.fail("expected an operation, found " + line_.found());
        size_t begin = 0;
        std::vector<std::string> all;
        for (;;) {
            const size_t dot = m.full.find('.', begin);
            all.push_back(m.full.substr(begin, dot - begin));
            if (dot == std::string::npos) break;
            begin = dot + 1;
        }
        // The prefixes l1., l2. and mv. belong to the name.
        const bool prefixed = all.size() > 1 && (all[0] == "l1" || all[0] == "l2" || all[0] == "mv");
        m.name = prefixed ? all[0] + "." + all[1] : all[0];
        m.parts.assign(all.begin() + (prefixed ? 2 : 1), all.end());
        return m;
    }
    [[noreturn]] void bad_part(const Mnemonic &m, const std::string &part, const std::string &legal) {
        line_.fail_at(m.at, fmt::format("'{}' is not legal after {}; {}", part, m.name, legal));
    }
    // Removes `part` from the modifiers, if present.
    static bool take_part(Mnemonic &m, const std::string &part) {
        const auto it = std::find(m.parts.begin(), m.parts.end(), part);
        if (it == m.parts.end()) return false;
        m.parts.erase(it);
        return true;
    }
    void no_more_parts(const Mnemonic &m, const std::string &legal) {
        if (!m.parts.empty()) bad_part(m, m.parts[0], legal);
    }
    Type take_type(Mnemonic &m, const std::string &legal) {
        for (int t = 0; t < type_count; t++)
            if (take_part(m, name_of(Type(t)))) return Type(t);
        line_.fail_at(m.at, fmt::format("{} needs a type after it: {}", m.name, legal));
    }
    Reduction take_reduction(Mnemonic &m) {
        for (int r = 0; r < reduction_count; r++) {
            const std::string name = name_of(Reduction(r));
            const size_t dot = name.find('.');
            const auto has = [&](const std::string &part) {
                return std::find(m.parts.begin(), m.parts.end(), part) != m.parts.end();
            };
            if (has(name.substr(0, dot)) && has(name.substr(dot + 1))) {
                take_part(m, name.substr(0, dot)), take_part(m, name.substr(dot + 1));
                return Reduction(r);
            }
        }
        line_.fail_at(m.at,
                      m.name + " needs a reduction after it: add.f32, max.f32, min.f32, add.i32, max.i32 or min.i32");
    }
    uint8_t take_width(Mnemonic &m, uint8_t otherwise) {
        if (take_part(m, "1")) return 1;
        if (take_part(m, "2")) return 2;
        return otherwise;
    }

    std::array<int16_t, 2> repeat() {
        std::array<int16_t, 2> r{};
        for (int i = 0; i < 2 && line_.take('^'); i++)
            r[i] = int16_t(line_.number(INT16_MIN, INT16_MAX, "a REP stride"));
        return r;
    }

    // The address after "lm0[".
    PortAddress port_address() {
        PortAddress a;
        if (line_.next_is('b')) {
            line_.take('b');
            a.base = uint8_t(line_.number(0, 3, "a base register's number") + 1);
            line_.expect("+", "after the base register");
        }
        if (line_.take('t')) {
            a.by_t = true;
            line_.expect("+", "behind t");
        }
        a.at[0] = uint16_t(line_.number(0, UINT16_MAX, "an address"));
        if (line_.take(',')) {
            a.listed = true;
            for (int t = 1; t < 4; t++) {
                if (t > 1) line_.expect(",", "between the four addresses");
                a.at[t] = uint16_t(line_.number(0, UINT16_MAX, "an address"));
            }
        } else if (line_.next_is('+') || line_.next_is('-')) {
            a.stride = int16_t(line_.number(INT16_MIN, INT16_MAX, "a stride"));
        }
        a.repeat = repeat();
        line_.expect("]", "behind the address");
        return a;
    }

    TreeAddress tree_address(const char *memory) {
        line_.expect(memory, "here");
        line_.expect("[", "with an address");
        TreeAddress a;
        a.at = uint16_t(line_.number(0, UINT16_MAX, "an address"));
        a.repeat = repeat();
        line_.expect("]", "behind the address");
        return a;
    }

    // {0-3,7}, or everything if there is no brace.
    uint32_t set(int count) {
        if (!line_.take('{')) return all_units;
        uint32_t bits = 0;
        do {
            const int64_t first = line_.number(0, count - 1, "a unit's number");
            const int64_t last = line_.take('-') ? line_.number(first, count - 1, "the last unit of a range") : first;
            for (int64_t i = first; i <= last; i++) bits |= 1u << i;
        } while (line_.take(','));
        line_.expect("}", "behind the set");
        return bits;
    }

    uint64_t immediate() {
        const size_t begin = line_.at();
        const std::string text = line_.until(')', "behind the immediate");
        const char *first = text.data(), *last = first + text.size();
        const auto whole = [&](const char *end) { return end == last; };
        if (text.starts_with("0x")) {
            uint64_t bits = 0;
            const auto [end, error] = std::from_chars(first + 2, last, bits, 16);
            if (error == std::errc() && whole(end)) return bits;
        } else if (!text.empty() && (text.back() == 'i' || text.back() == 's')) {
            int64_t value = 0;
            const auto [end, error] = std::from_chars(first, last, value);
            const bool word = text.back() == 'i';
            if (error == std::errc() && whole(end + 1) && value >= (word ? INT32_MIN : INT16_MIN) &&
                value <= (word ? INT64_C(0xffffffff) : 0xffff))
                return word ? uint64_t(uint32_t(value)) * 0x100000001 : uint64_t(uint16_t(value)) * 0x1000100010001;
        } else if (!text.empty() && (text.back() == 'f' || text.back() == 'h')) {
            float value = 0;
            const auto [end, error] = std::from_chars(first, last, value);
            if (error == std::errc() && whole(end + 1))
                return text.back() == 'f' ? sim::immediate_f32(value).immediate : sim::immediate_f16(value).immediate;
        }
        line_.fail_at(begin,
                      "an immediate is 0x… (64 bits), or a number with its type after it: 1.5f (fp32), 1.5h (fp16), 7i "
                      "(int32), 7s (int16); found '" +
                          text + "'");
    }

    Operand operand() {
        const size_t begin = line_.at();
        const std::string name = line_.word();
        if (name == "imm") {
            line_.expect("(", "behind imm");
            return sim::immediate(immediate());
        }
        if (const auto it = names().memories.find(name); it != names().memories.end()) {
            line_.expect("[", "with an address");
            Operand o{it->second};
            o.address = port_address();
            return o;
        }
        if (const auto it = names().forwards.find(name); it != names().forwards.end()) return {it->second};
        std::vector<std::string> all = {"imm"};
        for (const auto &[n, s] : names().memories) all.push_back(n);
        for (const auto &[n, s] : names().forwards) all.push_back(n);
        line_.fail_at(begin, name.empty() ? "expected an operand, found " + line_.found()
                                          : "there is no operand '" + name + "'" + suggest(name, all));
    }

    // Replaces "the word so far" in a hazard by the names of the slots.
    template<typename F>
    auto with_parties(size_t begin, F &&f) {
        try {
            return f();
        } catch (const HazardError &e) {
            const auto user = users_.find(e.resource);
            const std::string here(line_.whole(slot_begin_));
            const std::string first = user == users_.end() || user->second == user_ ? here : user->second;
            throw HazardError(e.rule, e.resource, e.cause, {-1, -1, first, ""}, {-1, -1, here, ""}, line_.place(begin));
        } catch (const UserError &e) {
            line_.fail_at(begin, e.what());
        }
    }
    void remember(Source s, bool written) {
        const auto add = [&](const char *resource) { users_.emplace(resource, user_); };
        switch (s) {
        case Source::Lm0:
            add("the port of LM0"), add("the read port of LM0"), add("the field of LM0");
            break;
        case Source::Lm1:
            add("the port of LM1"), add("the read port of LM1");
            break;
        case Source::Grf0:
            add(written ? "the write port of GRF0" : "the read port of GRF0");
            break;
        case Source::Grf1:
            add(written ? "the write port of GRF1" : "the read port of GRF1");
            break;
        case Source::Imm:
            add("the immediate"), add("the field of LM0");
            break;
        default:
            break;
        }
    }
    Source read() {
        const size_t begin = line_.at();
        const Operand o = operand();
        const Source s = with_parties(begin, [&] { return word_.read(o); });
        remember(s, false);
        return s;
    }
    void comma() { line_.expect(",", "before the next operand"); }

    // "-> lm0[0+1], t, mask 3". Each is encoded in `to` at once, so that later operands of the word
    // are checked against it.
    void destinations(uint8_t &to, uint8_t *mask = nullptr) {
        if (!line_.take("->")) return;
        do {
            const size_t begin = line_.at();
            if (mask && line_.take("mask ")) {
                *mask = uint8_t(line_.number(1, 15, "a mask entry that can be written"));
                continue;
            }
            const Operand o = operand();
            const uint8_t added = with_parties(begin, [&] { return word_.write(&o, 1); });
            if (to & added) line_.fail_at(begin, "it is written twice");
            to |= added;
            remember(o.source, true);
        } while (line_.take(','));
    }

    // ---- slots ----

    void slot() {
        const size_t begin = line_.at();
        const Mnemonic m = mnemonic();
        user_ = m.full;
        slot_begin_ = begin;
        const Names &n = names();
        std::string kind;
        if (n.alu.count(m.name))
            kind = "ALU";
        else if (n.mau.count(m.name))
            kind = "MAU";
        else if (n.l1.count(m.name))
            kind = "L1";
        else if (n.l2.count(m.name))
            kind = "L2";
        else if (n.mv.count(m.name))
            kind = "MV";
        else if (m.name == "mwrite")
            kind = "MW";
        else if (m.name == "mread")
            kind = "MR";
        else if (m.name == "mask" || m.name == "wait" || m.name == "base" || m.name == "end" || m.name == "note" ||
                 m.name == "nop")
            kind = m.name;
        else if (m.name != "rep")
            line_.fail_at(begin, "there is no operation '" + m.name + "'" + suggest(m.name, n.mnemonics()));
        if (const auto before = slots_.find(kind); !kind.empty() && before != slots_.end()) {
            const bool masks = kind == "mask";
            throw HazardError(masks ? Rule::H8 : Rule::H4, "the " + kind + " slot",
                              masks ? "a word has one mask entry" : "it holds one operation per word",
                              {-1, -1, before->second, ""}, {-1, -1, std::string(line_.whole(begin)), ""},
                              line_.place(begin));
        }
        if (kind == "ALU")
            alu(m);
        else if (kind == "MAU")
            mau(m);
        else if (kind == "L1")
            l1(m);
        else if (kind == "L2")
            l2(m);
        else if (kind == "MV")
            mv(m);
        else if (kind == "MW")
            matrix_write(m);
        else if (kind == "MR")
            matrix_read(m);
        else if (m.name == "mask")
            mask();
        else if (m.name == "wait")
            word_.control.wait = uint8_t(line_.number(0, 15, "a tag"));
        else if (m.name == "end")
            word_.control.end = true;
        else if (m.name == "note")
            word_.note = line_.quoted();
        else if (m.name == "base")
            base();
        else if (m.name == "rep")
            rep(begin);
        if (!kind.empty()) slots_[kind] = line_.since(begin);
        for (auto &[resource, text] : users_)
            if (text == m.full) text = line_.since(begin);
    }

    void rep(size_t begin) {
        Control::Repeat r;
        r.count = uint32_t(line_.number(1, UINT32_MAX, "a rep's count"));
        line_.expect(",", "between count and words");
        r.length = uint8_t(line_.number(1, 255, "a rep's number of words"));
        auto &both = word_.control.repeat;
        if (both[1].count) line_.fail_at(begin, "a word begins at most two reps");
        both[both[0].count ? 1 : 0] = r;
    }
    void base() {
        line_.expect("b", "and a register's number");
        word_.control.base = uint8_t(line_.number(0, 3, "a base register's number"));
        word_.control.base_add = line_.take("+=");
        if (!word_.control.base_add) line_.expect("=", "or '+='");
        word_.control.base_value = int16_t(line_.number(INT16_MIN, INT16_MAX, "a base register's value"));
    }
    void mask() {
        Mask &k = word_.mask;
        k.mode = line_.take("zero ") ? MaskMode::Zero : line_.take("sel ") ? MaskMode::Select : MaskMode::Write;
        k.invert = line_.take('!');
        k.entry = uint8_t(line_.number(0, 19, "a mask entry"));
    }

    void alu(Mnemonic m) {
        Alu &a = word_.alu;
        const AluOp op = names().alu.at(m.name);
        std::string legal;
        for (int t = 0; t < type_count; t++)
            if (info(op).types >> t & 1) legal += std::string(legal.empty() ? "" : ", ") + name_of(Type(t));
        a.type = take_type(m, legal);
        a.width = take_width(m, 1);
        no_more_parts(m, "legal are a type and a width of 1 or 2 LW");
        a.a = read();
        if (info(op).operands > 1) comma(), a.b = read();
        if (op == AluOp::Rotate) comma(), a.rotate = uint8_t(line_.number(0, 3, "a rotation"));
        a.op = op;
        destinations(a.to, &a.mask);
    }
    void mau(Mnemonic m) {
        Mau &u = word_.mau;
        const MauOp op = names().mau.at(m.name);
        const MauInfo &i = info(op);
        u.precision = take_type(m, "f16 or f32");
        u.width = take_width(m, 1);
        u.negate = take_part(m, "neg"), u.narrow_c = take_part(m, "hc"), u.narrow_y = take_part(m, "hy");
        no_more_parts(m, "legal are a type, neg, hc (c is fp16), hy (the result is fp16) and, for vpass, a width");
        if (u.negate && op == MauOp::Pass) line_.fail_at(m.at, "vpass copies its operand, so neg does not apply");
        if (u.narrow_c && !i.c) line_.fail_at(m.at, m.name + " has no operand c, so hc does not apply");
        if (i.matrix) {
            u.face = face();
            if (u.precision == Type::F32) {
                line_.expect(".", "and the half of the columns, 0 or 1");
                u.half = uint8_t(line_.number(0, 1, "the half of the columns"));
            }
            comma();
        }
        bool first = true;
        for (const auto &[has, field] : {std::pair{i.a, &u.a}, {i.b, &u.b}, {i.c, &u.c}}) {
            if (!has) continue;
            if (!first) comma();
            first = false;
            *field = read();
        }
        u.op = op;
        destinations(u.to);
    }
    uint8_t face() {
        if (line_.take('x')) return 0;
        if (line_.take('y')) return 1;
        line_.fail("expected a face, x or y, found " + line_.found());
    }
    template<typename M>
    void face_part(Mnemonic &m, M &out) {
        out.precision = take_type(m, "f16 or f32");
        out.width = take_width(m, 2);
        no_more_parts(m, "legal are a type and a width of 1 or 2 LW");
        out.face = face();
        line_.expect(".", "and the part of the face");
        out.part = uint8_t(line_.number(0, 3, "the part of a face"));
        out.on = true;
    }
    void matrix_write(Mnemonic m) {
        face_part(m, word_.mw);
        comma();
        word_.mw.from = read();
    }
    void matrix_read(Mnemonic m) {
        face_part(m, word_.mr);
        destinations(word_.mr.to);
    }
    void l1(Mnemonic m) {
        L1 &l = word_.l1;
        const L1Op op = names().l1.at(m.name);
        l.width = take_width(m, 1);
        if (info(op).reduces) l.reduction = take_reduction(m);
        no_more_parts(m, "legal are a width of 1 or 2 LW, and a reduction for operations that reduce");
        if (info(op).up) {
            l.from = read();
            line_.expect("->", "and the address in l1bm");
            l.at = tree_address("l1bm");
            l.mabs = set(32);
            l.op = op;
        } else {
            l.at = tree_address("l1bm");
            l.mabs = set(32);
            l.op = op;
            destinations(l.to);
        }
    }
    void l2(Mnemonic m) {
        L2 &l = word_.l2;
        l.op = names().l2.at(m.name);
        const L2Info &i = info(l.op);
        if (i.reduces) l.reduction = take_reduction(m);
        no_more_parts(m, i.reduces ? "a reduction does" : "nothing does");
        if (i.multicast())
            l.second = tree_address("l1bm");
        else if (i.up)
            l.l1bm = tree_address("l1bm");
        else
            l.l2bm = tree_address("l2bm");
        if (i.second == L2Second::L2bm) comma(), l.second = tree_address("l2bm");
        line_.expect("->", "and a destination");
        if (i.up)
            l.l2bm = tree_address("l2bm");
        else
            l.l1bm = tree_address("l1bm");
        l.l1bs = set(32);
        if (i.child) {
            line_.expect(",", "and the child");
            line_.expect("child ", "and an L1B's number");
            l.child = uint8_t(line_.number(0, 31, "an L1B's number"));
        }
    }
    void mv(Mnemonic m) {
        Mv &v = word_.mv;
        v.op = names().mv.at(m.name);
        if (info(v.op).reduces) v.reduction = take_reduction(m);
        no_more_parts(m, info(v.op).reduces ? "a reduction does" : "nothing does");
        const bool inside = is_inside(v), load = is_load(v);
        const auto l2bm = [&] {
            line_.expect("l2bm[", "here");
            const uint16_t at = uint16_t(line_.number(0, UINT16_MAX, "an address"));
            line_.expect("]", "behind the address");
            return at;
        };
        const auto memory = [&] {
            v.pdm = line_.take("pdm[");
            if (!v.pdm) line_.expect("dram[", "or 'pdm['");
            v.address = uint32_t(line_.number(0, UINT32_MAX, "an address"));
            line_.expect("]", "behind the address");
        };
        load ? memory() : void(v.l2bm = l2bm());
        line_.expect("->", "and a destination");
        if (inside)
            v.to = l2bm();
        else
            load ? void(v.l2bm = l2bm()) : memory();
        bool tag = false;
        while (line_.take(',')) {
            const size_t begin = line_.at();
            const std::string key = line_.word();
            if (key == "size")
                v.size = uint16_t(line_.number(1, 65535, "a block's size (in 64 LW)"));
            else if (key == "tag")
                v.tag = uint8_t(line_.number(0, 15, "a tag")), tag = true;
            else if (key == "l2bs")
                v.l2bs = set(32);
            else if (key == "child" && inside)
                v.child = uint8_t(line_.number(0, 31, "an L2B's number"));
            else if (key == "chip" && !inside)
                v.chip = true;
            else if (key == "blocks" && !inside)
                v.blocks = uint16_t(line_.number(1, 65535, "the number of blocks"));
            else if (key == "stride" && !inside)
                v.stride = int32_t(line_.number(INT32_MIN, INT32_MAX, "the blocks' stride"));
            else if (key == "groups" && !inside)
                v.groups = uint16_t(set(16));
            else if (key == "table" && !inside)
                v.indirect = true, v.table = uint32_t(line_.number(0, UINT32_MAX, "the table's address"));
            else
                line_.fail_at(
                    begin, "a move has no '" + key + "'" +
                               suggest(key, inside ? std::vector<std::string>{"size", "tag", "l2bs", "child"}
                                                   : std::vector<std::string>{"size", "tag", "l2bs", "chip", "blocks",
                                                                              "stride", "groups", "table"}));
        }
        if (!tag) line_.fail_at(m.at, "a move needs a tag: \", tag 3\"");
    }
};

} // namespace

Program assemble(std::string_view text, const std::string &document, bool places) {
    Program program;
    size_t line = 1;
    for (size_t begin = 0; begin <= text.size(); line++) {
        const size_t end = std::min(text.find('\n', begin), text.size());
        const std::string_view part = text.substr(begin, end - begin);
        begin = end + 1;
        const std::string where = fmt::format("{}:{}:", document, line);
        if (Line directive(part, where); directive.take(".")) {
            const size_t at = directive.at();
            const std::string name = directive.word();
            if (name != "machine")
                directive.fail_at(at, "there is no directive '." + name + "'; there is .machine NAME");
            if (directive.done()) directive.fail("expected a machine's name");
            program.machine = directive.word();
            if (program.machine.empty() || !directive.done())
                directive.fail("expected one machine's name, found " + directive.found());
            continue;
        }
        WordParser parser(part, where);
        if (parser.blank()) continue;
        program.words.push_back(parser.parse());
        if (places) program.words.back().note = where.substr(0, where.size() - 1);
    }
    return program;
}

Word assemble_word(std::string_view line) { return WordParser(line, "word:1:").parse(); }

} // namespace kumiko::sim
