// The elements of the search for a move: contents of a memory, hops between neighbouring memories,
// and three operations on a hop:
//   push   perform it in its natural form on the current state; returns the resulting state
//   pull   perform it in its natural form to reach the required state; returns the state it needs
//   match  find steps from the current to the required state, if there are any
// A move is a chain of hops: pushes from the source, one match, pulls into the destination.
#pragma once

#include "targets/chip/move/move.h"

#include <functional>
#include <optional>
#include <unordered_map>

namespace kumiko::chip {

using Ops = std::vector<MicroOp>;

// Special element numbers of a place.
constexpr int32_t anything = -1;  // no element: padding or undefined
constexpr int32_t untouched = -2; // required: the lane must not be written

// The current or required contents of a memory from `base` on.
struct State {
    Memory memory = Memory::Dram;
    int64_t base = 0;
    Contents table;
};

// The smallest write of a step, in LW: destinations own their words up to a multiple of it.
int64_t grain_of(Memory memory, const sim::Config &config);
inline int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// Whether the word `have` satisfies the requirement `want`.
inline bool satisfies(const int32_t *want, const int32_t *have, int lanes) {
    for (int l = 0; l < lanes; l++)
        if (want[l] != anything && want[l] != have[l]) return false;
    return true;
}
inline bool requires_element(const int32_t *want, int lanes) { // whether an element is required
    for (int l = 0; l < lanes; l++)
        if (want[l] >= 0) return true;
    return false;
}
// Whether some unit requires an element at the address, and whether some unit forbids writing it.
bool required_anywhere(const Contents &table, int64_t address);
bool forbidden_anywhere(const Contents &table, int64_t address);
// Merges the requirement `more` into `want`; false if they conflict.
bool join(int32_t *want, const int32_t *more, int lanes);

// Finds the position of elements in a unit, lane by lane.
class Finder {
public:
    explicit Finder(const Contents &table) : table_(table), units_(size_t(table.units())) {}
    // The addresses of words in the unit that satisfy `want`, ascending. `want` must require an
    // element.
    std::vector<int64_t> find(int unit, const int32_t *want);
    // The addresses of an element in any lane.
    const std::vector<int64_t> &element(int unit, int32_t element);

private:
    const Contents &table_;
    struct Unit {
        bool made = false;
        std::unordered_map<int32_t, std::vector<int64_t>> at;
    };
    std::vector<Unit> units_;
};

// A hop: its operations, and the state after it (push) or before it (pull).
struct Hop {
    State state;
    Ops ops;
    std::string text;
};

// Performs hops, with what the search knows about the whole move.
struct Hops {
    const sim::Config &config;
    Scratch scratch; // what remains of it
    // The final state, which shows what each unit will need.
    const State *goal = nullptr;
    // The initial state, which shows what each unit has.
    const State *origin = nullptr;
    bool thorough = false; // also try masks by unit, which allow any arrangement
    int next_tag = 0;      // next tag for off-chip moves

    // Empty if the hop has no form that does it.
    std::vector<Hop> push(const State &from, Memory to, int64_t base);
    std::vector<Hop> pull(const State &to, Memory from, int64_t base);
    std::optional<Hop> match(const State &from, const State &to);

    std::optional<Hop> match_l1_down(const State &from, const State &to);
    std::optional<Hop> match_l1_up(const State &from, const State &to);
    std::optional<Hop> match_l1_up_whole(const State &from, const State &to);
    std::optional<Hop> match_transpose(const State &from, const State &to);
    std::optional<Hop> match_l2_down(const State &from, const State &to);
    std::optional<Hop> match_l2_up(const State &from, const State &to);
    std::optional<Hop> match_in(const State &from, const State &to);
    std::optional<Hop> match_out(const State &from, const State &to);
    std::optional<Hop> match_pe(const State &from, const State &to);

    std::optional<int> tag();
};

int rank_of(Memory memory); // 0: DRAM and PDM, 1: L2BM, 2: L1BM, 3: in a PE
// The four addresses of a port, as start and stride if they are regular.
sim::Operand port(Memory memory, const std::array<int64_t, 4> &at);
// The part of a memory that the move may use for intermediate results.
const Scratch::Range &range_of(const Scratch &scratch, Memory memory);
Scratch::Range &range_of(Scratch &scratch, Memory memory);
// For each unit of the memory, the elements that the state has or requires in it or below it.
std::vector<std::vector<bool>> elements_below(const State &goal, Memory memory, const sim::Config &config);
// The state with its table extended to whole steps; the added words have no requirement.
State lengthened(const State &state, int64_t words);

} // namespace kumiko::chip
