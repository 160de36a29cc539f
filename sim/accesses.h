// The accesses of a word, and how long after a write a value may not be read. The simulator's
// checker and the chip's compiler take both from here.
//
//   Accesses all;
//   accesses(word, config, all);
//   for (const Access &a : all) if (!a.write) ... gap(a.resource, writer, a.slot, config.gaps)
#pragma once

#include "sim/assembler.h"
#include "sim/operations.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace kumiko::sim {

// ---- operands ----------------------------------------------------------------------------------

// Calls f(slot, source, LW a cycle) for each operand that a slot of the word reads. Absent operands
// have the source None.
template<typename F>
void each_read(const Word &w, F &&f) {
    if (w.l1.op != L1Op::None) f(Slot::L1, w.l1.from, int(w.l1.width));
    if (w.mw.on) f(Slot::MatrixWrite, w.mw.from, int(w.mw.width));
    if (w.mau.op != MauOp::None) {
        f(Slot::Mau, w.mau.a, mau_a_width(w.mau));
        f(Slot::Mau, w.mau.b, 1);
        f(Slot::Mau, w.mau.c, mau_c_width(w.mau));
    }
    if (w.alu.op != AluOp::None) {
        f(Slot::Alu, w.alu.a, alu_operand_width(w.alu));
        f(Slot::Alu, w.alu.b, alu_operand_width(w.alu));
    }
}

// Calls f(slot, set of destinations, LW a cycle) for each slot of the word that writes.
template<typename F>
void each_write(const Word &w, F &&f) {
    if (w.l1.op != L1Op::None && w.l1.to) f(Slot::L1, w.l1.to, int(w.l1.width));
    if (w.mau.op != MauOp::None && w.mau.to) f(Slot::Mau, w.mau.to, mau_result_width(w.mau));
    if (w.mr.on && w.mr.to) f(Slot::MatrixRead, w.mr.to, int(w.mr.width));
    if (w.alu.op != AluOp::None && w.alu.to) f(Slot::Alu, w.alu.to, alu_result_width(w.alu));
}

// Calls f(slot, forward, LW a cycle) for each forward that the word makes: 0 to 3, in the order of
// Source.
template<typename F>
void each_forward(const Word &w, F &&f) {
    if (w.alu.op != AluOp::None && w.alu.op != AluOp::SetMask) f(Slot::Alu, 0, alu_result_width(w.alu));
    if (w.mau.op != MauOp::None) f(Slot::Mau, 1, mau_result_width(w.mau));
    if (w.l1.op != L1Op::None && !is_upward(w.l1.op)) f(Slot::L1, 2, int(w.l1.width));
    if (w.mr.on) f(Slot::MatrixRead, 3, int(w.mr.width));
}

// ---- accesses ----------------------------------------------------------------------------------

enum class Resource : uint8_t { Lm0, Lm1, Grf0, Grf1, T, Mask, Base, Face, L1bm, L2bm, Forward, Move };
constexpr int resource_count = 12;

// The words (entries, registers, faces, forwards by number) [at[i], at[i] + width) of one resource,
// for i < count.
struct Access {
    Resource resource;
    bool write;
    Slot slot;
    uint8_t count;
    int32_t width;
    std::array<int32_t, cycles_per_step> at;

    bool overlaps(const Access &other) const;
};

// A list with room for the accesses of any word.
class Accesses {
public:
    Accesses() = default;
    Accesses(const Accesses &other) { *this = other; }
    Accesses &operator=(const Accesses &other) {
        std::copy(other.begin(), other.end(), all_.begin());
        count_ = other.count_;
        return *this;
    }
    const Access *begin() const { return all_.data(); }
    const Access *end() const { return all_.data() + count_; }
    int size() const { return count_; }
    void clear() { count_ = 0; }
    void add(const Access &a) { all_[size_t(count_++)] = a; }
    void add(Resource r, int64_t at, int64_t width, bool write, Slot slot) {
        all_[size_t(count_++)] = {r, write, slot, 1, int32_t(width), {int32_t(at)}};
    }

private:
    // Seven reads, four sets of five destinations, forwards, faces, masks, tree, moves, control;
    // and base registers and T beside operands in LM.
    std::array<Access, 64> all_;
    int count_ = 0;
};

// All accesses of a word in the first iteration of any enclosing REP. An LM that is addressed by T
// or a base register counts as a whole. `Move` stands for the tags: a move writes its tag and a
// wait for it reads it. The L2BM range of a move is an access of its own word, and is occupied
// until the wait; a wait writes all of L2BM.
void accesses(const Word &word, const Config &config, Accesses &out);

// ---- gaps --------------------------------------------------------------------------------------

// The number of steps after a write by `writer` in which `reader` may not read the value (rules H2,
// H3, H6): a value written at step s may be read from step s + 1 + gap.
inline int gap(Resource r, Slot writer, Slot reader, const Config::Gaps &g) {
    switch (r) {
    case Resource::Lm0:
    case Resource::Lm1:
        return g.lm;
    case Resource::Grf0:
    case Resource::Grf1:
        return g.grf;
    case Resource::T:
        return g.t;
    case Resource::Mask:
        return g.mask;
    case Resource::Base:
        return g.base;
    case Resource::Face:
        return g.matrix;
    case Resource::L1bm:
        return writer == Slot::L1 ? g.l1bm_by_pe : reader == Slot::L1 ? g.l1bm_by_l2 : g.l1bm_l2_l2;
    case Resource::L2bm:
        return reader == Slot::Mv ? g.l2bm_mv : g.l2bm_l2;
    case Resource::Forward:
    case Resource::Move:
        break;
    }
    return 0;
}
// The largest gap for any reader.
int longest_gap(Resource r, Slot writer, const Config::Gaps &gaps);
// The smallest number of steps from a read to a later write of the same words: a step reads before
// it writes, except that it does not read and write one face (H6).
inline int after_read(Resource r) { return r == Resource::Face ? 1 : 0; }

} // namespace kumiko::sim
