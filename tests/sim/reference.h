// A slow, independent simulator of the chip, one PE and one lane at a time, written from
// docs/chip.md. Tests compare the simulator with it. It models neither time nor hazards; unwritten
// memory reads as zero.
//
// One file, because it is one class, with a function for each unit.
#pragma once

#include "sim/memory.h"
#include "sim/operations.h"
#include "sim/program.h"

#include <bit>
#include <cmath>
#include <map>

namespace kumiko::sim::reference {

// ---- numbers ------------------------------------------------------------------------------------

inline float bits_to_float(uint32_t b) { return std::bit_cast<float>(b); }
inline uint32_t float_to_bits(float f) { return std::isnan(f) ? 0x7fc00000 : std::bit_cast<uint32_t>(f); }

inline float half_to_float(uint16_t h) {
    const double sign = h & 0x8000 ? -1 : 1;
    const int exponent = h >> 10 & 31, fraction = h & 1023;
    if (exponent == 31) return fraction ? std::nanf("") : float(sign * INFINITY);
    return float(sign * (exponent ? std::ldexp(1024 + fraction, exponent - 25) : std::ldexp(fraction, -24)));
}

inline uint16_t float_to_half(float f) {
    if (std::isnan(f)) return 0x7e00;
    const uint16_t sign = std::signbit(f) ? 0x8000 : 0;
    const double x = std::fabs(double(f));
    if (x >= 65520) return sign | 0x7c00;
    int exponent = x == 0 ? -14 : std::max(-14, std::ilogb(x));
    // of 2^(exponent − 10); ties to even
    double units = std::nearbyint(std::ldexp(x, 10 - exponent));
    if (units == 2048) units = 1024, exponent++;
    return uint16_t(sign | (units < 1024 ? int(units) : (exponent + 15) << 10 | (int(units) - 1024)));
}

inline float rsqrt_seed(float x) {
    if (std::isnan(x)) return x;
    if (x == 0) return std::copysign(INFINITY, x);
    if (x < 0) return std::nanf("");
    if (std::isinf(x)) return 0;
    int e = std::ilogb(x) & ~1; // even, rounded down
    const double m = std::ldexp(double(x), -e), octave = m >= 2 ? 2 : 1;
    const double middle = octave * (1 + (std::floor((m / octave - 1) * 64) + 0.5) / 64);
    return float(std::ldexp(std::nearbyint(512 / std::sqrt(middle)) / 512, -e / 2));
}

// ---- lanes of a LW ------------------------------------------------------------------------------

inline uint16_t lane16(uint64_t w, int i) { return uint16_t(w >> 16 * i); }
inline uint32_t lane32(uint64_t w, int i) { return uint32_t(w >> 32 * i); }
inline uint64_t with_lane(uint64_t w, int bits, int i, uint64_t v) {
    const uint64_t ones = (bits == 64 ? 0 : uint64_t(1) << bits) - 1;
    return (w & ~(ones << bits * i)) | (v & ones) << bits * i;
}

// A value of any type as a number; all 16- and 32-bit values are exact in a double.
inline double number(Type t, uint64_t bits) {
    switch (t) {
    case Type::I16:
        return int16_t(bits);
    case Type::U16:
        return uint16_t(bits);
    case Type::F16:
        return half_to_float(uint16_t(bits));
    case Type::I32:
        return int32_t(bits);
    case Type::U32:
        return uint32_t(bits);
    case Type::F32:
        return bits_to_float(uint32_t(bits));
    }
    return 0;
}
inline uint64_t float_bits(Type t, double x) {
    return t == Type::F16 ? float_to_half(float(x)) : float_to_bits(float(x));
}
inline bool is_float(Type t) { return t == Type::F16 || t == Type::F32; }

inline uint64_t extremum(Type t, uint64_t a, uint64_t b, bool greatest) {
    const double x = number(t, a), y = number(t, b);
    if (std::isnan(x) || std::isnan(y)) return float_bits(t, NAN);
    bool first = greatest ? x > y : x < y;
    if (x == y) first = greatest ? std::signbit(y) : std::signbit(x); // −0 < +0
    return first ? a : b;
}

inline uint64_t saturated(Type t, double x) {
    if (std::isnan(x)) return 0;
    const double high = t == Type::F16 ? 32767 : 2147483647.0, low = -high - 1;
    return uint64_t(int64_t(std::min(std::max(x, low), high)));
}

// One lane of an ALU operation.
inline uint64_t alu_lane(AluOp op, Type t, uint64_t a, uint64_t b) {
    const int width = is_16_bit(t) ? 16 : 32;
    const uint64_t ones = (uint64_t(1) << width) - 1;
    const bool is_signed = t == Type::I16 || t == Type::I32;
    const double x = number(t, a), y = number(t, b);
    switch (op) {
    case AluOp::Pass:
        return a;
    case AluOp::Not:
        return ~a;
    case AluOp::And:
        return a & b;
    case AluOp::Or:
        return a | b;
    case AluOp::Xor:
        return a ^ b;
    case AluOp::Add:
        return a + b;
    case AluOp::Sub:
        return a - b;
    case AluOp::Shl:
        return b >= uint64_t(width) ? 0 : a << b;
    case AluOp::Shr:
        if (is_signed) return uint64_t(int64_t(x) >> std::min<uint64_t>(b, 63));
        return b >= uint64_t(width) ? 0 : a >> b;
    case AluOp::Max:
        return extremum(t, a, b, true);
    case AluOp::Min:
        return extremum(t, a, b, false);
    case AluOp::Eq:
        return x == y ? ones : 0;
    case AluOp::Ne:
        return x == y ? 0 : ones;
    case AluOp::Lt:
        return x < y ? ones : 0;
    case AluOp::Le:
        return x <= y ? ones : 0;
    case AluOp::Relu:
        return extremum(t, a, 0, true);
    case AluOp::Relud:
        return x > 0 ? b : 0;
    case AluOp::Rsqrt:
        return float_bits(t, rsqrt_seed(float(x)));
    case AluOp::ToInt:
        return saturated(t, std::trunc(x));
    case AluOp::Round:
        return saturated(t, std::nearbyint(x));
    case AluOp::ToFloat:
        return width == 16 ? float_to_half(float(x)) : float_to_bits(float(x));
    default:
        return 0;
    }
}

inline uint32_t reduce_lane(Reduction r, uint32_t a, uint32_t b) {
    switch (r) {
    case Reduction::AddF32:
        return float_to_bits(bits_to_float(a) + bits_to_float(b));
    case Reduction::MaxF32:
        return uint32_t(extremum(Type::F32, a, b, true));
    case Reduction::MinF32:
        return uint32_t(extremum(Type::F32, a, b, false));
    case Reduction::AddI32:
        return a + b;
    case Reduction::MaxI32:
        return uint32_t(std::max(int32_t(a), int32_t(b)));
    case Reduction::MinI32:
        return uint32_t(std::min(int32_t(a), int32_t(b)));
    }
    return 0;
}

// Reduces the children's words, neighbouring pairs first.
inline uint64_t reduce(Reduction r, std::vector<uint64_t> words) {
    while (words.size() > 1) {
        std::vector<uint64_t> above;
        for (size_t i = 0; i + 1 < words.size(); i += 2)
            above.push_back(uint64_t(reduce_lane(r, lane32(words[i], 1), lane32(words[i + 1], 1))) << 32 |
                            reduce_lane(r, lane32(words[i], 0), lane32(words[i + 1], 0)));
        if (words.size() % 2) above.push_back(words.back());
        words = above;
    }
    return words[0];
}

// Adjacent pairs, level by level.
inline float sum_tree(std::vector<float> terms) {
    while (terms.size() > 1) {
        std::vector<float> above;
        for (size_t i = 0; i < terms.size(); i += 2) above.push_back(terms[i] + terms[i + 1]);
        terms = above;
    }
    return terms[0];
}

// ---- the chip -----------------------------------------------------------------------------------

// A slot's results in a step: [t][j] of each PE.
using Result = std::vector<std::array<std::array<uint64_t, 2>, 4>>;

class Chip {
public:
    Chip(const Config &config, HostMemory &memory) : c(config), memory(memory) {
        const size_t pes = size_t(c.total_pes());
        for (int i = 0; i < 2; i++) {
            lm[i].assign(pes, std::vector<uint64_t>(size_t(c.sizes.lm)));
            grf[i].assign(pes, std::vector<uint64_t>(size_t(c.sizes.grf)));
        }
        t.assign(pes, std::vector<uint64_t>(8));
        l1bm.assign(size_t(c.total_l1bs()), std::vector<uint64_t>(size_t(c.sizes.l1bm)));
        l2bm.assign(size_t(c.total_l2bs()), std::vector<uint64_t>(size_t(c.sizes.l2bm)));
        for (auto &f : faces) f.assign(size_t(c.total_mabs()), {});
        for (auto &f : forward) f.assign(pes, {});
    }

