#include "sim/engine/hazards.h"

#include <fmt/format.h>

#include <algorithm>

namespace kumiko::sim {

Hazards::Hazards(const Planned &program, const Config &config) : program_(program), config_(config) {
    for (auto &g : grf_) g.resize(size_t(config.sizes.grf));
}

HazardParty Hazards::party(int64_t step, uint32_t word, Slot slot) const {
    const Word &w = program_.words[word].word;
    return {step, int64_t(word), disassemble(w, slot), w.note};
}

void Hazards::fail_early(Resource r, const std::string &name, const Stamp &s, int gap, int64_t step, uint32_t word,
                         Slot slot) const {
    const Rule rule = r <= Resource::Lm1 ? Rule::H2 : r == Resource::Face ? Rule::H6 : Rule::H3;
    throw HazardError(rule, name,
                      fmt::format("written at step {}, it may be read from step {}, and is read at step {}", s.step,
                                  s.step + 1 + gap, step),
                      party(s), party(step, word, slot));
}

void Hazards::read_lm(int lm, int64_t step, uint32_t word, Slot slot) const {
    read(
        Resource(int(Resource::Lm0) + lm), lm_[lm], [&] { return fmt::format("LM{}", lm); }, step, word, slot);
}

void Hazards::read_grf(int grf, int address, int width, int64_t step, uint32_t word, Slot slot) const {
    for (int j = 0; j < width; j++)
        read(
            Resource(int(Resource::Grf0) + grf), grf_[grf][size_t(address + j)],
            [&] { return fmt::format("GRF{}[{}]", grf, address + j); }, step, word, slot);
}

void Hazards::read_t(int t, int width, int64_t step, uint32_t word, Slot slot) const {
    for (int j = 0; j < width; j++)
        read(
            Resource::T, t_[2 * t + j], [] { return "T"; }, step, word, slot);
}

void Hazards::read_mask(int entry, int64_t step, uint32_t word, Slot slot) const {
    read(
        Resource::Mask, mask_[entry], [&] { return fmt::format("mask entry {}", entry); }, step, word, slot);
}

void Hazards::read_base(int base, int64_t step, uint32_t word, Slot slot) const {
    read(
        Resource::Base, base_[base], [&] { return fmt::format("base register b{}", base); }, step, word, slot);
}

void Hazards::read_face(int face, int64_t step, uint32_t word, Slot slot) const {
    read(
        Resource::Face, face_[face], [&] { return face ? "face y" : "face x"; }, step, word, slot);
}

void Hazards::fail_partly_written(int face, uint32_t rows, int64_t step, uint32_t word, Slot slot) const {
    std::string text;
    for (int first = 0; first < 16; first++) {
        if (!(rows >> first & 1)) continue;
        int last = first;
        while (rows >> (last + 1) & 1) last++;
        text += fmt::format("{}{} to {}", text.empty() ? "" : ", ", first, last);
        first = last;
    }
    throw HazardError(Rule::H6, face ? "face y" : "face x", fmt::format("only its rows {} have been written", text),
                      party(face_[face]), party(step, word, slot));
}

void Hazards::read_forward(int forward, int width, int64_t step, uint32_t word, Slot slot) const {
    constexpr const char *names[] = {"aluf", "mauf", "lbf", "mreadf"};
    const Forward &f = forward_[forward];
    if (f.stamp.step == step - 1) {
        if (width <= f.width) return;
        throw HazardError(Rule::H10, names[forward],
                          fmt::format("it holds {} LW a cycle, and {} are read", f.width, width), party(f.stamp),
                          party(step, word, slot));
    }
    if (f.stamp.step < 0)
        throw HazardError(Rule::H10, names[forward],
                          "no slot has produced it; a forward can be read only in the step after it was produced",
                          {-1, -1, "(no instruction)", ""}, party(step, word, slot));
    throw HazardError(Rule::H10, names[forward],
                      fmt::format("made at step {}, it may be read at step {} only, and is read at step {}",
                                  f.stamp.step, f.stamp.step + 1, step),
                      party(f.stamp), party(step, word, slot));
}

void Hazards::read_l1bm(int64_t begin, int64_t end, int64_t step, uint32_t word, Slot slot) const {
    read_range(Resource::L1bm, "L1BM", l1bm_, begin, end, step, word, slot);
}

void Hazards::read_l2bm(int64_t begin, int64_t end, int64_t step, uint32_t word, Slot slot) const {
    read_range(Resource::L2bm, "L2BM", l2bm_, begin, end, step, word, slot);
}

void Hazards::read_range(Resource resource, const char *name, const Recent &recent, int64_t begin, int64_t end,
                         int64_t step, uint32_t word, Slot slot) const {
    for (const Range &r : recent.ring) {
        if (r.begin >= end || begin >= r.end) continue;
        read(
            resource, r.stamp,
            [&] { return fmt::format("{}[{}..{}]", name, std::max(begin, r.begin), std::min(end, r.end) - 1); }, step,
            word, slot);
    }
}

void Hazards::Recent::add(const Hazards &hazards, int64_t begin, int64_t end, const Stamp &s, const char *name) {
    for (const Range &r : ring) {
        if (r.stamp.step == s.step && r.begin < end && begin < r.end)
            throw HazardError(Rule::H1,
                              fmt::format("{}[{}..{}]", name, std::max(begin, r.begin), std::min(end, r.end) - 1),
                              "it is written twice in one step", hazards.party(r.stamp), hazards.party(s));
    }
    ring[size_t(next)] = {begin, end, s};
    next = (next + 1) % int(ring.size());
}

namespace {

bool overlap(int64_t a, int64_t a_words, int64_t b, int64_t b_words) { return a < b + b_words && b < a + a_words; }

// Whether any of n blocks of `block` words at address + i·stride overlaps [begin, begin + words).
bool blocks_overlap(const MoveFootprint &f, int64_t begin, int64_t words) {
    if (!f.granules.empty()) {
        const auto it = std::lower_bound(f.granules.begin(), f.granules.end(), begin - f.block + 1);
        return it != f.granules.end() && *it < begin + words;
    }
    int64_t first = f.address, stride = f.stride;
    if (stride < 0) first += (f.blocks - 1) * stride, stride = -stride;
    if (stride == 0) return overlap(first, f.block, begin, words);
    // The last block that begins before the range's end reaches furthest into it.
    const int64_t i = std::min((begin + words - 1 - first) / stride, f.blocks - 1);
    return begin + words > first && i >= 0 && first + i * stride + f.block > begin;
}

bool meet(const MoveFootprint &a, const MoveFootprint &b) {
    if ((a.l2bs & b.l2bs) && overlap(a.l2bm, a.l2bm_words, b.l2bm, b.l2bm_words)) return true;
    if (!(a.groups & b.groups) || a.pdm != b.pdm) return false;
    const MoveFootprint &few = a.granules.size() + size_t(a.blocks) <= b.granules.size() + size_t(b.blocks) ? a : b;
    const MoveFootprint &many = &few == &a ? b : a;
    if (many.granules.empty() && many.blocks == 0) return false;
    for (const int64_t g : few.granules)
        if (blocks_overlap(many, g, few.block)) return true;
    if (few.granules.empty())
        for (int64_t i = 0; i < few.blocks; i++)
            if (blocks_overlap(many, few.address + i * few.stride, few.block)) return true;
    return false;
}

bool any_meet(const std::vector<MoveFootprint> &a, const std::vector<MoveFootprint> &b) {
    for (const MoveFootprint &x : a)
        for (const MoveFootprint &y : b)
            if (meet(x, y)) return true;
    return false;
}

} // namespace

void Hazards::check_moves(int64_t begin, int64_t end, bool writes, int64_t step, uint32_t word) const {
    for (const PendingMove &m : pending_) {
        const auto touches = [&](const std::vector<MoveFootprint> &footprints) {
            return std::any_of(footprints.begin(), footprints.end(), [&](const MoveFootprint &f) {
                return f.l2bs && overlap(f.l2bm, f.l2bm_words, begin, end - begin);
            });
        };
        const bool destination = touches(m.writes);
        if (destination || (writes && touches(m.reads)))
            throw HazardError(Rule::H9, fmt::format("L2BM[{}..{}]", begin, end - 1),
                              fmt::format("the move with tag {} {} it until a wait for that tag", m.tag,
                                          destination ? "writes" : "reads"),
                              party(m.issued), party(step, word, Slot::L2));
    }
}

void Hazards::check_new_move(const PendingMove &m) const {
    for (const MoveFootprint &f : m.reads)
        if (f.l2bs) read_l2bm(f.l2bm, f.l2bm + f.l2bm_words, m.issued.step, m.issued.word, Slot::Mv);
    for (const PendingMove &p : pending_) {
        const bool clash = any_meet(p.writes, m.writes) || any_meet(p.writes, m.reads) || any_meet(p.reads, m.writes);
        if (clash)
            throw HazardError(Rule::H9, "the words of a move",
                              fmt::format("no wait for tag {} is between these two moves, which overlap", p.tag),
                              party(p.issued), party(m.issued));
    }
}

void Hazards::drop(uint8_t tag) {
    std::erase_if(pending_, [&](const PendingMove &m) { return m.tag == tag; });
}

int64_t Hazards::settled() const {
    int64_t last = 0;
    const auto stamp = [&](Resource r, const Stamp &s) {
        last = std::max(last, s.step + 1 + longest_gap(r, s.slot, config_.gaps));
    };
    for (const Stamp &s : lm_) stamp(Resource::Lm0, s);
    for (const Stamp &s : t_) stamp(Resource::T, s);
    for (const Stamp &s : mask_) stamp(Resource::Mask, s);
    for (const Stamp &s : base_) stamp(Resource::Base, s);
    for (const Stamp &s : face_) stamp(Resource::Face, s);
    for (const auto &grf : grf_)
        for (const Stamp &s : grf) stamp(Resource::Grf0, s);
    for (const Range &r : l1bm_.ring) stamp(Resource::L1bm, r.stamp);
    for (const Range &r : l2bm_.ring) stamp(Resource::L2bm, r.stamp);
    return last;
}

} // namespace kumiko::sim
