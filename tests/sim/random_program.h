// Random words, and random hazard-free programs: what a word writes is not read before all gaps are
// over, except by a follower that only reads forwards.
#pragma once

#include "sim/operations.h"
#include "sim/program.h"
#include "sim/simulator.h"
#include "support/random.h"

#include <functional>

namespace kumiko::sim {

// A small chip of an odd shape, with every kind of unit more than once.
inline Config tiny_config() {
    Config c = Config::load("small");
    c.name = "tiny";
    c.groups = 2, c.l2bs = 2, c.l1bs = 2, c.mabs = 4;
    c.sizes.lm = 32, c.sizes.grf = 16, c.sizes.l1bm = 256, c.sizes.l2bm = 512, c.sizes.pdm = 1024, c.sizes.dram = 4096;
    c.check("tiny");
    return c;
}

// Values that may go wrong: random bits, NaNs, infinities, zeros, subnormals, small integers,
// moderate numbers.
inline uint64_t random_lw(Random &r) {
    uint64_t w = 0;
    switch (r.below(6)) {
    case 0:
        return r();
    case 1:
        for (int i = 0; i < 4; i++) {
            constexpr uint16_t special[] = {0,      0x8000, 0x7c00, 0xfc00, 0x7e00, 0x7d01, 1,
                                            0x8001, 0x3ff,  0x400,  0x7bff, 0xfbff, 0x3c00};
            w |= uint64_t(special[r.below(13)]) << 16 * i;
        }
        return w;
    case 2:
        for (int i = 0; i < 2; i++) {
            constexpr uint32_t special[] = {0,          0x80000000, 0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001,
                                            1,          0x80000001, 0x7fffff,   0x800000,   0x7f7fffff, 0x3f800000,
                                            0x477fefff, 0x477ff000, 0x33000000, 0x33000001};
            w |= uint64_t(special[r.below(16)]) << 32 * i;
        }
        return w;
    case 3:
        for (int i = 0; i < 4; i++) w |= uint64_t(uint16_t(r.between(-20, 20))) << 16 * i;
        return w;
    case 4:
        for (int i = 0; i < 2; i++)
            w |= uint64_t((r.below(2) << 31) | uint32_t(r.between(100, 150)) << 23 | r.below(1 << 23)) << 32 * i;
        return w;
    default:
        for (int i = 0; i < 4; i++)
            w |= uint64_t((r.below(2) << 15) | uint32_t(r.between(10, 18)) << 10 | r.below(1 << 10)) << 16 * i;
        return w;
    }
}

struct RandomProgram {
    RandomProgram(uint64_t seed, const Config &config) : r(seed), c(config) {}

    Random r;
    const Config &c;
    bool in_repeat = false;
    bool forwards_only = false;
    bool no_face[2] = {}; // may not be read
    Type face_type[2] = {Type::F16, Type::F16};
    int forward_width[4] = {}; // of the previous word, in a follower
    Program program;

    template<typename E>
    E any(int first, int count) {
        return E(r.between(first, count - 1));
    }
    std::array<int, 2> repeats(int room) {
        if (!in_repeat || room < 1) return {0, 0};
        return {int(r.between(0, std::min(room, 2))), 0};
    }