    void run(const Program &p) { run(p, 0, p.words.size(), 0, 0); }

    std::vector<std::vector<uint64_t>> lm[2], grf[2], t, l1bm, l2bm;

private:
    const Config &c;
    HostMemory &memory;
    // per MAB: [row][column], 16 or 32 bits
    using Face = std::vector<std::array<std::array<uint64_t, 16>, 16>>;
    Face faces[2];
    Result forward[4];
    int64_t iteration[2] = {};
    int base[4] = {};
    // masks by entry, per PE: [t][lane]
    std::map<int, std::vector<std::array<std::array<bool, 4>, 4>>> entries;

    // Runs words [begin, end); `opened` repeats of the first are already active.
    void run(const Program &p, size_t begin, size_t end, int depth, size_t opened) {
        for (size_t i = begin; i < end; i++) {
            const Word w = canonical(p.words[i]);
            size_t r = i == begin ? opened : 0;
            if (r < 2 && w.control.repeat[r].count) {
                const size_t stop = i + w.control.repeat[r].length;
                for (iteration[depth] = 0; iteration[depth] < w.control.repeat[r].count; iteration[depth]++)
                    run(p, i, stop, depth + 1, r + 1);
                iteration[depth] = 0;
                i = stop - 1;
                continue;
            }
            step(w);
        }
    }

