// The encoding of words: one ordered list of fields is used for encoding and decoding.
#include "sim/accesses.h"
#include "sim/operations.h"
#include "sim/program.h"

#include <fmt/format.h>

#include <bit>
#include <type_traits>

namespace kumiko::sim {

namespace {

struct BitWriter {
    EncodedWord bits{};
    int at = 0;

    template<typename T>
    void operator()(const char *name, const T &value, int count) {
        uint64_t v;
        if constexpr (std::is_signed_v<T>) {
            const uint64_t all = uint64_t(int64_t(value));
            v = count == 64 ? all : all & ((uint64_t(1) << count) - 1);
        } else {
            v = uint64_t(value);
            if (count < 64 && v >> count)
                throw UserError(fmt::format("the word's field {} holds {}, but has {} bits", name, v, count));
        }
        bits[at / 64] |= v << at % 64;
        if (at % 64 + count > 64) bits[at / 64 + 1] |= v >> (64 - at % 64);
        at += count;
    }
};

struct BitReader {
    const EncodedWord &bits;
    int at = 0;

    template<typename T>
    void operator()(const char *, T &value, int count) {
        uint64_t v = bits[at / 64] >> at % 64;
        if (at % 64 + count > 64) v |= bits[at / 64 + 1] << (64 - at % 64);
        if (count < 64) v &= (uint64_t(1) << count) - 1;
        at += count;
        if constexpr (std::is_signed_v<T>)
            value = T(int64_t(v << (64 - count)) >> (64 - count));
        else
            value = T(v);
    }
};

template<typename Visitor, typename Address>
void visit_tree(Visitor &v, const char *name, Address &a) {
    v(name, a.at, 16);
    v(name, a.repeat[0], 16);
    v(name, a.repeat[1], 16);
}

// `at` is visited separately: LM0's may hold the immediate instead.
template<typename Visitor, typename P>
void visit_port(Visitor &v, const char *name, P &p) {
    v(name, p.on, 1);
    v(name, p.address.listed, 1);
    v(name, p.address.by_t, 1);
    v(name, p.address.base, 3);
    v(name, p.address.stride, 16);
    v(name, p.address.repeat[0], 16);
    v(name, p.address.repeat[1], 16);
}

// The bits of a field for `count` operations.
constexpr int bits_of(int count) { return std::bit_width(unsigned(count - 1)); }

template<typename Visitor, typename W, typename Flags>
void visit_fields(Visitor &v, W &w, Flags &wait_on, Flags &base_on, uint8_t &wait, uint8_t &base) {
    v("wait", wait_on, 1);
    v("wait tag", wait, 4);
    for (auto &r : w.control.repeat) {
        v("rep count", r.count, 32);
        v("rep length", r.length, 8);
    }
    v("base", base_on, 1);
    v("base register", base, 2);
    v("base value", w.control.base_value, 16);
    v("base add", w.control.base_add, 1);
    v("end", w.control.end, 1);

    v("L2 operation", w.l2.op, bits_of(l2_op_count));
    v("L2 reduction", w.l2.reduction, 3);
    v("L2 child", w.l2.child, 5);
    v("L2 set", w.l2.l1bs, 32);
    visit_tree(v, "L2 address in L2BM", w.l2.l2bm);
    visit_tree(v, "L2 address in L1BM", w.l2.l1bm);
    visit_tree(v, "L2 second address", w.l2.second);

    v("L1 operation", w.l1.op, bits_of(l1_op_count));
    v("L1 reduction", w.l1.reduction, 3);
    v("L1 width", w.l1.width, 2);
    v("L1 set", w.l1.mabs, 32);
    visit_tree(v, "L1 address", w.l1.at);
    v("L1 source", w.l1.from, 4);
    v("L1 destinations", w.l1.to, 5);

    v("MAU operation", w.mau.op, 3);
    v("MAU precision", w.mau.precision, 3);
    v("MAU face", w.mau.face, 1);
    v("MAU half", w.mau.half, 1);
    v("MAU negate", w.mau.negate, 1);
    v("MAU narrow c", w.mau.narrow_c, 1);
    v("MAU narrow y", w.mau.narrow_y, 1);
    v("MAU width", w.mau.width, 2);
    v("MAU a", w.mau.a, 4);
    v("MAU b", w.mau.b, 4);
    v("MAU c", w.mau.c, 4);
    v("MAU destinations", w.mau.to, 5);

    v("MW", w.mw.on, 1);
    v("MW precision", w.mw.precision, 3);
    v("MW face", w.mw.face, 1);
    v("MW part", w.mw.part, 2);
    v("MW width", w.mw.width, 2);
    v("MW source", w.mw.from, 4);

    v("MR", w.mr.on, 1);
    v("MR precision", w.mr.precision, 3);
    v("MR face", w.mr.face, 1);
    v("MR part", w.mr.part, 2);
    v("MR width", w.mr.width, 2);
    v("MR destinations", w.mr.to, 5);

    v("ALU operation", w.alu.op, bits_of(alu_op_count));
    v("ALU type", w.alu.type, 3);
    v("ALU width", w.alu.width, 2);
    v("ALU rotate", w.alu.rotate, 2);
    v("ALU mask entry", w.alu.mask, 4);
    v("ALU a", w.alu.a, 4);
    v("ALU b", w.alu.b, 4);
    v("ALU destinations", w.alu.to, 5);

    v("mask mode", w.mask.mode, 2);
    v("mask entry", w.mask.entry, 5);
    v("mask polarity", w.mask.invert, 1);

    visit_port(v, "LM0", w.lm0);
    visit_port(v, "LM1", w.lm1);
    visit_port(v, "GRF0 read", w.grf0_read);
    visit_port(v, "GRF0 write", w.grf0_write);
    visit_port(v, "GRF1 read", w.grf1_read);
    visit_port(v, "GRF1 write", w.grf1_write);
    for (auto *p : {&w.lm1, &w.grf0_read, &w.grf0_write, &w.grf1_read, &w.grf1_write})
        for (auto &a : p->address.at) v("address", a, 16);
    v("immediate", w.has_immediate, 1);

    v("MV operation", w.mv.op, bits_of(mv_op_count));
    v("MV chip", w.mv.chip, 1);
    v("MV pdm", w.mv.pdm, 1);
    v("MV indirect", w.mv.indirect, 1);
    v("MV reduction", w.mv.reduction, 3);
    v("MV tag", w.mv.tag, 4);
    v("MV child", w.mv.child, 5);
    v("MV groups", w.mv.groups, 16);
    v("MV L2Bs", w.mv.l2bs, 32);
    v("MV address", w.mv.address, 32);
    v("MV stride", w.mv.stride, 32);
    v("MV blocks", w.mv.blocks, 16);
    v("MV size", w.mv.size, 16);
    v("MV address in L2BM", w.mv.l2bm, 16);
    v("MV address to", w.mv.to, 16);
    v("MV table", w.mv.table, 32);
}

// Whether a port is used by a slot of the (canonical) word.
struct Uses {
    uint32_t reads = 0; // bit Source
    uint8_t writes = 0;