    // An address for `width` words per cycle. Written addresses differ from cycle to cycle.
    Operand place(Source memory, int width, bool written) {
        const int size = int(memory == Source::Lm0 || memory == Source::Lm1 ? c.sizes.lm : c.sizes.grf);
        const int room = in_repeat ? 4 : 0, last = size - width - 2 * room;
        if (r.chance(0.3)) {
            std::array<int, 4> at{};
            for (bool again = true; again;) {
                again = false;
                for (int &a : at) a = int(r.between(0, last));
                for (int i = 0; i < 4; i++)
                    for (int k = 0; k < i; k++) again |= written && std::abs(at[i] - at[k]) < width;
            }
            return listed(memory, at, repeats(room));
        }
        const int stride = written ? int(r.pick(std::vector<int>{width, -width, 2, -2}))
                                   : int(r.between(-std::min(3, last / 3), std::min(3, last / 3)));
        const int low = stride < 0 ? -3 * stride : 0, high = stride > 0 ? last - 3 * stride : last;
        Operand o = memory == Source::Lm0    ? lm0(0)
                    : memory == Source::Lm1  ? lm1(0)
                    : memory == Source::Grf0 ? grf0(0)
                                             : grf1(0);
        o.address.at[0] = uint16_t(r.between(low, high));
        o.address.stride = int16_t(stride);
        const auto rep = repeats(room);
        o.address.repeat = {int16_t(rep[0]), 0};
        return o;
    }
    Source read(Word &w, int width) {
        std::vector<Operand> choices = {immediate(w.has_immediate ? w.immediate : random_lw(r)), unit_id()};
        if (forwards_only) {
            const Operand all[] = {aluf(), mauf(), lbf(), mreadf()};
            for (int f = 0; f < 4; f++)
                if (forward_width[f] >= width)
                    for (int k = 0; k < 4; k++) choices.push_back(all[f]);
        } else {
            for (Source m : {Source::Lm0, Source::Lm1, Source::Grf0, Source::Grf1})
                choices.push_back(place(m, width, false));
            choices.push_back(t_register());
        }
        return w.read(r.pick(choices));
    }
    uint8_t write(Word &w, int width) {
        uint8_t to = 0;
        for (Source m : {Source::Lm0, Source::Lm1, Source::Grf0, Source::Grf1, Source::T}) {
            if (!r.chance(0.3)) continue;
            const Operand o = m == Source::T ? t_register() : place(m, width, true);
            to |= w.write({o});
        }
        return to;
    }
    TreeAddress tree(int64_t size, int64_t words) {
        const int room = in_repeat ? 8 : 0;
        TreeAddress a;
        a.at = uint16_t(r.between(0, size - words - room));
        if (in_repeat) a.repeat[0] = int16_t(r.between(0, 2));
        return a;
    }
    uint32_t units(int count) { return r.chance(0.6) ? all_units : uint32_t(r.between(1, (1 << count) - 1)); }

    void l1(Word &w) {
        L1 &l = w.l1;
        l.op = any<L1Op>(1, l1_op_count);
        if ((l.op == L1Op::MabBroadcast4 || l.op == L1Op::MabReduce4) && c.mabs % 4) l.op = L1Op::MabBroadcast;
        const bool deal = l.op == L1Op::Scatter || l.op == L1Op::Gather;
        l.width = uint8_t(deal ? 1 : r.between(1, 2));
        l.reduction = any<Reduction>(0, reduction_count);
        l.mabs = units(c.mabs);
        l.at = tree(c.sizes.l1bm, deal                        ? 16 * c.mabs
                                  : l.op == L1Op::PeBroadcast ? 4 * l.width
                                                              : 4 * l.width * std::max(4, c.mabs));
        if (is_upward(l.op))
            l.from = read(w, l.width);
        else
            l.to = write(w, l.width);
    }
    void l2(Word &w) {
        L2 &l = w.l2;
        l.op = any<L2Op>(1, l2_op_count);
        l.reduction = any<Reduction>(0, reduction_count);
        l.child = uint8_t(r.below(uint64_t(c.l1bs)));
        l.l1bs = units(c.l1bs);
        const int64_t b = 4 * c.links.l2_broadcast;
        l.l1bm = tree(c.sizes.l1bm, b);
        l.l2bm = tree(c.sizes.l2bm, std::max<int64_t>(b, 4 * c.links.l2_scatter * c.l1bs));
        l.second = tree(l.op == L2Op::Multicast ? c.sizes.l1bm : c.sizes.l2bm, b);
    }
    void mau(Word &w) {
        Mau &m = w.mau;
        m.op = any<MauOp>(1, mau_op_count);
        m.face = uint8_t(r.below(2));
        m.precision = info(m.op).matrix ? face_type[m.face] : r.chance(0.5) ? Type::F16 : Type::F32;
        if (info(m.op).matrix && no_face[m.face]) m.op = MauOp::Vfma;
        const bool f16 = m.precision == Type::F16;
        m.half = uint8_t(r.below(2));
        m.negate = r.chance(0.3);
        m.narrow_c = f16 && r.chance(0.4);
        if (m.op == MauOp::Pass) m.width = uint8_t(r.between(1, 2)), m.negate = false;
        m.narrow_y = f16 && r.chance(0.4) && (m.op != MauOp::Pass || m.width == 2);
        const MauInfo &i = info(m.op);
        if (i.a) m.a = read(w, mau_a_width(m));
        if (i.b) m.b = read(w, 1);
        if (i.c) m.c = read(w, mau_c_width(m));
        m.to = write(w, mau_result_width(m));
    }
    void alu(Word &w) {
        Alu &a = w.alu;
        a.op = any<AluOp>(1, alu_op_count);
        const AluInfo &i = info(a.op);
        do a.type = any<Type>(0, type_count);
        while (!(i.types >> int(a.type) & 1));
        a.width = uint8_t(r.between(1, i.max_width));
        a.rotate = uint8_t(r.below(4));
        if (a.op == AluOp::SetMask) {
            a.a = w.read(immediate(w.has_immediate ? w.immediate : random_lw(r)));
            a.mask = uint8_t(r.between(1, 15));
            return;
        }
        if (i.result == AluResult::Mask && r.chance(0.6)) a.mask = uint8_t(r.between(1, 15));
        a.a = read(w, alu_operand_width(a));
        if (i.operands > 1) a.b = read(w, alu_operand_width(a));
        if (a.op == AluOp::Select) w.mask = {MaskMode::Select, uint8_t(r.below(20)), r.chance(0.5)};
        a.to = write(w, alu_result_width(a));
    }
    void mr(Word &w) {
        MatrixRead &m = w.mr;
        m.on = true;
        m.face = uint8_t(r.below(2));
        if (no_face[m.face]) throw UserError("this face is being written");
        m.precision = face_type[m.face];
        m.width = uint8_t(r.between(1, 2));
        m.part = uint8_t(r.below(uint64_t(face_parts(m.precision, m.width))));
        m.to = write(w, m.width);
    }

