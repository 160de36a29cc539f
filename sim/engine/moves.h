// Off-chip moves and moves among L2BMs: their timing and their data.
//
// Moves start in issue order, so a move's times are known when it is issued: it waits for the
// memories of its groups and the L2BM ports that it uses, and for the start latency, which overlaps
// with earlier moves. The data is copied at once: H9 forbids other accesses to both ends until the
// wait.
#pragma once

#include "sim/engine/chip_state.h"
#include "sim/engine/hazards.h"
#include "sim/memory.h"
#include "sim/move_times.h"

namespace kumiko::sim {

class Moves {
public:
    Moves(const Config &config, ChipState &chip, HostMemory &memory);

    // Requires a checked word.
    MoveTimes time(const Mv &move, uint64_t now);
    // Computes the words that it reads and writes. Reads the table of an indirect move: throws
    // UserError for an entry outside DRAM.
    void footprints(const Mv &move, PendingMove &out) const;
    // Throws UserError if a source word was never written, unless undefined words read as zero.
    void copy_data(const Mv &move, bool undefined_is_zero);

    const std::vector<uint64_t> &dram_busy() const { return dram_busy_; }
    // Bytes over DRAM or PDM and over the L2BM ports, summed over the chip.
    struct Traffic {
        uint64_t memory = 0, l2bm_in = 0, l2bm_out = 0;
    };
    // The traffic of one move.
    Traffic traffic(const Mv &move) const;

private:
    // A group's memory and the L2Bs that it serves.
    struct Stream {
        int group;
        std::vector<int> l2bs;
    };
    // The memories that a move uses, with their L2Bs.
    std::vector<Stream> streams(const Mv &m) const;
    // The numbers in a set of L2Bs.
    std::vector<int> unit_numbers(uint32_t l2bs) const;
    // The granules of an indirect move in the group.
    std::vector<int64_t> granules(const Mv &m, int group) const;
    template<typename F>
    void each_block(const Mv &m, int group, F &&f) const; // f(address, words)
    class L2bmData;
    void load_stream(const Mv &m, const Stream &s, bool undefined_is_zero, L2bmData &l2bm);
    void store_stream(const Mv &m, const Stream &s, const L2bmData &l2bm);

    const Config &config_;
    ChipState &chip_;
    HostMemory &memory_;
    MoveClock clock_;
    std::vector<uint64_t> dram_busy_;
};

} // namespace kumiko::sim
