// The machine's parameters: number of each unit, size of each memory, rate of each link, latency
// until a written value may be read. A configuration is a JSON file; three are built in: `small`
// (tests), `medium` (an eighth), `full` (like MN-Core 2). docs/chip.md describes the machine.
//
// Units: sizes and addresses in long words (LW) of 8 bytes, rates in LW per cycle, gaps in steps of
// four cycles.
#pragma once

#include "support/json.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kumiko::sim {

constexpr int cycles_per_step = 4;
constexpr int pes_per_mab = 4; // fixed by the operations: a matrix unit serves four PEs

// The parameters of one machine.
struct Config {
    std::string name;
    std::string about;
    std::string file; // the file it was loaded from; "" if built in

    // The tree: groups in the chip, L2Bs in a group, L1Bs in an L2B, MABs in an L1B; four PEs in a
    // MAB.
    int groups = 0, l2bs = 0, l1bs = 0, mabs = 0;
    double clock_ghz = 0;

    // LW: LM0 and LM1 of a PE each, GRF0 and GRF1 of a PE each, L1BM of an L1B, L2BM of an L2B, PDM
    // and DRAM of a group.
    struct Sizes {
        int64_t lm = 0, grf = 0, l1bm = 0, l2bm = 0, pdm = 0, dram = 0;
    } sizes;

    // A value written at step s may be read from step s + 1 + gap.
    struct Gaps {
        int lm = 0;         // any address of the same LM
        int grf = 0;        // the same address
        int t = 0;          // the same word
        int mask = 0;       // the same entry
        int base = 0;       // the same base register
        int matrix = 0;     // the same face
        int l1bm_by_pe = 0; // L1BM written by the L1 slot, read by L1 or L2
        int l1bm_by_l2 = 0; // L1BM written by the L2 slot, read by L1
        int l1bm_l2_l2 = 0; // L1BM written by the L2 slot, read by the L2 slot
        int l2bm_l2 = 0;    // L2BM written by the L2 slot, read by the L2 slot
        int l2bm_mv = 0;    // L2BM written by the L2 slot, read by a move off the chip
    } gaps;

    struct Links {
        int l2_broadcast = 0; // L2BM to each L1BM, also reduce, unicast, multicast
        int l2_scatter = 0;   // to or from each L1BM
    } links;

    // Moves between DRAM, PDM and L2BM (the MV slot).
    struct Moves {
        int issue_steps = 0; // at most one per this number of steps
        int queue = 0;       // moves waiting in a group, in addition to the one in service
        int l2bm_rate = 0;   // each of an L2BM's two ports, in and out
        int across_rate = 0; // L2BM to L2BM of another group
        int block = 0;       // sizes are multiples of it
        // DRAM addresses and strides are multiples of it; the unit of an indirect move.
        int granule = 0;
        int table = 0;     // maximum entries of an indirect move's table
        int dram_rate = 0; // of a group
        // Cycles from issue to the first word; overlaps with moves ahead in the queue.
        int dram_start = 0;
        int turnaround = 0;    // cycles at a change between reading and writing
        int indirect_rate = 0; // of a group
        int pdm_rate = 0, pdm_across_rate = 0, pdm_start = 0;
        double host_gb_per_s = 0;
    } moves;

    struct Repeat {
        int length = 0; // maximum words in a REP body
        int nest = 0;   // maximum nesting of REPs
    } repeat;

    // Picojoules. `source` cites the numbers, and is printed beside every estimate.
    struct Energy {
        std::string source;
        double fp16_mul = 0, fp32_mul = 0, fp32_add = 0; // one operation
        double alu = 0;                                  // one LW
        double grf = 0, lm = 0, l1bm = 0, l2bm = 0;      // one LW read or written
        double tree = 0;                                 // one LW over one link of the tree
        double dram = 0;                                 // one LW
        double static_watts = 0;                         // of the chip
    } energy;

    // Totals.
    int total_l2bs() const { return groups * l2bs; }
    int total_l1bs() const { return total_l2bs() * l1bs; }
    int total_mabs() const { return total_l1bs() * mabs; }
    int total_pes() const { return total_mabs() * pes_per_mab; }
    int pes_per_l1b() const { return mabs * pes_per_mab; }
    int64_t fp16_macs_per_cycle() const { return int64_t(total_mabs()) * 256; }
    int64_t fp32_macs_per_cycle() const { return int64_t(total_mabs()) * 32; }
    int64_t dram_bytes_per_cycle() const { return int64_t(groups) * moves.dram_rate * 8; }

    // "small", "medium", "full", or the path of a JSON file. Throws UserError for an unknown name
    // (and lists the known ones), a file that cannot be read, a missing, misspelt or mistyped key,
    // and inconsistent numbers.
    static Config load(const std::string &name_or_path);
    static std::vector<std::string> names();
    static Config from_json(const Json &json, const std::string &document);
    Json to_json() const;

    // Throws UserError that names the numbers that are inconsistent or exceed what an instruction
    // word can encode.
    void check(const std::string &document) const;
    // A summary of a few lines.
    std::string to_string() const;
};

} // namespace kumiko::sim