    // Adds what `fill` sets, if the word stays legal.
    void attempt(Word &w, const std::function<void(Word &)> &fill) {
        Word trial = w;
        try {
            fill(trial);
            trial = canonical(trial);
            check_word(trial, c);
            w = trial;
        } catch (const UserError &) {
        }
    }
    Word word(Word w = {}) {
        std::vector<std::function<void(Word &)>> slots;
        if (r.chance(0.5)) slots.push_back([&](Word &x) { l1(x); });
        if (r.chance(0.4)) slots.push_back([&](Word &x) { l2(x); });
        if (r.chance(0.6)) slots.push_back([&](Word &x) { mau(x); });
        if (r.chance(0.7) && w.alu.op == AluOp::None) slots.push_back([&](Word &x) { alu(x); });
        if (r.chance(0.3)) slots.push_back([&](Word &x) { mr(x); });
        r.shuffle(slots);
        for (const auto &s : slots) attempt(w, s);
        // both might write one word of L1BM
        if (is_upward(w.l1.op) && w.l2.op <= L2Op::Multicast) w.l2 = {};
        if (r.chance(0.3) && w.mask.mode == MaskMode::None)
            attempt(w, [&](Word &x) {
                x.mask = {r.chance(0.5) ? MaskMode::Write : MaskMode::Zero, uint8_t(r.below(20)), r.chance(0.5)};
            });
        return canonical(w);
    }
    void idle(int words) { program.words.resize(program.words.size() + size_t(words)); }
    void emit(const Word &w) { program.words.push_back(w); }

