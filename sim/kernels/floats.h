// Eight floats: one register with AVX2, an array otherwise. Included only by implementation.h.

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)

struct Floats {
    __m256 v;
};
inline Floats load(const void *p) { return {_mm256_loadu_ps(static_cast<const float *>(p))}; }
inline void store(void *p, Floats a) { _mm256_storeu_ps(static_cast<float *>(p), a.v); }
inline Floats broadcast(const float *p) { return {_mm256_broadcast_ss(p)}; }
inline Floats operator+(Floats a, Floats b) { return {_mm256_add_ps(a.v, b.v)}; }
inline Floats operator*(Floats a, Floats b) { return {_mm256_mul_ps(a.v, b.v)}; }
inline Floats fused(Floats a, Floats b, Floats c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
// a·b + c where a·b is exact: one rounding either way.
inline Floats exact_fused(Floats a, Floats b, Floats c) { return fused(a, b, c); }
inline Floats negated(Floats a) { return {_mm256_xor_ps(a.v, _mm256_set1_ps(-0.f))}; }
// Replaces every NaN by the canonical one.
inline Floats canonical(Floats a) {
    const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000));
    return {_mm256_blendv_ps(a.v, nan, _mm256_cmp_ps(a.v, a.v, _CMP_UNORD_Q))};
}

// The 16 fp16 of a MAB's row: elements 0 and 1 of each PE, and 2 and 3 of each PE, the order of y
// in two rows.
struct Pair {
    Floats first, second;
};
inline Pair load_halves(const uint8_t *p) {
    const __m256d low = _mm256_castps_pd(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p))));
    const __m256d high = _mm256_castps_pd(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p + 16))));
    return {{_mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_unpacklo_pd(low, high), 0xd8))},
            {_mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_unpackhi_pd(low, high), 0xd8))}};
}
// Requires canonical NaNs. Their fp16 is 0x7E00.
inline void store_halves(uint8_t *p, Pair y) {
    const __m256d first = _mm256_permute4x64_pd(_mm256_castps_pd(y.first.v), 0xd8);
    const __m256d second = _mm256_permute4x64_pd(_mm256_castps_pd(y.second.v), 0xd8);
    const __m256 low = _mm256_castpd_ps(_mm256_unpacklo_pd(first, second)),
                 high = _mm256_castpd_ps(_mm256_unpackhi_pd(first, second));
    _mm_storeu_si128(reinterpret_cast<__m128i *>(p), _mm256_cvtps_ph(low, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128(reinterpret_cast<__m128i *>(p + 16), _mm256_cvtps_ph(high, _MM_FROUND_TO_NEAREST_INT));
}
// 16 fp16 in order.
inline void halves_to_floats(const uint8_t *p, float *out) {
    _mm256_store_ps(out, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p))));
    _mm256_store_ps(out + 8, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p + 16))));
}

#else

struct Floats {
    float v[8];
};
inline Floats load(const void *p) {
    Floats r;
    __builtin_memcpy(r.v, p, sizeof r.v);
    return r;
}
inline void store(void *p, Floats a) { __builtin_memcpy(p, a.v, sizeof a.v); }
template<typename F>
inline Floats each(F &&f) {
    Floats r;
    for (int i = 0; i < 8; i++) r.v[i] = f(i);
    return r;
}
inline Floats broadcast(const float *p) {
    return each([=](int) { return *p; });
}
inline Floats operator+(Floats a, Floats b) {
    return each([&](int i) { return a.v[i] + b.v[i]; });
}
inline Floats operator*(Floats a, Floats b) {
    return each([&](int i) { return a.v[i] * b.v[i]; });
}
inline Floats fused(Floats a, Floats b, Floats c) {
    return each([&](int i) { return __builtin_fmaf(a.v[i], b.v[i], c.v[i]); });
}
inline Floats exact_fused(Floats a, Floats b, Floats c) { return a * b + c; }
inline Floats negated(Floats a) {
    return each([&](int i) { return -a.v[i]; });
}
inline Floats canonical(Floats a) {
    return each([&](int i) { return a.v[i] == a.v[i] ? a.v[i] : to_float_bits(0x7fc00000); });
}
struct Pair {
    Floats first, second;
};
inline uint16_t half_at(const uint8_t *p, int i) {
    uint16_t h;
    __builtin_memcpy(&h, p + 2 * i, 2);
    return h;
}
inline Pair load_halves(const uint8_t *p) {
    return {each([=](int i) { return float_from_half(half_at(p, 4 * (i / 2) + i % 2)); }),
            each([=](int i) { return float_from_half(half_at(p, 4 * (i / 2) + 2 + i % 2)); })};
}
inline void store_halves(uint8_t *p, Pair y) {
    for (int i = 0; i < 8; i++) {
        const uint16_t a = half_from_float(y.first.v[i]), b = half_from_float(y.second.v[i]);
        __builtin_memcpy(p + 2 * (4 * (i / 2) + i % 2), &a, 2);
        __builtin_memcpy(p + 2 * (4 * (i / 2) + 2 + i % 2), &b, 2);
    }
}
inline void halves_to_floats(const uint8_t *p, float *out) {
    for (int i = 0; i < 16; i++) out[i] = float_from_half(half_at(p, i));
}

#endif