    int64_t tree(const TreeAddress &a) const { return a.at + iteration[0] * a.repeat[0] + iteration[1] * a.repeat[1]; }
    int64_t port(const Port &p, int pe, int cycle) const {
        const PortAddress &a = p.address;
        int64_t at = a.listed ? a.at[size_t(cycle)] : a.at[0] + cycle * a.stride;
        at += iteration[0] * a.repeat[0] + iteration[1] * a.repeat[1];
        if (a.base) at += base[a.base - 1];
        if (a.by_t) at += lane16(t[size_t(pe)][size_t(2 * cycle)], 0);
        return at;
    }

    uint64_t source(const Word &w, Source s, int pe, int cycle, int j) const {
        const size_t p = size_t(pe);
        switch (s) {
        case Source::Lm0:
            return lm[0][p].at(size_t(port(w.lm0, pe, cycle) + j));
        case Source::Lm1:
            return lm[1][p].at(size_t(port(w.lm1, pe, cycle) + j));
        case Source::Grf0:
            return grf[0][p].at(size_t(port(w.grf0_read, pe, cycle) + j));
        case Source::Grf1:
            return grf[1][p].at(size_t(port(w.grf1_read, pe, cycle) + j));
        case Source::T:
            return t[p][size_t(2 * cycle + j)];
        case Source::Aluf:
            return forward[0][p][size_t(cycle)][size_t(j)];
        case Source::Mauf:
            return forward[1][p][size_t(cycle)][size_t(j)];
        case Source::Lbf:
            return forward[2][p][size_t(cycle)][size_t(j)];
        case Source::Mreadf:
            return forward[3][p][size_t(cycle)][size_t(j)];
        case Source::Imm:
            return w.immediate;
        case Source::Id: {
            const int mab = pe / 4, l1b = mab / c.mabs, l2b = l1b / c.l1bs;
            return uint64_t(pe % 4) | uint64_t(mab % c.mabs) << 16 | uint64_t(l1b % c.l1bs) << 32 | uint64_t(l2b) << 48;
        }
        case Source::None:
            break;
        }
        return 0;
    }

