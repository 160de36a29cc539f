#include "dsl/half.h"

#include <bit>
#include <cmath>

namespace kumiko {

namespace {

// Encodes sign · m · 2^e. `last` is the exponent of the last kept bit. The encoding is the mantissa
// in units of that bit, added to the biased exponent: the leading bit of a normal number carries
// into the exponent field.
uint16_t round_once(Type t, bool negative, uint64_t m, int e) {
    const int fraction = t.is_bfloat() ? 7 : 10;
    const int smallest = t.is_bfloat() ? -133 : -24; // exponent of the last bit of subnormals
    // Exponent of the leading bit of the largest numbers.
    const int greatest = t.is_bfloat() ? 127 : 15;
    const auto infinity = static_cast<uint16_t>(t.is_bfloat() ? 0x7f80 : 0x7c00);
    const auto sign = static_cast<uint16_t>(negative ? 0x8000 : 0);
    if (m == 0) return sign;
    const int leading = 63 - std::countl_zero(m) + e;
    if (leading > greatest) return sign | infinity;
    const int last = std::max(leading - fraction, smallest), dropped = last - e;
    uint64_t kept = 0;
    if (dropped <= 0) {
        kept = m << -dropped;
    } else if (dropped <= 64) { // otherwise less than half a unit in the last place
        kept = dropped == 64 ? 0 : m >> dropped;
        const uint64_t half = uint64_t{1} << (dropped - 1), rest = m & (half | (half - 1));
        if (rest > half || (rest == half && (kept & 1))) kept++;
    }
    const uint64_t bits = (static_cast<uint64_t>(last - smallest) << fraction) + kept;
    return sign | static_cast<uint16_t>(std::min<uint64_t>(bits, infinity));
}

} // namespace

uint16_t half_bits(Type t, double v) {
    const auto bits = std::bit_cast<uint64_t>(v);
    const bool negative = (bits >> 63) != 0;
    if (std::isnan(v)) return static_cast<uint16_t>((negative ? 0x8000 : 0) | (t.is_bfloat() ? 0x7fc0 : 0x7e00));
    if (std::isinf(v)) return static_cast<uint16_t>((negative ? 0x8000 : 0) | (t.is_bfloat() ? 0x7f80 : 0x7c00));
    const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
    const int exponent = static_cast<int>(bits >> 52 & 0x7ff);
    return exponent ? round_once(t, negative, fraction | uint64_t{1} << 52, exponent - 1075)
                    : round_once(t, negative, fraction, -1074);
}

uint16_t half_bits(Type t, int64_t v) {
    const auto bits = static_cast<uint64_t>(v);
    return round_once(t, v < 0, v < 0 ? 0 - bits : bits, 0);
}

uint16_t half_bits(Type t, uint64_t v) { return round_once(t, false, v, 0); }

float half_value(Type t, uint16_t bits) {
    return t.is_bfloat() ? static_cast<float>(bfloat16_t::make_from_bits(bits))
                         : static_cast<float>(float16_t::make_from_bits(bits));
}

} // namespace kumiko
