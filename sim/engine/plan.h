// A program made ready to run: once for each word, whatever does not change from step to step.
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

// What a word does, beside its own fields.
struct PlannedWord {
    Word word; // canonical
    // By Source: who reads it, at the greatest width.
    std::array<PlannedAccess, source_count> reads{};
    // LM0, LM1, GRF0, GRF1, T.
    std::array<PlannedAccess, 5> writes{};
    // The ports in use, with where their addresses come from.
    struct UsedPort {
        uint8_t index;
        uint8_t width;
        bool moves; // by a REP, a base register or T: else `fixed` holds its addresses
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

    // Of the next step, when this word is the last of a REP that repeats: handled by the runner. Nesting:
    int depth = 0; // REPs around this word
};

struct Planned {
    std::vector<PlannedWord> words;
    bool matrix_reads = false; // some word has MR

    // Checks every word, the REPs' nesting, what may not stand inside, and where the program ends. Throws.
    Planned(const Program &program, const Config &config);
};

} // namespace kumiko::sim
