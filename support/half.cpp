#include "support/half.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace kumiko {

namespace {

// Encodes sign · m · 2^e. `last` is the exponent of the last kept bit. The encoding is the mantissa
// in units of that bit, added to the biased exponent: the leading bit of a normal number carries
// into the exponent field.
uint16_t round_once(const HalfFormat &f, bool negative, uint64_t m, int e) {
    const auto sign = static_cast<uint16_t>(negative ? 0x8000 : 0);
    if (m == 0) return sign;
    const int leading = 63 - std::countl_zero(m) + e;
    if (leading > f.greatest) return sign | f.infinity;
    const int last = std::max(leading - f.fraction, f.smallest), dropped = last - e;
    uint64_t kept = 0;
    if (dropped <= 0) {
        kept = m << -dropped;
    } else if (dropped <= 64) { // otherwise less than half a unit in the last place
        kept = dropped == 64 ? 0 : m >> dropped;
        const uint64_t half = uint64_t{1} << (dropped - 1), rest = m & (half | (half - 1));
        if (rest > half || (rest == half && (kept & 1))) kept++;
    }
    const uint64_t bits = (static_cast<uint64_t>(last - f.smallest) << f.fraction) + kept;
    return sign | static_cast<uint16_t>(std::min<uint64_t>(bits, f.infinity));
}

} // namespace

uint16_t half_bits(const HalfFormat &f, double v) {
    const auto bits = std::bit_cast<uint64_t>(v);
    const bool negative = (bits >> 63) != 0;
    if (std::isnan(v)) return static_cast<uint16_t>((negative ? 0x8000 : 0) | f.nan);
    if (std::isinf(v)) return static_cast<uint16_t>((negative ? 0x8000 : 0) | f.infinity);
    const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
    const int exponent = static_cast<int>(bits >> 52 & 0x7ff);
    return exponent ? round_once(f, negative, fraction | uint64_t{1} << 52, exponent - 1075)
                    : round_once(f, negative, fraction, -1074);
}

uint16_t half_bits(const HalfFormat &f, int64_t v) {
    const auto bits = static_cast<uint64_t>(v);
    return round_once(f, v < 0, v < 0 ? 0 - bits : bits, 0);
}

uint16_t half_bits(const HalfFormat &f, uint64_t v) { return round_once(f, false, v, 0); }

} // namespace kumiko