    // A word, optionally one that reads its forwards, then idle words.
    void pair(Word w) {
        emit(w);
        if (r.chance(0.6)) {
            forward_width[0] = w.alu.op == AluOp::None || w.alu.op == AluOp::SetMask ? 0 : alu_result_width(w.alu);
            forward_width[1] = w.mau.op == MauOp::None ? 0 : mau_result_width(w.mau);
            forward_width[2] = w.l1.op == L1Op::None || is_upward(w.l1.op) || w.l1.mabs != all_units ? 0 : w.l1.width;
            forward_width[3] = w.mr.on ? w.mr.width : 0;
            forwards_only = true;
            Word next;
            if (r.chance(0.7)) attempt(next, [&](Word &x) { alu(x); });
            if (r.chance(0.7))
                attempt(next, [&](Word &x) {
                    no_face[0] = no_face[1] = true;
                    mau(x);
                });
            if (r.chance(0.3)) attempt(next, [&](Word &x) { x.l1.op = L1Op::Gather, x.l1.from = read(x, 1); });
            no_face[0] = no_face[1] = false;
            forwards_only = false;
            if (next.mask.mode == MaskMode::Select)
                next.mask.entry = uint8_t(r.pick(std::vector<int>{0, 16, 17, 18, 19}));
            // L1 in both words would read and write L1BM too close together.
            if (w.l1.op != L1Op::None || w.l2.op != L2Op::None) next.l1 = {};
            emit(canonical(next));
        }
        idle(4);
    }
    // All parts of a face, with other work beside.
    void face() {
        const int which = int(r.below(2));
        const Type type = r.chance(0.7) ? Type::F16 : Type::F32;
        const uint8_t width = uint8_t(r.between(1, 2));
        no_face[which] = true;
        for (int part = 0; part < face_parts(type, width); part++) {
            Word w;
            w.mw = {true, type, uint8_t(which), uint8_t(part), width, Source::None};
            w.mw.from = read(w, width);
            emit(word(canonical(w)));
            idle(4);
        }
        no_face[which] = false;
        face_type[which] = type;
    }
    void repeat() {
        in_repeat = true;
        const size_t first = program.words.size();
        const int words = int(r.between(1, 2));
        for (int i = 0; i < words; i++) pair(word());
        const size_t length = program.words.size() - first;
        const Control::Repeat outer{uint32_t(r.between(1, 3)), uint8_t(length)};
        program.words[first].control.repeat[0] = outer;
        if (r.chance(0.3)) program.words[first].control.repeat[1] = {2, uint8_t(r.between(1, int64_t(length)))};
        in_repeat = false;
        // There already is a gap at the loop's end; the inner body may be shorter than its gap.
        if (program.words[first].control.repeat[1].count && program.words[first].control.repeat[1].length < length)
            program.words[first].control.repeat[1] = {};
    }
    void move() {
        Word w;
        attempt(w, [&](Word &x) {
            Mv &m = x.mv;
            m.op = any<MvOp>(1, mv_op_count);
            m.chip = r.chance(0.4);
            m.groups = m.chip || r.chance(0.3) ? uint16_t(1 << r.below(uint64_t(c.groups))) : uint16_t(0xffff);
            m.l2bs = r.chance(0.6) ? all_units : uint32_t(r.between(1, (1 << c.total_l2bs()) - 1));
            m.pdm = r.chance(0.2);
            m.blocks = uint16_t(r.between(1, 2));
            m.size = uint16_t(r.between(1, 2));
            m.stride = int32_t(16 * r.between(-20, 20));
            m.address = uint32_t(16 * r.between(0, (m.pdm ? c.sizes.pdm : c.sizes.dram) / 16 - 1));
            m.l2bm = uint16_t(r.below(uint64_t(c.sizes.l2bm)));
            m.to = uint16_t(r.below(uint64_t(c.sizes.l2bm)));
            m.child = uint8_t(r.below(uint64_t(c.total_l2bs())));
            m.reduction = any<Reduction>(0, reduction_count);
            m.tag = uint8_t(r.below(16));
        });
        if (w.mv.op == MvOp::None) return;
        emit(w);
        idle(3 + int(r.below(4)));
        Word stop;
        stop.control.wait = w.mv.tag;
        emit(stop);
        idle(4);
    }
    // LM0 by T: T gets small numbers first.
    void by_t() {
        Word w;
        w.alu = {.op = AluOp::And,
                 .type = Type::I16,
                 .a = w.read(unit_id()),
                 .b = w.read(immediate(0x3)),
                 .to = w.write({t_register()})};
        emit(w);
        idle(4);
        Word use;
        const Operand o = lm0_by_t(int(r.between(0, 4)), int(r.pick(std::vector<int>{2, 5, 6})));
        if (r.chance(0.5))
            use.alu = {
                .op = AluOp::Pass, .type = Type::I32, .width = 2, .a = use.read(o), .to = use.write({lm1(0, 2)})};
        else
            use.alu = {.op = AluOp::Pass, .type = Type::I32, .a = use.read(unit_id()), .to = use.write({o})};
        if (r.chance(0.5)) use.mask = {MaskMode::Write, uint8_t(16 + r.below(4)), r.chance(0.5)};
        emit(use);
        idle(4);
    }
    void base() {
        Word w;
        const int b = int(r.below(4));
        w.control.base = uint8_t(b);
        w.control.base_value = int16_t(r.between(0, 4));
        emit(w);
        idle(3);
        Word use;
        use.alu = {.op = AluOp::Pass,
                   .type = Type::I32,
                   .a = use.read(with_base(lm0(3, 2), b)),
                   .to = use.write({with_base(lm1(1, 1), b)})};
        emit(use);
        idle(4);
    }

