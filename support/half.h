// The two 16-bit float types as bits: fp16 (IEEE 1-5-10) and bf16 (1-8-7).
#pragma once

#include <cstdint>

namespace kumiko {

struct HalfFormat {
    int fraction; // bits
    int smallest; // exponent of the last bit of subnormals
    int greatest; // exponent of the leading bit of the largest numbers
    uint16_t infinity, nan;
};
inline constexpr HalfFormat fp16_format{10, -24, 15, 0x7c00, 0x7e00}, bf16_format{7, -133, 127, 0x7f80, 0x7fc0};

// The bits of `v`: rounded once, to nearest, ties to even. Infinity on overflow.
uint16_t half_bits(const HalfFormat &f, double v);
uint16_t half_bits(const HalfFormat &f, int64_t v);
uint16_t half_bits(const HalfFormat &f, uint64_t v);

// Conversions between fp16 and float by integer arithmetic: the same bits on every machine. Every
// NaN becomes 0x7E00 or 0x7FC00000. The functions are static so that files compiled for different
// host instructions never share one.
static inline float float_from_half(uint16_t h) {
    const uint32_t sign = uint32_t(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 1023;
    if (exponent == 31) return __builtin_bit_cast(float, fraction ? 0x7fc00000u : sign | 0x7f800000u);
    if (exponent == 0) { // fraction · 2^-24, exactly
        const float magnitude = float(fraction) * 0x1p-24f;
        return __builtin_bit_cast(float, sign | __builtin_bit_cast(uint32_t, magnitude));
    }
    return __builtin_bit_cast(float, sign | (exponent + 112) << 23 | fraction << 13);
}

// To nearest even; values that exceed 65504 by half a step or more become infinity.
static inline uint16_t half_from_float(float value) {
    const uint32_t bits = __builtin_bit_cast(uint32_t, value), magnitude = bits & 0x7fffffff;
    const uint16_t sign = uint16_t(bits >> 16 & 0x8000);
    if (magnitude > 0x7f800000) return 0x7e00;
    if (magnitude >= 0x477ff000) return sign | 0x7c00; // 65520 and more
    if (magnitude < 0x38800000) {                      // below 2^-14: a multiple of 2^-24
        if (magnitude < 0x33000000) return sign;       // below 2^-25: zero
        const uint32_t shift = 126 - (magnitude >> 23), fraction = (magnitude & 0x7fffff) | 0x800000;
        const uint32_t kept = fraction >> shift, rest = fraction & ((1u << shift) - 1), half = 1u << (shift - 1);
        return uint16_t(sign | (kept + (rest > half || (rest == half && (kept & 1)))));
    }
    const uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
    return uint16_t(sign | ((rounded - 0x38000000) >> 13));
}

} // namespace kumiko