    // Whether the word's mask has a lane.
    bool masked_in(const Mask &m, int pe, int cycle, int lane) const {
        if (m.entry == 0) return true;
        if (m.entry >= 16) return pe % 4 == m.entry - 16;
        const auto it = entries.find(m.entry);
        return it != entries.end() && it->second[size_t(pe)][size_t(cycle)][size_t(lane)];
    }
    // The bits of word j that the mask lets through.
    uint64_t mask_bits(const Mask &m, MaskForm form, int pe, int cycle, int j) const {
        if (m.mode == MaskMode::None) return ~uint64_t(0);
        uint64_t bits = 0;
        for (int lane = 0; lane < 4; lane++) { // of 16 bits in this word
            bool in = false;
            switch (form) {
            case MaskForm::Lanes:
                in = masked_in(m, pe, cycle, lane);
                break;
            case MaskForm::Pairs:
                in = masked_in(m, pe, cycle, lane / 2 * 2) && masked_in(m, pe, cycle, lane / 2 * 2 + 1);
                break;
            case MaskForm::Wide:
                in = masked_in(m, pe, cycle, 2 * j + lane / 2);
                break;
            }
            if (in != m.invert) bits |= uint64_t(0xffff) << 16 * lane;
        }
        return bits;
    }

    Result mau(const Word &w) const {
        const Mau &m = w.mau;
        Result out(size_t(c.total_pes()));
        const bool f16 = m.precision == Type::F16;
        const auto c_value = [&](int pe, int cycle, int e) { // element e of the PE
            if (m.c == Source::None) return 0.f;
            if (!f16) return bits_to_float(lane32(source(w, m.c, pe, cycle, 0), e));
            if (m.narrow_c) return half_to_float(lane16(source(w, m.c, pe, cycle, 0), e));
            return bits_to_float(lane32(source(w, m.c, pe, cycle, e / 2), e % 2));
        };
        const auto store = [&](int pe, int cycle, int e, float y) {
            auto &words = out[size_t(pe)][size_t(cycle)];
            if (!f16)
                words[0] = with_lane(words[0], 32, e, float_to_bits(y));
            else if (m.narrow_y)
                words[0] = with_lane(words[0], 16, e, float_to_half(y));
            else
                words[size_t(e / 2)] = with_lane(words[size_t(e / 2)], 32, e % 2, float_to_bits(y));
        };
        const auto element = [&](Source s, int pe, int cycle, int e) {
            const uint64_t word = source(w, s, pe, cycle, 0);
            return f16 ? half_to_float(lane16(word, e)) : bits_to_float(lane32(word, e));
        };
        const float sign = m.negate ? -1.f : 1.f;
        const int lanes = f16 ? 4 : 2;
        for (int pe = 0; pe < c.total_pes(); pe++) {
            for (int cycle = 0; cycle < 4; cycle++) {
                if (m.op == MauOp::Pass && !m.narrow_y) {
                    for (int j = 0; j < m.width; j++)
                        out[size_t(pe)][size_t(cycle)][size_t(j)] = source(w, m.a, pe, cycle, j);
                    continue;
                }
                for (int e = 0; e < lanes; e++) {
                    float y = 0;
                    if (info(m.op).matrix) {
                        // y_i, i = lanes·p + e, of this PE's MAB.
                        const auto &face = faces[m.face][size_t(pe / 4)];
                        const size_t i = size_t(lanes * (pe % 4) + e);
                        std::vector<float> terms;
                        for (int k = 0; k < (f16 ? 16 : 4); k++) {
                            const int p = f16 ? k / 4 : k;
                            const float x = sign * element(m.a, pe / 4 * 4 + p, cycle, f16 ? k % 4 : m.half);
                            const float weight = f16 ? half_to_float(uint16_t(face[i][size_t(k)]))
                                                     : bits_to_float(uint32_t(face[i][size_t(2 * p + m.half)]));
                            terms.push_back(weight * x);
                        }
                        y = sum_tree(terms);
                        if (m.op == MauOp::Mfma) y = y + c_value(pe, cycle, e);
                    } else if (m.op == MauOp::Pass) {
                        y = bits_to_float(lane32(source(w, m.a, pe, cycle, e / 2), e % 2));
                    } else {
                        const float a = sign * element(m.a, pe, cycle, e);
                        if (m.op == MauOp::Vfma)
                            y = std::fma(a, element(m.b, pe, cycle, e), c_value(pe, cycle, e));
                        else if (m.op == MauOp::Vmul)
                            y = a * element(m.b, pe, cycle, e);
                        else
                            y = a + c_value(pe, cycle, e);
                    }
                    store(pe, cycle, e, y);
                }
            }
        }
        return out;
    }

