// A program prepared for execution: for each word, everything that does not change from step to
// step.
#pragma once

#include "sim/assembler.h"
#include "sim/program.h"
#include "sim/run.h"

#include <array>
#include <vector>

namespace kumiko::sim {

// The ports of a word that have addresses.
enum PortIndex : uint8_t { PortLm0, PortLm1, PortGrf0Read, PortGrf1Read, PortGrf0Write, PortGrf1Write };
constexpr int port_count = 6;

struct PlannedAccess {
    uint8_t width = 0; // LW a cycle; 0: none
    Slot slot = Slot::Control;
};

// Additional information about a word.
struct PlannedWord {
    Word word; // canonical
    // By Source: the reading slot, at the greatest width.
    std::array<PlannedAccess, source_count> reads{};
    // LM0, LM1, GRF0, GRF1, T.
    std::array<PlannedAccess, 5> writes{};
    // The ports in use, and the origin of their addresses.
    struct UsedPort {
        uint8_t index;
        uint8_t width;
        bool moves; // with a REP, a base register or T; otherwise `fixed` holds the addresses
        Slot slot;
    };
    std::array<UsedPort, port_count> ports{};
    int ports_used = 0;

    bool needed[4] = {};     // whether the next step may read aluf, mauf, lbf, mreadf
    bool matrix = false;     // a matrix operation of MAU
    bool plain = true;       // no masks, no addressing by T
    Idle idle = Idle::Empty; // why the matrix units are idle in it
    uint32_t l1_mabs = 0;    // the MABs that L1 serves
    uint32_t l2_l1bs = 0;

    // The runner handles the next step after the last word of a repeating REP.
    int depth = 0; // REPs around this word
};

struct Planned {
    std::vector<PlannedWord> words;
    bool matrix_reads = false; // some word has MR

    // Checks every word, the nesting of REPs, what a REP may contain, and the end of the program.
    // Throws UserError or HazardError.
    Planned(const Program &program, const Config &config);
};

} // namespace kumiko::sim
