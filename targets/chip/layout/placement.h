// A layout in a memory of a machine: the element at each place, and whether the tensor fits.
#pragma once

#include "sim/config.h"
#include "targets/chip/layout/layout.h"

#include <optional>

namespace kumiko::chip {

// DRAM and PDM belong to a group, L2BM to an L2B, L1BM to an L1B, the others to a PE.
enum class Memory : uint8_t { Dram, Pdm, L2bm, L1bm, Lm0, Lm1, Grf0, Grf1 };
constexpr int memory_count = 8;
const char *name_of(Memory memory);         // "dram", "l2bm", "lm0", ...
Memory memory_named(std::string_view name); // throws UserError
// The level of the tree whose units own this memory: Group, L2b, L1b or Pe.
Level unit_level(Memory memory);
int units_of(Memory memory, const sim::Config &config);    // of the chip
int64_t size_of(Memory memory, const sim::Config &config); // LW per unit
// The number of units of a level in one unit of the level above: 8 L1Bs in an L2B.
int count_of(Level level, const sim::Config &config);

// A place. Unit coordinates are relative to the unit above; those below the memory's level are 0.
struct Place {
    int group = 0, l2b = 0, l1b = 0, mab = 0, pe = 0;
    int64_t address = 0;
    int lane = 0;

    auto operator<=>(const Place &) const = default;
    std::string to_string(Memory memory) const; // "L1B 2, PE 1 of MAB 3, LM0[5], lane 0"
};
// The unit's number among all units of its kind on the chip, as in the simulator: PEs of the chip
// for LM0.
int unit_of(const Place &place, Memory memory, const sim::Config &config);
Place place_of(int unit, Memory memory, const sim::Config &config);

struct Placement {
    Memory memory = Memory::Dram;
    Layout layout;
    int64_t base = 0; // of address 0

    std::string to_string() const; // "lm0[64] ((4_MAB:1), (16:1))"
};

// Throws UserError if the layout
//   - names a level below the memory's units, or a unit that does not exist (the message states how
//     many do),
//   - does not fit into the memory at its base: both sizes, and what would fit,
//   - has a lane beyond the word's,
//   - maps two elements to one place: both elements and the place.
void check(const Placement &placement, const sim::Config &config);

// All places of an element, including copies, sorted. Requires a checked placement and a valid
// index.
std::vector<Place> places_of(const Placement &placement, const std::vector<int64_t> &index, const sim::Config &config);
// The inverse: the element at a place; nullopt for padding and for units that the tensor does not
// cover.
std::optional<std::vector<int64_t>> element_at(const Placement &placement, const Place &place,
                                               const sim::Config &config);

// The space that the tensor takes in the unit with the largest share, and the number of units.
struct Footprint {
    int64_t words = 0;    // LW from the first to the last
    int64_t elements = 0; // in one unit, maximum
    int64_t units = 0;    // that hold any element
    int64_t copies = 0;   // of an element, average rounded up
};
Footprint footprint(const Placement &placement, const sim::Config &config);

// The inverse for all places: for each unit, address from the base on and lane, the element's
// row-major number or −1.
class Contents {
public:
    Contents() = default;
    Contents(Memory memory, int units, int64_t words, int lanes)
        : memory_(memory), units_(units), words_(words), lanes_(lanes),
          elements_(size_t(units) * size_t(words) * size_t(lanes), -1) {}

    Memory memory() const { return memory_; }
    int units() const { return units_; }
    int64_t words() const { return words_; } // of each unit
    int lanes() const { return lanes_; }
    // The elements of the LW, one per lane.
    const int32_t *at(int unit, int64_t address) const {
        return &elements_[(size_t(unit) * size_t(words_) + size_t(address)) * size_t(lanes_)];
    }
    int32_t *at(int unit, int64_t address) {
        return &elements_[(size_t(unit) * size_t(words_) + size_t(address)) * size_t(lanes_)];
    }

private:
    Memory memory_ = Memory::Dram;
    int units_ = 0;
    int64_t words_ = 0;
    int lanes_ = 4;
    std::vector<int32_t> elements_;
};
// Requires a checked placement with fewer than 2^31 elements. Time and space are linear in the
// number of places.
Contents contents(const Placement &placement, const sim::Config &config);

} // namespace kumiko::chip