    Program make(int parts) {
        for (int i = 0; i < parts; i++) {
            switch (r.below(8)) {
            case 0:
                face();
                break;
            case 1:
                repeat();
                break;
            case 2:
                move();
                break;
            case 3:
                r.chance(0.5) ? by_t() : base();
                break;
            default:
                pair(word());
                break;
            }
        }
        return program;
    }
};

// Any legal word, for round trips, including features that no program here uses.
inline Word random_word(Random &r, const Config &c) {
    RandomProgram g(r(), c);
    g.in_repeat = r.chance(0.3);
    Word w = r.chance(0.2) ? Word{} : g.word();
    if (r.chance(0.3)) w.control.wait = uint8_t(r.below(16));
    if (r.chance(0.2)) w.control.repeat[0] = {uint32_t(r.between(1, UINT32_MAX)), uint8_t(r.between(1, 64))};
    if (w.control.repeat[0].count && r.chance(0.5))
        w.control.repeat[1] = {uint32_t(r.between(1, 9)), uint8_t(r.between(1, w.control.repeat[0].length))};
    if (r.chance(0.2))
        w.control.base = uint8_t(r.below(4)), w.control.base_value = int16_t(r()), w.control.base_add = r.chance(0.5);
    w.control.end = r.chance(0.1);
    if (r.chance(0.2)) {
        Mv &m = w.mv;
        m.op = g.any<MvOp>(1, mv_op_count);
        m.chip = r.chance(0.5), m.pdm = r.chance(0.3), m.indirect = !m.pdm && r.chance(0.3);
        m.reduction = g.any<Reduction>(0, reduction_count);
        m.tag = uint8_t(r.below(16)), m.child = uint8_t(r.below(32));
        m.groups = r.chance(0.5) ? uint16_t(0xffff) : uint16_t(r()), m.l2bs = r.chance(0.5) ? all_units : uint32_t(r());
        m.address = uint32_t(r()), m.stride = int32_t(r()), m.table = uint32_t(r());
        m.blocks = uint16_t(r.between(1, 65535)), m.size = uint16_t(r.between(1, 65535)), m.l2bm = uint16_t(r()),
        m.to = uint16_t(r());
    }
    if (w.lm0.on && r.chance(0.3)) {
        w.lm0.address.base = uint8_t(r.below(5));
        Word by_t = w;
        by_t.lm0.address.by_t = !w.lm0.address.listed;
        try {
            check_word(by_t);
            w = by_t;
        } catch (const UserError &) {
        }
    }
    if (w.grf0_read.on) w.grf0_read.address.repeat = {int16_t(r()), int16_t(r())};
    if (w.l1.op != L1Op::None) w.l1.at.repeat = {int16_t(r()), int16_t(r())};
    if (r.chance(0.3))
        w.note = r.pick(std::vector<std::string>{"C.mfma", "a \"quoted\" \\ note", "two\nlines", ";|, not syntax"});
    return canonical(w);
}

} // namespace kumiko::sim
