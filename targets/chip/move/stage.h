// What the search for a move is made of: contents of a memory, hops between neighbouring memories, and the three things that
// can be asked of a hop:
//   push   do it in its natural form from what there is: what stands where afterwards?
//   pull   do it in its natural form into what is wanted: what has to stand where before?
//   match  from what there is to what is wanted: in which steps, if any?
// A move is a chain of hops: pushes from the source, one match, pulls into the destination.
#pragma once

#include "targets/chip/move/move.h"

#include <functional>
#include <optional>
#include <unordered_map>

namespace kumiko::chip {

using Ops = std::vector<MicroOp>;

// Elements that a place wants or has, beside their numbers.
constexpr int32_t anything = -1;  // no element: padding, or nothing known
constexpr int32_t untouched = -2; // wanted: the lane may not be written

// What stands (or is wanted) in a memory from `base` on.
struct State {
    Memory memory = Memory::Dram;
    int64_t base = 0;
    Contents table;
};

// What a step writes at least, in LW: destinations own their words up to a multiple of it.
int64_t grain_of(Memory memory, const sim::Config &config);
inline int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// Whether `have` serves where `want` is wanted.
inline bool serves(const int32_t *want, const int32_t *have, int lanes) {
    for (int l = 0; l < lanes; l++)
        if (want[l] != anything && want[l] != have[l]) return false;
    return true;
}
inline bool wants(const int32_t *want, int lanes) { // an element
    for (int l = 0; l < lanes; l++)
        if (want[l] >= 0) return true;
    return false;
}
// Whether some unit wants an element at the address, and whether none may be written.
bool wanted_anywhere(const Contents &table, int64_t address);
bool forbidden_anywhere(const Contents &table, int64_t address);
// Adds what `more` wants to `want`; false when they differ.
bool join(int32_t *want, const int32_t *more, int lanes);

// Where an element stands in a unit, lane by lane.
class Finder {
public:
    explicit Finder(const Contents &table) : table_(table), units_(size_t(table.units())) {}
    // Addresses of the unit whose word serves, in order. `want` wants an element.
    std::vector<int64_t> find(int unit, const int32_t *want);
    // Those of an element, in whatever lane.
    const std::vector<int64_t> &element(int unit, int32_t element);

private:
    const Contents &table_;
    struct Unit {
        bool made = false;
        std::unordered_map<int32_t, std::vector<int64_t>> at;
    };
    std::vector<Unit> units_;
};

struct Made {
    State state;
    Ops ops;
    std::string text;
};

struct Hops {
    const sim::Config &config;
    Scratch scratch;               // what is left of it
    const State *goal = nullptr;   // where everything goes in the end: tells what each unit will need
    const State *origin = nullptr; // where everything comes from: tells what each unit has
    bool thorough = false;         // also masks by unit, which any arrangement can be made with
    int next_tag = 0;              // of moves off the chip

    // Empty when the hop has no form that does it.
    std::vector<Made> push(const State &from, Memory to, int64_t base);
    std::vector<Made> pull(const State &to, Memory from, int64_t base);
    std::optional<Made> match(const State &from, const State &to);

    std::optional<Made> match_l1_down(const State &from, const State &to);
    std::optional<Made> match_l1_up(const State &from, const State &to);
    std::optional<Made> match_l1_up_whole(const State &from, const State &to);
    std::optional<Made> match_transpose(const State &from, const State &to);
    std::optional<Made> match_l2_down(const State &from, const State &to);
    std::optional<Made> match_l2_up(const State &from, const State &to);
    std::optional<Made> match_in(const State &from, const State &to);
    std::optional<Made> match_out(const State &from, const State &to);
    std::optional<Made> match_pe(const State &from, const State &to);

    std::optional<int> tag();
};

int rank_of(Memory memory); // 0: DRAM and PDM, 1: L2BM, 2: L1BM, 3: in a PE
// The four addresses of a port, as start and stride where they are.
sim::Operand port(Memory memory, const std::array<int64_t, 4> &at);
const Scratch::Range &range_of(const Scratch &scratch, Memory memory);
Scratch::Range &range_of(Scratch &scratch, Memory memory);
// For each unit of the memory the elements that the state has (or wants) in it or below it.
std::vector<std::vector<bool>> elements_below(const State &goal, Memory memory, const sim::Config &config);
// The state with its table made longer, to whole steps; what is added wants nothing.
State lengthened(const State &state, int64_t words);

} // namespace kumiko::chip