    Result alu(const Word &w) const {
        const Alu &a = w.alu;
        Result out(size_t(c.total_pes()));
        const int bits = is_16_bit(a.type) ? 16 : 32;
        for (int pe = 0; pe < c.total_pes(); pe++) {
            for (int cycle = 0; cycle < 4; cycle++) {
                auto &words = out[size_t(pe)][size_t(cycle)];
                if (a.op == AluOp::SetMask) {
                    for (int lane = 0; lane < 4; lane++)
                        words[0] = with_lane(words[0], 16, lane, w.immediate >> (4 * cycle + lane) & 1 ? 0xffff : 0);
                    continue;
                }
                if (a.op == AluOp::Widen || a.op == AluOp::Narrow) {
                    for (int e = 0; e < 4; e++) {
                        const int j = e / 2;
                        if (a.op == AluOp::Widen) {
                            const uint16_t x = lane16(source(w, a.a, pe, cycle, 0), e);
                            const uint64_t y = a.type == Type::F16   ? float_to_bits(half_to_float(x))
                                               : a.type == Type::I16 ? uint64_t(int64_t(int16_t(x)))
                                                                     : uint64_t(x);
                            words[size_t(j)] = with_lane(words[size_t(j)], 32, e % 2, y);
                        } else {
                            const uint32_t x = lane32(source(w, a.a, pe, cycle, j), e % 2);
                            words[0] =
                                with_lane(words[0], 16, e, a.type == Type::F32 ? float_to_half(bits_to_float(x)) : x);
                        }
                    }
                    continue;
                }
                for (int j = 0; j < a.width; j++) {
                    if (a.op == AluOp::Rotate) {
                        words[size_t(j)] = source(w, a.a, pe / 4 * 4 + (pe + a.rotate) % 4, cycle, j);
                        continue;
                    }
                    const uint64_t x = source(w, a.a, pe, cycle, j), y = source(w, a.b, pe, cycle, j);
                    if (a.op == AluOp::Select) {
                        const uint64_t take =
                            mask_bits(w.mask, bits == 16 ? MaskForm::Lanes : MaskForm::Pairs, pe, cycle, j);
                        words[size_t(j)] = (x & take) | (y & ~take);
                        continue;
                    }
                    for (int e = 0; e < 64 / bits; e++) {
                        const uint64_t la = bits == 16 ? lane16(x, e) : lane32(x, e),
                                       lb = bits == 16 ? lane16(y, e) : lane32(y, e);
                        words[size_t(j)] = with_lane(words[size_t(j)], bits, e, alu_lane(a.op, a.type, la, lb));
                    }
                }
            }
        }
        return out;
    }

    bool l1_serves(const Word &w, int mab) const { return w.l1.mabs >> mab % c.mabs & 1; }

    // Offset in L1BM, from the operation's address, of word j of a PE in cycle t.
    int64_t l1_offset(const L1 &l, int pe, int cycle, int j) const {
        const int i = pe % (4 * c.mabs), mab = i / 4, p = i % 4, w = l.width;
        switch (l.op) {
        case L1Op::PeBroadcast:
            return w * cycle + j;
        case L1Op::MabBroadcast:
        case L1Op::MabReduce:
            return 4 * w * cycle + w * p + j;
        case L1Op::MabBroadcast4:
        case L1Op::MabReduce4:
            return w * c.mabs * cycle + 4 * w * (mab / 4) + w * p + j;
        default:
            return 4 * c.mabs * cycle + i;
        }
    }

    using Blocks = std::vector<std::vector<uint64_t>>; // words of each L1BM or L2BM

    Result read_face(const Word &w) {
        Result result(size_t(c.total_pes()));
        const int n = face_size(w.mr.precision), lanes = n / 4;
        for (int pe = 0; pe < c.total_pes(); pe++)
            for (int cycle = 0; cycle < 4; cycle++)
                for (int j = 0; j < w.mr.width; j++)
                    for (int e = 0; e < lanes; e++) {
                        auto &word = result[size_t(pe)][size_t(cycle)][size_t(j)];
                        const size_t column = size_t(w.mr.part * 4 * w.mr.width + w.mr.width * cycle + j);
                        word = with_lane(word, 64 / lanes, e,
                                         faces[w.mr.face][size_t(pe / 4)][size_t(lanes * (pe % 4) + e)][column]);
                    }
        return result;
    }

