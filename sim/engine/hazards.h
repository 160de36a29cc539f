// Checks the rules that span words: when each location was written, and which moves are in flight.
// All units execute the same word at the same addresses, so this state is kept once per chip.
#pragma once

#include "sim/accesses.h"
#include "sim/engine/plan.h"

#include <array>
#include <cstdint>
#include <vector>

namespace kumiko::sim {

// A write: the slot, word and step. Step −1000 means long ago.
struct Stamp {
    int64_t step = -1000;
    uint32_t word = 0;
    Slot slot = Slot::Control;
};

// The memory that a move owns from its issue to its wait: one range in L2BM of each chosen L2B, and
// blocks or granules in DRAM or PDM.
struct MoveFootprint {
    uint32_t l2bs = 0; // of the chip
    int64_t l2bm = 0, l2bm_words = 0;
    uint32_t groups = 0;
    bool pdm = false;
    int64_t address = 0, stride = 0, blocks = 0, block = 0; // none when blocks is 0
    // Sorted; instead of blocks, each `block` words.
    std::vector<int64_t> granules;
};

struct PendingMove {
    Stamp issued;
    uint8_t tag = 0;
    uint64_t complete = 0; // the cycle
    bool in = false;       // it writes L2BM
    std::vector<MoveFootprint> reads, writes;
};

class Hazards {
public:
    Hazards(const Planned &program, const Config &config);

    // All take the step and the word of the access, and throw HazardError. Reads precede the step's
    // writes.
    void read_lm(int lm, int64_t step, uint32_t word, Slot slot) const;
    void read_grf(int grf, int address, int width, int64_t step, uint32_t word, Slot slot) const;
    void read_t(int t, int width, int64_t step, uint32_t word, Slot slot) const;
    void read_mask(int entry, int64_t step, uint32_t word, Slot slot) const;
    void read_base(int base, int64_t step, uint32_t word, Slot slot) const;
    void read_face(int face, int64_t step, uint32_t word, Slot slot) const;
    // Throws for a face of which only some rows were written.
    [[noreturn]] void fail_partly_written(int face, uint32_t rows, int64_t step, uint32_t word, Slot slot) const;
    void read_l1bm(int64_t begin, int64_t end, int64_t step, uint32_t word, Slot slot) const;
    void read_l2bm(int64_t begin, int64_t end, int64_t step, uint32_t word, Slot slot) const;
    void read_forward(int forward, int width, int64_t step, uint32_t word, Slot slot) const;

    void write_lm(int lm, const Stamp &s) { lm_[lm] = s; }
    void write_grf(int grf, int address, int width, const Stamp &s) {
        for (int j = 0; j < width; j++) grf_[grf][size_t(address + j)] = s;
    }
    void write_t(int t, int width, const Stamp &s) {
        for (int j = 0; j < width; j++) t_[2 * t + j] = s;
    }
    void write_mask(int entry, const Stamp &s) { mask_[entry] = s; }
    void write_base(int base, const Stamp &s) { base_[base] = s; }
    void write_face(int face, const Stamp &s) { face_[face] = s; }
    void write_forward(int forward, int width, const Stamp &s) { forward_[forward] = {s, width}; }
    // Throws if another slot of the same step writes an overlapping range.
    void write_l1bm(int64_t begin, int64_t end, const Stamp &s) { l1bm_.add(*this, begin, end, s, "L1BM"); }
    void write_l2bm(int64_t begin, int64_t end, const Stamp &s) { l2bm_.add(*this, begin, end, s, "L2BM"); }

    // H9: the L2 slot touches L2BM of every L2B.
    void check_moves(int64_t begin, int64_t end, bool writes, int64_t step, uint32_t word) const;
    // Throws for a move that overlaps one in flight, or reads what L2 has just written.
    void check_new_move(const PendingMove &move) const;
    void add_move(PendingMove move) { pending_.push_back(std::move(move)); }
    const std::vector<PendingMove> &pending() const { return pending_; }
    // Removes the moves with a tag, after its wait.
    void drop(uint8_t tag);

    // The step from which everything written so far may be read.
    int64_t settled() const;
    HazardParty party(const Stamp &s) const { return party(s.step, s.word, s.slot); }
    HazardParty party(int64_t step, uint32_t word, Slot slot) const;

private:
    struct Range {
        int64_t begin, end;
        Stamp stamp;
    };
    // The writes to a tree memory in the last steps.
    struct Recent {
        // Two per step for the longest gap that a configuration may have.
        std::array<Range, 16> ring{};
        int next = 0;
        void add(const Hazards &hazards, int64_t begin, int64_t end, const Stamp &s, const char *name);
    };
    void read_range(Resource resource, const char *name, const Recent &recent, int64_t begin, int64_t end, int64_t step,
                    uint32_t word, Slot slot) const;
    // Throws if a value written there may not be read yet; name() is the resource's.
    template<typename Name>
    void read(Resource r, const Stamp &written, Name &&name, int64_t step, uint32_t word, Slot slot) const {
        const int steps = gap(r, written.slot, slot, config_.gaps);
        if (step <= written.step + steps) fail_early(r, name(), written, steps, step, word, slot);
    }
    // Throws for a value that may not be read yet.
    [[noreturn]] void fail_early(Resource r, const std::string &name, const Stamp &written, int gap, int64_t step,
                                 uint32_t word, Slot slot) const;

    const Planned &program_;
    const Config &config_;
    Stamp lm_[2], t_[8], mask_[20], base_[4], face_[2];
    std::vector<Stamp> grf_[2];
    struct Forward {
        Stamp stamp;
        int width = 0;
    } forward_[4];
    Recent l1bm_, l2bm_;
    std::vector<PendingMove> pending_;
};

} // namespace kumiko::sim
