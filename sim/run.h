// Statistics of a run: time, utilisation of each unit, traffic, idle steps by reason, energy.
#pragma once

#include "sim/config.h"
#include "support/json.h"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kumiko::sim {

// Why the matrix units did no matrix operation in a step (for stalls, in four cycles).
enum class Idle : uint8_t {
    WaitLoad,    // the stream waits for a move into L2BM
    WaitStore,   // ... for a move out of it
    Queue,       // ... for a place in a group's queue
    MatrixWrite, // only a matrix is loaded
    Vector,      // the unit works in vector mode
    Alu,         // only the ALU works
    Moves,       // only the L1 and L2 slots work
    Empty,       // no slot works: a gap that a hazard rule requires, or an empty word
    Tail         // after the last word, until all writes and moves are complete
};
constexpr int idle_count = 9;
std::string idle_name(Idle reason);

// A link or a memory port whose traffic is counted.
enum class Link : uint8_t {
    DramRead,
    DramWrite,
    PdmRead,
    PdmWrite,
    L2bmIn,
    L2bmOut, // by MV
    L2ToL1,
    L1ToL2,
    L1ToL1, // by the L2 slot: bytes written to L1BMs (down) or read from them (up)
    L1ToPe,
    PeToL1, // by L1
    LmRead,
    LmWrite,
    GrfRead,
    GrfWrite
};
constexpr int link_count = 15;
std::string link_name(Link link);

// Lower bounds of any schedule; 0: not given.
struct Bounds {
    double macs = 0;                  // required by the work; 0: those that were executed
    double compulsory_dram_bytes = 0; // every operand read once, every result written once
    double bound_dram_bytes = 0;      // with the given on-chip memory
};

// The counts of one run, and the reports made from them.
class Run {
public:
    Config config;
    std::string program; // its name, for titles
    Bounds bounds;       // to be set before reporting

    uint64_t steps = 0, stall_cycles = 0, tail_cycles = 0;
    uint64_t cycles() const { return steps * cycles_per_step + stall_cycles + tail_cycles; }
    double seconds() const { return double(cycles()) / (config.clock_ghz * 1e9); }

    uint64_t matrix_f16_steps = 0, matrix_f32_steps = 0, vector_f16_steps = 0, vector_f32_steps = 0;
    std::array<uint64_t, 9> slot_steps{};           // steps in which a slot works, by Slot
    std::array<uint64_t, link_count> link_bytes{};  // over the whole chip
    std::array<uint64_t, idle_count> idle_cycles{}; // with matrix_steps·4 they add up to cycles()
    std::vector<uint64_t> dram_busy_cycles;         // of each group
    uint64_t moves = 0;
    std::vector<uint64_t> executed;    // of each word
    std::vector<std::string> warnings; // tags for which no word waits

    // Multiply–accumulates over the chip: by matrix operations, and in total.
    double matrix_macs() const;
    double macs() const;
    // Time bounds in cycles: matrix units at full rate; DRAM at full rate for the bytes of `bounds`
    // (or those moved, if 0).
    double matrix_bound_cycles() const;
    double dram_bound_cycles() const;
    // The greater bound / cycles: the figure of merit.
    double efficiency() const;

    struct EnergyPart {
        std::string name;
        double joules;
    };
    std::vector<EnergyPart> energy() const;

    std::string report() const; // for terminals
    Json json() const;
    std::string html() const; // one self-contained page
    std::string roofline_svg() const;

    // For ui.perfetto.dev; requires SimulateOptions::trace. Throws UserError without it, or if the
    // file cannot be written.
    std::string trace() const;
    void save_trace(const std::string &path) const;

    // The data of the trace.
    struct TraceStep {
        uint64_t cycle;
        uint32_t word;
    };
    struct TraceMove {
        uint64_t issued, begin, end;
        uint32_t word;
        uint16_t groups;
        uint8_t tag;
        bool in;
        uint64_t bytes;
        std::string text;
    };
    struct TraceData {
        std::vector<TraceStep> steps;
        std::vector<TraceMove> moves;
        std::vector<std::array<std::string, 9>> slots; // text of each word's slots
        std::vector<std::string> notes;
    };
    std::shared_ptr<TraceData> traced;
};

} // namespace kumiko::sim