    // Downward: the words that PEs receive from L1BM. Upward: writes their words to new_l1bm.
    Result l1_transfer(const Word &w, Blocks &new_l1bm) {
        Result result(size_t(c.total_pes()));
        const L1 &l1 = w.l1;
        const int64_t at = tree(l1.at);
        std::map<std::pair<int, int64_t>, std::vector<uint64_t>> children; // [L1B, address]
        for (int pe = 0; pe < c.total_pes(); pe++) {
            if (!l1_serves(w, pe / 4)) continue;
            const int l1b = pe / (4 * c.mabs);
            for (int cycle = 0; cycle < 4; cycle++)
                for (int j = 0; j < l1.width; j++) {
                    const int64_t address = at + l1_offset(l1, pe, cycle, j);
                    if (is_upward(l1.op))
                        children[{l1b, address}].push_back(source(w, l1.from, pe, cycle, j));
                    else
                        result[size_t(pe)][size_t(cycle)][size_t(j)] = l1bm[size_t(l1b)].at(size_t(address));
                }
        }
        for (const auto &[where, words] : children)
            new_l1bm[size_t(where.first)].at(size_t(where.second)) =
                l1.op == L1Op::Gather ? words.at(0) : reduce(l1.reduction, words);
        return result;
    }

    void l2_transfer(const L2 &l2, Blocks &new_l1bm, Blocks &new_l2bm) {
        const int L = c.l1bs, b = c.links.l2_broadcast, s = c.links.l2_scatter;
        for (int u = 0; u < c.total_l2bs(); u++) {
            auto &parent = new_l2bm[size_t(u)];
            const auto &old_parent = l2bm[size_t(u)];
            const size_t in_l2 = size_t(tree(l2.l2bm)), in_l1 = size_t(tree(l2.l1bm)), second = size_t(tree(l2.second));
            for (int l = 0; l < L; l++) {
                auto &child = new_l1bm[size_t(u * L + l)];
                const auto &old_child = l1bm[size_t(u * L + l)];
                const bool chosen = l2.l1bs >> l & 1, named = l == l2.child;
                for (int cycle = 0; cycle < 4; cycle++) {
                    for (int j = 0; j < b; j++) {
                        const size_t i = size_t(b * cycle + j);
                        if (l2.op == L2Op::Broadcast && chosen) child.at(in_l1 + i) = old_parent.at(in_l2 + i);
                        if (l2.op == L2Op::Broadcast2 && chosen)
                            child.at(in_l1 + i) = old_parent.at((l < L / 2 ? in_l2 : second) + i);
                        if (l2.op == L2Op::UnicastDown && named) child.at(in_l1 + i) = old_parent.at(in_l2 + i);
                        if (l2.op == L2Op::UnicastUp && named) parent.at(in_l2 + i) = old_child.at(in_l1 + i);
                        if (l2.op == L2Op::Multicast && chosen)
                            child.at(in_l1 + i) = l1bm[size_t(u * L + l2.child)].at(second + i);
                        if (l2.op == L2Op::Reduce && l == 0) {
                            std::vector<uint64_t> words;
                            for (int k = 0; k < L; k++)
                                if (l2.l1bs >> k & 1) words.push_back(l1bm[size_t(u * L + k)].at(in_l1 + i));
                            parent.at(in_l2 + i) = reduce(l2.reduction, words);
                        }
                    }
                    for (int j = 0; j < s; j++) {
                        const size_t up = in_l2 + size_t(s * L * cycle + s * l + j),
                                     down = in_l1 + size_t(s * cycle + j);
                        if (l2.op == L2Op::Scatter && chosen) child.at(down) = old_parent.at(up);
                        if (l2.op == L2Op::Gather && chosen) parent.at(up) = old_child.at(down);
                    }
                }
            }
        }
    }

    // Sets the bits that a mask of mode Zero disables to zero.
    void zero_masked(const Word &w, Result &r, MaskForm form, int width) {
        if (w.mask.mode != MaskMode::Zero) return;
        for (int pe = 0; pe < c.total_pes(); pe++)
            for (int cycle = 0; cycle < 4; cycle++)
                for (int j = 0; j < width; j++)
                    r[size_t(pe)][size_t(cycle)][size_t(j)] &= mask_bits(w.mask, form, pe, cycle, j);
    }

