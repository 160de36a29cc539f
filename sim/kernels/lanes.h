// The ALU operations on one lane, type by type. Floats are handled as bits: comparisons and extrema
// become integer comparisons, which vectorise and do not depend on the host's NaN rules. Included
// only by implementation.h, in a namespace of the host instruction set.

struct SeedTable {
    uint16_t value[128]; // round(2^9 / sqrt(m)) at the middle m of each of 128 intervals of [1, 4)
};

constexpr SeedTable make_seeds() {
    SeedTable table{};
    for (uint32_t i = 0; i < 128; i++) {
        // m = (129 + 2·(i mod 64)) · (1 + i / 64) / 128; the greatest r with (2r − 1)² · m <= 4 ·
        // 2^18
        const uint64_t d = uint64_t(129 + 2 * (i % 64)) * (1 + i / 64);
        uint64_t r = 1;
        while ((2 * r + 1) * (2 * r + 1) * d <= uint64_t(4) << 25) r++;
        table.value[i] = uint16_t(r);
    }
    return table;
}
constexpr SeedTable seeds = make_seeds();

inline float to_float_bits(uint32_t b) { return __builtin_bit_cast(float, b); }
inline uint32_t to_bits(float f) { return __builtin_bit_cast(uint32_t, f); }

// 1/sqrt(x): x = m · 4^e with m in [1, 4), of which six fraction bits are used.
inline uint32_t rsqrt_seed_f32(uint32_t a) {
    if ((a & 0x7fffffff) > 0x7f800000) return 0x7fc00000;
    if ((a & 0x7fffffff) == 0) return a | 0x7f800000; // of ±0: ±infinity
    if (a >> 31) return 0x7fc00000;
    if (a == 0x7f800000) return 0;
    int exponent = int(a >> 23) - 127;
    uint32_t fraction = a & 0x7fffff;
    if (exponent == -127) { // subnormal
        const int shift = __builtin_clz(fraction) - 8;
        fraction = fraction << shift & 0x7fffff;
        exponent = -126 - shift;
    }
    const uint32_t odd = uint32_t(exponent & 1);
    const float scale = to_float_bits(uint32_t(127 - (exponent - int(odd)) / 2) << 23);
    return to_bits(float(seeds.value[odd << 6 | fraction >> 17]) * 0x1p-9f * scale);
}

template<typename B, typename S, int bits>
struct IntegerLane {
    using Bits = B;
    using Signed = S;
    static B shl(B a, B b) { return b >= bits ? B(0) : B(uint32_t(a) << (b & (bits - 1))); }
    static B eq(B a, B b) { return a == b; }
};

template<typename B, typename S, int bits>
struct SignedLane : IntegerLane<B, S, bits> {
    static B shr(B a, B b) { return B(S(a) >> (b >= bits ? bits - 1 : b)); }
    static B max(B a, B b) { return S(a) > S(b) ? a : b; }
    static B min(B a, B b) { return S(a) < S(b) ? a : b; }
    static bool lt(B a, B b) { return S(a) < S(b); }
    static bool le(B a, B b) { return S(a) <= S(b); }
};

template<typename B, typename S, int bits>
struct UnsignedLane : IntegerLane<B, S, bits> {
    static B shr(B a, B b) { return b >= bits ? B(0) : B(a >> (b & (bits - 1))); }
    static B max(B a, B b) { return a > b ? a : b; }
    static B min(B a, B b) { return a < b ? a : b; }
    static bool lt(B a, B b) { return a < b; }
    static bool le(B a, B b) { return a <= b; }
};

