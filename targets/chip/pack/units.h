// The units and ports that a word occupies, as a set of bits: two words fit into one step only if
// no unit is in both sets.
#pragma once

#include "sim/isa.h"

#include <cstdint>

namespace kumiko::chip {

// A memory port serves one part of a micro-op; sharing it for equal addresses is not tried. F16 and
// F32 are the precision that MAU and MW share, and not units.
enum class Unit : uint8_t {
    Control,
    Mv,
    L2,
    L1,
    Mw,
    Mr,
    Mau,
    Alu,
    Mask,
    Grf0Read,
    Grf0Write,
    Grf1Read,
    Grf1Write,
    TRead,
    TWrite,
    Lm0Read,
    Lm0Write,
    Lm1Read,
    Lm1Write,
    F16,
    F32
};
constexpr int unit_count = int(Unit::F32) + 1;
constexpr uint32_t bit(Unit u) { return 1u << int(u); }

uint32_t units_of(const sim::Word &word);

} // namespace kumiko::chip