    // A word to write when all results of the step are known.
    struct Write {
        uint64_t *to;
        uint64_t value, bits;
    };
    // Appends the writes of a result to the memories in `to`. They use the addresses by T and the
    // masks from before the step.
    void add_writes(const Word &w, const Result &r, uint8_t to, int width, const MaskForm *form, bool l1_slot,
                    std::vector<Write> &writes) {
        for (int pe = 0; pe < c.total_pes() && to; pe++) {
            if (l1_slot && !l1_serves(w, pe / 4)) continue;
            for (int cycle = 0; cycle < 4; cycle++)
                for (int j = 0; j < width; j++) {
                    const uint64_t bits =
                        form && w.mask.mode == MaskMode::Write ? mask_bits(w.mask, *form, pe, cycle, j) : ~uint64_t(0);
                    const uint64_t value = r[size_t(pe)][size_t(cycle)][size_t(j)];
                    const size_t p = size_t(pe);
                    const auto put = [&](std::vector<uint64_t> &memory, int64_t at) {
                        if (at >= 0 && at < int64_t(memory.size()))
                            writes.push_back({&memory[size_t(at)], value, bits});
                    };
                    if (to & ToLm0) put(lm[0][p], port(w.lm0, pe, cycle) + j);
                    if (to & ToLm1) put(lm[1][p], port(w.lm1, pe, cycle) + j);
                    if (to & ToGrf0) put(grf[0][p], port(w.grf0_write, pe, cycle) + j);
                    if (to & ToGrf1) put(grf[1][p], port(w.grf1_write, pe, cycle) + j);
                    if (to & ToT) put(t[p], 2 * cycle + j);
                }
        }
    }

    Face written_face(const Word &w) {
        Face face = faces[w.mw.face];
        const int n = face_size(w.mw.precision), lanes = n / 4;
        for (int pe = 0; pe < c.total_pes(); pe++)
            for (int cycle = 0; cycle < 4; cycle++)
                for (int j = 0; j < w.mw.width; j++)
                    for (int e = 0; e < lanes; e++) {
                        const size_t row = size_t(w.mw.part * 4 * w.mw.width + w.mw.width * cycle + j);
                        const uint64_t word = source(w, w.mw.from, pe, cycle, j);
                        face[size_t(pe / 4)][row][size_t(lanes * (pe % 4) + e)] =
                            lanes == 4 ? lane16(word, e) : lane32(word, e);
                    }
        return face;
    }

    void set_mask_entry(const Word &w, const Result &alu_result) {
        const MaskForm alu_form = mask_form(w.alu);
        auto next = entries.count(w.alu.mask) ? entries[w.alu.mask]
                                              : std::vector<std::array<std::array<bool, 4>, 4>>(size_t(c.total_pes()));
        for (int pe = 0; pe < c.total_pes(); pe++)
            for (int cycle = 0; cycle < 4; cycle++)
                for (int lane = 0; lane < 4; lane++) {
                    const uint64_t bits =
                        w.mask.mode == MaskMode::Write ? mask_bits(w.mask, alu_form, pe, cycle, 0) : ~uint64_t(0);
                    if (lane16(bits, lane))
                        next[size_t(pe)][size_t(cycle)][size_t(lane)] =
                            lane16(alu_result[size_t(pe)][size_t(cycle)][0], lane) != 0;
                }
        entries[w.alu.mask] = next;
    }