struct I16Lane : SignedLane<uint16_t, int16_t, 16> {
    static uint32_t widen(uint16_t a) { return uint32_t(int32_t(int16_t(a))); }
    static uint16_t to_float(uint16_t a) { return half_from_float(float(int16_t(a))); }
};
struct U16Lane : UnsignedLane<uint16_t, int16_t, 16> {
    static uint32_t widen(uint16_t a) { return a; }
    static uint16_t to_float(uint16_t a) { return half_from_float(float(a)); }
};
struct I32Lane : SignedLane<uint32_t, int32_t, 32> {
    static uint16_t narrow(uint32_t a) { return uint16_t(a); }
    static uint32_t to_float(uint32_t a) { return to_bits(float(int32_t(a))); }
};
struct U32Lane : UnsignedLane<uint32_t, int32_t, 32> {
    static uint16_t narrow(uint32_t a) { return uint16_t(a); }
    static uint32_t to_float(uint32_t a) { return to_bits(float(a)); }
};

// Comparisons on sign and magnitude.
template<typename B, typename S, B sign, B infinity, B nan_value>
struct FloatLane {
    using Bits = B;
    static bool is_nan(B a) { return B(a & B(~sign)) > infinity; }
    static S order(B a) { return S(a ^ (S(a) < 0 ? B(~sign) : B(0))); }   // −0 < +0
    static S value(B a) { return S(a) < 0 ? S(-S(a & B(~sign))) : S(a); } // −0 = +0
    static B max(B a, B b) { return is_nan(a) || is_nan(b) ? nan_value : order(a) > order(b) ? a : b; }
    static B min(B a, B b) { return is_nan(a) || is_nan(b) ? nan_value : order(a) < order(b) ? a : b; }
    static bool eq(B a, B b) { return !is_nan(a) & !is_nan(b) & (value(a) == value(b)); }
    static bool lt(B a, B b) { return !is_nan(a) & !is_nan(b) & (value(a) < value(b)); }
    static bool le(B a, B b) { return !is_nan(a) & !is_nan(b) & (value(a) <= value(b)); }
};

// Clamped first, since converting an out-of-range value is undefined in C++; NaN compares false
// with both limits.
inline int32_t saturate(float a, float low, float high, int32_t lowest, int32_t highest) {
    return a >= high ? highest : a <= low ? lowest : a == a ? int32_t(a) : 0;
}

struct F16Lane : FloatLane<uint16_t, int16_t, 0x8000, 0x7c00, 0x7e00> {
    static uint32_t widen(uint16_t a) { return to_bits(float_from_half(a)); }
    static uint16_t rsqrt_seed(uint16_t a) { return half_from_float(to_float_bits(rsqrt_seed_f32(widen(a)))); }
    static uint16_t to_int(uint16_t a) {
        return uint16_t(saturate(float_from_half(a), -32768.f, 32767.f, -32768, 32767));
    }
    static uint16_t round_to_int(uint16_t a) {
        return uint16_t(saturate(__builtin_rintf(float_from_half(a)), -32768.f, 32767.f, -32768, 32767));
    }
};
struct F32Lane : FloatLane<uint32_t, int32_t, 0x80000000, 0x7f800000, 0x7fc00000> {
    static uint16_t narrow(uint32_t a) { return half_from_float(to_float_bits(a)); }
    static uint32_t rsqrt_seed(uint32_t a) { return rsqrt_seed_f32(a); }
    static uint32_t to_int(uint32_t a) {
        return uint32_t(saturate(to_float_bits(a), -0x1p31f, 0x1p31f, INT32_MIN, INT32_MAX));
    }
    static uint32_t round_to_int(uint32_t a) {
        return uint32_t(saturate(__builtin_rintf(to_float_bits(a)), -0x1p31f, 0x1p31f, INT32_MIN, INT32_MAX));
    }
};

template<Type type>
struct LaneOf;
template<>
struct LaneOf<Type::I16> {
    using T = I16Lane;
};
template<>
struct LaneOf<Type::U16> {
    using T = U16Lane;
};
template<>
struct LaneOf<Type::F16> {
    using T = F16Lane;
};
template<>
struct LaneOf<Type::I32> {
    using T = I32Lane;
};
template<>
struct LaneOf<Type::U32> {
    using T = U32Lane;
};
template<>
struct LaneOf<Type::F32> {
    using T = F32Lane;
};
