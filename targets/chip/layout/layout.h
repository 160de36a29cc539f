// The layout of a tensor on the chip: a map from indices to (group, L2B, L1B, MAB, PE, address in
// LW, lane in the word).
//
//   ((8_MAB:1, 4:2), (2:1, 4_PE:1, 2_W:1))          64-bit words hold 4 f16: element (i, j),
//                                                   i < 32, j < 16, is stored in MAB i / 4,
//                                                   PE j / 2 % 4, address 2·(i % 4) + j / 8,
//                                                   lane j % 2
//
// There is one list of factors for each axis of the tensor, outermost first. A factor
// `size_LEVEL:stride` is a digit of the index in mixed radix; digit · stride is added to the
// level's coordinate. Levels are G, L2B (within its group), L1B (within its L2B), MAB (within its
// L1B), PE (within its MAB) and W (the lane, in elements); without a level it is the address. All
// units of a level that no factor names hold copies, if the memory has that level: a tensor in L1BM
// implies nothing about MABs.
//
//   (30=(8_PE:1, 4:1))                              padded: the axis has 30 elements, the places of
//                                                   indices 30 and 31 are empty
//   ((4_MAB:1/14, 16:1))                            windows: a digit of the first factor is worth
//                                                   14 indices, not 16, so neighbours share two
//                                                   (a halo), which have two places each
//   (56=(4_MAB:1/14, 16:1)@-1)                      the first window begins at index −1, padding
//   ((16:1)) * (2_L1B:4)                            copies in L1Bs 0 and 4 only
//   ((16:1)) @ (3_L1B, 64)                          all places are offset: L1B 3 (a level named
//                                                   so has no copies), address 64
//
// The inverse map is simpler: a place holds one element or none (`element_at`), while an element
// has one place or several. docs/decisions/0020 explains this form of windows.
//
// The same map can be written in many ways; `canonical` gives the coarsest one (algebra.h).
#pragma once

#include "support/error.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kumiko::chip {

enum class ElementType : uint8_t { F16, F32, I16, I32 };
constexpr int bits_of(ElementType t) { return t == ElementType::F16 || t == ElementType::I16 ? 16 : 32; }
constexpr int elements_per_word(ElementType t) { return 64 / bits_of(t); } // of a LW
const char *name_of(ElementType t);                                        // "f16"
ElementType element_type(std::string_view name);                           // throws UserError

enum class Level : uint8_t { Group, L2b, L1b, Mab, Pe, Address, Lane };
constexpr int layout_level_count = 7;
const char *name_of(Level level); // "G", "L2B", "L1B", "MAB", "PE", "" and "W"

// A digit of an index. `step` is the number of indices it is worth; 0: the span of the factors
// inside it.
struct Factor {
    int64_t size = 1;
    Level level = Level::Address;
    int64_t stride = 1;
    int64_t step = 0;

    bool operator==(const Factor &) const = default;
};

// One axis of the tensor: index = origin + Σ digit · step; there is no element if that is outside
// 0..extent − 1.
struct LayoutAxis {
    std::vector<Factor> factors; // outermost first
    int64_t extent = -1;         // −1: the span of the factors
    int64_t origin = 0;

    bool operator==(const LayoutAxis &) const = default;
};

// The length of the index range that the factors cover: 1 + Σ (size − 1) · step. Steps must be set.
int64_t span_of(const std::vector<Factor> &factors);

class Layout {
public:
    // A scalar at address 0, lane 0 of every unit.
    Layout() = default;
    // Fills in missing steps and extents. Throws UserError for a size below 1, a negative extent or
    // step, an axis with an index without a place (a gap between windows, an extent beyond the
    // span), and a stride or offset below 0.
    Layout(ElementType type, std::vector<LayoutAxis> axes, std::vector<Factor> copies = {},
           std::array<int64_t, layout_level_count> offset = {}, unsigned fixed = 0);

    // The text form, as above. Throws UserError "layout:1:column: cause; what would be legal".
    static Layout parse(std::string_view text, ElementType type);
    // Parses to the same layout.
    std::string to_string() const;

    // A dense row-major layout in addresses (and lanes): one address axis.
    static Layout dense(ElementType type, const std::vector<int64_t> &extents);

    ElementType type() const { return type_; }
    const std::vector<LayoutAxis> &axes() const { return axes_; }
    size_t rank() const { return axes_.size(); }
    std::vector<int64_t> extents() const;
    int64_t elements() const; // the product of the extents
    // Copies in addition to those of unnamed levels.
    const std::vector<Factor> &copies() const { return copies_; }
    // The offset added to each level's coordinate.
    const std::array<int64_t, layout_level_count> &offset() const { return offset_; }
    // Whether a factor, a copy or the offset names the level, so that only the units covered hold
    // the tensor.
    bool names(Level level) const;
    unsigned fixed() const { return fixed_; } // bit Level: levels that the offset names

    // The maximum coordinate on a level; 0 if it is not named.
    int64_t reach(Level level) const;
    // LW from address 0 to the last one used: the space that a unit needs.
    int64_t words() const { return reach(Level::Address) + 1; }

    // Equality of the form. For equality of the map see `equal` in algebra.h.
    bool operator==(const Layout &) const = default;

private:
    ElementType type_ = ElementType::F16;
    std::vector<LayoutAxis> axes_;
    std::vector<Factor> copies_;
    std::array<int64_t, layout_level_count> offset_{};
    unsigned fixed_ = 0;
};

} // namespace kumiko::chip