    void step(const Word &w) {
        // Sources.
        Result mau_result, alu_result, mr_result, l1_result;
        if (w.mau.op != MauOp::None) mau_result = mau(w);
        if (w.alu.op != AluOp::None) alu_result = alu(w);
        if (w.mr.on) mr_result = read_face(w);
        Blocks new_l1bm = l1bm, new_l2bm = l2bm;
        if (w.l1.op != L1Op::None) l1_result = l1_transfer(w, new_l1bm);
        if (w.l2.op != L2Op::None) l2_transfer(w.l2, new_l1bm, new_l2bm);
        if (w.mv.op != MvOp::None) move(w.mv, new_l2bm);

        // Results under the mask, and their writes.
        const MaskForm mau_form = mask_form(w.mau), alu_form = mask_form(w.alu);
        const int mau_width = mau_result_width(w.mau), alu_width = alu_result_width(w.alu);
        if (!mau_result.empty()) zero_masked(w, mau_result, mau_form, mau_width);
        if (!alu_result.empty()) zero_masked(w, alu_result, alu_form, alu_width);
        std::vector<Write> writes;
        if (!mau_result.empty()) add_writes(w, mau_result, w.mau.to, mau_width, &mau_form, false, writes);
        if (!alu_result.empty()) add_writes(w, alu_result, w.alu.to, alu_width, &alu_form, false, writes);
        if (!mr_result.empty()) add_writes(w, mr_result, w.mr.to, w.mr.width, nullptr, false, writes);
        if (!l1_result.empty()) add_writes(w, l1_result, w.l1.to, w.l1.width, nullptr, true, writes);
        const Face new_face = w.mw.on ? written_face(w) : Face();
        if (w.alu.mask) set_mask_entry(w, alu_result);

        // The new state.
        for (const Write &x : writes) *x.to = (*x.to & ~x.bits) | (x.value & x.bits);
        if (w.mw.on) faces[w.mw.face] = new_face;
        l1bm = new_l1bm;
        l2bm = new_l2bm;
        if (!alu_result.empty() && w.alu.op != AluOp::SetMask) forward[0] = alu_result;
        if (!mau_result.empty()) forward[1] = mau_result;
        if (!l1_result.empty() && !is_upward(w.l1.op)) forward[2] = l1_result;
        if (!mr_result.empty()) forward[3] = mr_result;
        if (w.control.base) {
            int &r = base[*w.control.base];
            r = int16_t((w.control.base_add ? r : 0) + w.control.base_value);
        }
    }

    // Word by word.
    void move(const Mv &m, std::vector<std::vector<uint64_t>> &to) {
        const int64_t words = int64_t(m.blocks) * m.size * c.moves.block;
        std::vector<int> units;
        for (int u = 0; u < c.total_l2bs(); u++)
            if (m.l2bs >> u & 1) units.push_back(u);
        const auto space = m.pdm ? HostMemory::Space::Pdm : HostMemory::Space::Dram;
        const auto l2 = [&](int u, int64_t at) { return l2bm[size_t(u)].at(size_t(at)); };
        if (m.op == MvOp::Copy || m.op == MvOp::ReduceTo) {
            for (int64_t i = 0; i < words; i++) {
                if (m.op == MvOp::Copy) {
                    for (const int u : units) to[size_t(u)].at(size_t(m.to + i)) = l2(m.child, m.l2bm + i);
                    continue;
                }
                std::vector<uint64_t> all;
                for (const int u : units) all.push_back(l2(u, m.l2bm + i));
                to[m.child].at(size_t(m.to + i)) = reduce(m.reduction, all);
            }
            return;
        }
        for (int g = 0; g < c.groups; g++) {
            if (!(m.groups >> g & 1)) continue;
            std::vector<int> own;
            for (const int u : units)
                if (m.chip || u / c.l2bs == g) own.push_back(u);
            for (int64_t i = 0; i < words; i++) {
                const int64_t block = int64_t(m.size) * c.moves.block;
                int64_t address = m.address + i / block * m.stride + i % block;
                if (m.indirect) {
                    uint64_t pair;
                    memory.read_dram(g, m.table + i / c.moves.granule / 2, {&pair, 1});
                    address = m.address + int64_t(lane32(pair, int(i / c.moves.granule % 2))) * c.moves.granule +
                              i % c.moves.granule;
                }
                const int64_t deal = i / c.moves.block, n = int64_t(own.size());
                const int distributes = own[size_t(deal % n)];
                const int64_t place = m.l2bm + deal / n * c.moves.block + i % c.moves.block;
                uint64_t word = 0;
                if (m.op == MvOp::Broadcast || m.op == MvOp::Scatter) memory.read(space, g, address, {&word, 1});
                if (m.op == MvOp::Broadcast)
                    for (const int u : own) to[size_t(u)].at(size_t(m.l2bm + i)) = word;
                if (m.op == MvOp::Scatter) to[size_t(distributes)].at(size_t(place)) = word;
                if (m.op == MvOp::Gather) word = l2(distributes, place);
                if (m.op == MvOp::Reduce) {
                    std::vector<uint64_t> all;
                    for (const int u : own) all.push_back(l2(u, m.l2bm + i));
                    word = reduce(m.reduction, all);
                }
                if (m.op == MvOp::Gather || m.op == MvOp::Reduce) memory.write(space, g, address, {&word, 1});
            }
        }
    }
};

} // namespace kumiko::sim::reference