    explicit Uses(const Word &w) {
        each_read(w, [&](Slot, Source s, int) { reads |= 1u << int(s); });
        each_write(w, [&](Slot, uint8_t to, int) { writes |= to; });
    }
    bool reads_from(Source s) const { return reads >> int(s) & 1; }
};

void canonical_port(Port &p, bool used) {
    if (!used) {
        p = {};
        return;
    }
    p.on = true;
    if (p.address.listed)
        p.address.stride = 0;
    else
        p.address.at[1] = p.address.at[2] = p.address.at[3] = 0;
}

template<typename S>
void canonical_slot(S &s, bool on) {
    if (!on) s = {};
}

} // namespace

Word canonical(const Word &word) {
    Word w = word;
    if (!w.control.base) w.control.base_value = 0, w.control.base_add = false;
    for (auto &r : w.control.repeat)
        if (!r.count) r = {};
    if (!w.control.repeat[0].count) std::swap(w.control.repeat[0], w.control.repeat[1]);

    canonical_slot(w.l2, w.l2.op != L2Op::None);
    const L2Info &l2 = info(w.l2.op);
    if (!l2.reduces) w.l2.reduction = {};
    if (!l2.child) w.l2.child = 0;
    if (l2.unicast()) w.l2.l1bs = all_units;
    if (l2.second == L2Second::None) w.l2.second = {};
    if (l2.multicast()) w.l2.l2bm = {};

    canonical_slot(w.l1, w.l1.op != L1Op::None);
    if (!info(w.l1.op).reduces) w.l1.reduction = {};
    if (is_upward(w.l1.op))
        w.l1.to = 0;
    else
        w.l1.from = Source::None;

    canonical_slot(w.mau, w.mau.op != MauOp::None);
    const MauInfo &mau = info(w.mau.op);
    if (!mau.matrix) w.mau.face = 0;
    if (!mau.matrix || w.mau.precision != Type::F32) w.mau.half = 0;
    if (!mau.a) w.mau.a = Source::None;
    if (!mau.b) w.mau.b = Source::None;
    if (!mau.c) w.mau.c = Source::None, w.mau.narrow_c = false;
    if (w.mau.op != MauOp::Pass)
        w.mau.width = 1;
    else
        w.mau.negate = false;

    canonical_slot(w.mw, w.mw.on);
    canonical_slot(w.mr, w.mr.on);
    canonical_slot(w.alu, w.alu.op != AluOp::None);
    if (w.alu.op != AluOp::Rotate) w.alu.rotate = 0;
    if (info(w.alu.op).result != AluResult::Mask && w.alu.op != AluOp::SetMask) w.alu.mask = 0;
    if (info(w.alu.op).operands < 2) w.alu.b = Source::None;
    if (w.alu.op == AluOp::SetMask) w.alu.to = 0;
    canonical_slot(w.mask, w.mask.mode != MaskMode::None);

    canonical_slot(w.mv, w.mv.op != MvOp::None);
    if (w.mv.op != MvOp::None) {
        if (is_inside(w.mv)) {
            w.mv.chip = w.mv.pdm = w.mv.indirect = false;
            w.mv.groups = 0xffff, w.mv.address = 0, w.mv.stride = 0, w.mv.blocks = 1;
        } else {
            w.mv.child = 0, w.mv.to = 0;
        }
        if (w.mv.indirect)
            w.mv.stride = 0;
        else
            w.mv.table = 0;
        if (w.mv.blocks == 1) w.mv.stride = 0;
        if (!info(w.mv.op).reduces) w.mv.reduction = {};
    }

    const Uses uses(w);
    canonical_port(w.lm0, uses.reads_from(Source::Lm0) || (uses.writes & ToLm0));
    canonical_port(w.lm1, uses.reads_from(Source::Lm1) || (uses.writes & ToLm1));
    canonical_port(w.grf0_read, uses.reads_from(Source::Grf0));
    canonical_port(w.grf1_read, uses.reads_from(Source::Grf1));
    canonical_port(w.grf0_write, uses.writes & ToGrf0);
    canonical_port(w.grf1_write, uses.writes & ToGrf1);
    w.has_immediate = uses.reads_from(Source::Imm);
    if (!w.has_immediate) w.immediate = 0;
    return w;
}

EncodedWord encode(const Word &word) {
    const Word w = canonical(word);
    if (w.has_immediate && w.lm0.on) {
        throw HazardError(Rule::H7, "the field of LM0", "an immediate is encoded in LM0's field of the word",
                          {-1, -1, "the slot that uses LM0", w.note},
                          {-1, -1, "the slot that uses the immediate", w.note});
    }
    BitWriter v;
    // LM0's addresses, or the immediate.
    for (int i = 0; i < 4; i++)
        v("LM0 address", w.has_immediate ? uint16_t(w.immediate >> 16 * i) : w.lm0.address.at[i], 16);
    bool wait_on = w.control.wait.has_value(), base_on = w.control.base.has_value();
    uint8_t wait = w.control.wait.value_or(0), base = w.control.base.value_or(0);
    visit_fields(v, w, wait_on, base_on, wait, base);
    static_assert(encoded_words * 64 >= 1420);
    return v.bits;
}

Word decode(const EncodedWord &bits) {
    BitReader v{bits};
    Word w;
    std::array<uint16_t, 4> at{};
    for (auto &a : at) v("LM0 address", a, 16);
    bool wait_on = false, base_on = false;
    uint8_t wait = 0, base = 0;
    visit_fields(v, w, wait_on, base_on, wait, base);
    if (wait_on) w.control.wait = wait;
    if (base_on) w.control.base = base;
    if (w.has_immediate)
        for (int i = 0; i < 4; i++) w.immediate |= uint64_t(at[i]) << 16 * i;
    else
        w.lm0.address.at = at;
    const auto within = [](auto value, int count, const char *what) {
        if (int(value) >= count)
            throw UserError(fmt::format("no word has this bit pattern: {} {} does not exist", what, int(value)));
    };
    within(w.l2.op, l2_op_count, "L2 operation");
    within(w.l2.reduction, reduction_count, "L2 reduction");
    within(w.l1.op, l1_op_count, "L1 operation");
    within(w.l1.reduction, reduction_count, "L1 reduction");
    within(w.mau.op, mau_op_count, "MAU operation");
    within(w.alu.op, alu_op_count, "ALU operation");
    within(w.mv.op, mv_op_count, "MV operation");
    within(w.mv.reduction, reduction_count, "MV reduction");
    for (Type t : {w.mau.precision, w.mw.precision, w.mr.precision, w.alu.type}) within(t, type_count, "type");
    for (Source s : {w.l1.from, w.mau.a, w.mau.b, w.mau.c, w.mw.from, w.alu.a, w.alu.b})
        within(s, source_count, "source");
    if (encode(w) != bits) throw UserError("no word has this bit pattern: an unused field is set");
    return w;
}

} // namespace kumiko::sim
