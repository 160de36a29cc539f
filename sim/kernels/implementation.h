// The kernels' code. Each of baseline.cpp, avx2.cpp and avx512.cpp defines KUMIKO_KERNELS (a
// separate namespace, so that no function compiled for one host instruction set replaces another's)
// and KUMIKO_KERNELS_NAME, and includes this file.
//
// One file, because each host instruction set compiles all kernels with flags of its own.
#include "sim/kernels/kernels.h"
#include "support/half.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace kumiko::sim::KUMIKO_KERNELS {
namespace {

constexpr size_t mab_bytes = 32;

#include "sim/kernels/lanes.h"

#include "sim/kernels/floats.h"

// ---- ALU ---------------------------------------------------------------------------------------

template<typename B>
inline const B *lanes(const uint8_t *p) {
    return reinterpret_cast<const B *>(p);
}
template<typename B>
inline B *lanes(uint8_t *p) {
    return reinterpret_cast<B *>(p);
}

// Calls f for rows 0 to 7 if the width is 2; for rows 0, 2, 4 and 6, the first words, if it is 1.
template<typename F>
inline void each_row(int width, F &&f) {
    for (int r = 0; r < 8; r += 3 - width) f(r);
}

// out lane = f(a lane, b lane)
template<typename B, typename F>
inline void lane_by_lane(const Rows &a, const Rows &b, const RowsOut &out, const Range &g, int width, F &&f) {
    each_row(width, [&](int r) {
        const B *__restrict x = lanes<B>(a.row[r] + g.at), *__restrict y =
                                                               lanes<B>(b.row[r] ? b.row[r] + g.at : a.row[r] + g.at);
        B *__restrict z = lanes<B>(out.row[r] + g.out_at);
        const size_t n = g.bytes / sizeof(B);
        for (size_t i = 0; i < n; i++) z[i] = f(x[i], y[i]);
    });
}

// 16-bit lanes to the 32-bit lanes of two rows, and back: element e of a PE's LW is lane e mod 2 of
// word e / 2.
template<typename F>
inline void lanes_wider(const Rows &a, const RowsOut &out, const Range &g, F &&f) {
    for (int t = 0; t < 4; t++) {
        const uint16_t *x = lanes<uint16_t>(a.row[2 * t] + g.at);
        uint32_t *first = lanes<uint32_t>(out.row[2 * t] + g.out_at),
                 *second = lanes<uint32_t>(out.row[2 * t + 1] + g.out_at);
        for (size_t i = 0; i < g.bytes / 8; i++) {
            for (int e = 0; e < 2; e++) first[2 * i + e] = f(x[4 * i + e]);
            for (int e = 0; e < 2; e++) second[2 * i + e] = f(x[4 * i + 2 + e]);
        }
    }
}
template<typename F>
inline void lanes_narrower(const Rows &a, const RowsOut &out, const Range &g, F &&f) {
    for (int t = 0; t < 4; t++) {
        const uint32_t *first = lanes<uint32_t>(a.row[2 * t] + g.at),
                       *second = lanes<uint32_t>(a.row[2 * t + 1] + g.at);
        uint16_t *z = lanes<uint16_t>(out.row[2 * t] + g.out_at);
        for (size_t i = 0; i < g.bytes / 8; i++) {
            for (int e = 0; e < 2; e++) z[4 * i + e] = f(first[2 * i + e]);
            for (int e = 0; e < 2; e++) z[4 * i + 2 + e] = f(second[2 * i + e]);
        }
    }
}

// The form of an operation's result, as AluResult (sim/operations.h).
enum class Shape { Same, Mask, Wider, Narrower, Whole };

// One row of alu_operations.def for one type.
template<typename T, Shape shape, typename Meaning>
void alu_kernel(const Rows &a, const Rows &b, const RowsOut &out, const Range &range, int width) {
    using B = typename T::Bits;
    constexpr Meaning meaning{};
    if constexpr (shape == Shape::Same)
        lane_by_lane<B>(a, b, out, range, width, [=](B x, B y) { return B(meaning.template operator()<T>(x, y)); });
    else if constexpr (shape == Shape::Mask)
        lane_by_lane<B>(a, b, out, range, width,
                        [=](B x, B y) { return meaning.template operator()<T>(x, y) ? B(~B(0)) : B(0); });
    else if constexpr (shape == Shape::Wider)
        lanes_wider(a, out, range, [=](uint16_t x) { return uint32_t(meaning.template operator()<T>(x, x)); });
    else if constexpr (shape == Shape::Narrower)
        lanes_narrower(a, out, range, [=](uint32_t x) { return uint16_t(meaning.template operator()<T>(x, x)); });
}

template<typename T, Shape shape, typename Meaning>
uint32_t alu_lane(uint32_t a, uint32_t b) {
    using B = typename T::Bits;
    constexpr Meaning meaning{};
    const auto result = meaning.template operator()<T>(B(a), B(b));
    if constexpr (shape == Shape::Mask)
        return result ? B(~B(0)) : B(0);
    else if constexpr (shape == Shape::Wider)
        return uint32_t(result);
    else if constexpr (shape == Shape::Narrower)
        return uint16_t(result);
    else
        return B(result);
}

template<Shape shape, typename Meaning, Type type>
constexpr void fill_alu_type(Kernels &k, AluOp op) {
    using T = typename LaneOf<type>::T;
    using B = typename T::Bits;
    if constexpr (shape != Shape::Whole && requires(Meaning m, B x) { m.template operator()<T>(x, x); }) {
        k.alu[int(op)][int(type)] = alu_kernel<T, shape, Meaning>;
        k.lane[int(op)][int(type)] = alu_lane<T, shape, Meaning>;
    }
}

// The meaning of each row as a function of the lanes, callable for the types that have the
// operations it uses.
#define KUMIKO_ALU(op, name, operands, types, width, result, lane, words)                                              \
    struct op##Meaning {                                                                                               \
        template<typename T>                                                                                           \
        constexpr auto operator()(typename T::Bits a, typename T::Bits b) const -> decltype(lane) {                    \
            (void)a, (void)b;                                                                                          \
            return lane;                                                                                               \
        }                                                                                                              \
    };
#include "sim/alu_operations.def"
#undef KUMIKO_ALU

template<Shape shape, typename Meaning>
constexpr void fill_alu(Kernels &k, AluOp op) {
    fill_alu_type<shape, Meaning, Type::I16>(k, op);
    fill_alu_type<shape, Meaning, Type::U16>(k, op);
    fill_alu_type<shape, Meaning, Type::F16>(k, op);
    fill_alu_type<shape, Meaning, Type::I32>(k, op);
    fill_alu_type<shape, Meaning, Type::U32>(k, op);
    fill_alu_type<shape, Meaning, Type::F32>(k, op);
}

void rotate(const Rows &a, const RowsOut &out, const Range &g, int width, int rotation) {
    each_row(width, [&](int r) {
        const uint64_t *x = lanes<uint64_t>(a.row[r] + g.at);
        uint64_t *z = lanes<uint64_t>(out.row[r] + g.out_at);
        for (size_t m = 0; m < g.bytes / 8; m += 4)
            for (int p = 0; p < 4; p++) z[m + p] = x[m + ((p + rotation) & 3)];
    });
}

void select(const Rows &a, const Rows &b, const Rows &mask, const RowsOut &out, const Range &g, int width) {
    each_row(width, [&](int r) {
        const uint64_t *x = lanes<uint64_t>(a.row[r] + g.at), *y = lanes<uint64_t>(b.row[r] + g.at);
        const uint64_t *k = lanes<uint64_t>(mask.row[r] + g.at);
        uint64_t *__restrict z = lanes<uint64_t>(out.row[r] + g.out_at);
        for (size_t i = 0; i < g.bytes / 8; i++) z[i] = (x[i] & k[i]) | (y[i] & ~k[i]);
    });
}

void blend(const uint8_t *from, const uint8_t *mask, uint8_t *to, size_t bytes) {
    const uint64_t *x = lanes<uint64_t>(from), *k = lanes<uint64_t>(mask);
    uint64_t *__restrict z = lanes<uint64_t>(to);
    for (size_t i = 0; i < bytes / 8; i++) z[i] = (x[i] & k[i]) | (z[i] & ~k[i]);
}

// ---- reductions --------------------------------------------------------------------------------

template<Reduction reduction>
void combine(const uint8_t *a, const uint8_t *b, uint8_t *out, size_t bytes) {
    const uint32_t *x = lanes<uint32_t>(a), *y = lanes<uint32_t>(b);
    uint32_t *z = lanes<uint32_t>(out);
    for (size_t i = 0; i < bytes / 4; i++) {
        if constexpr (reduction == Reduction::AddF32) {
            const float sum = to_float_bits(x[i]) + to_float_bits(y[i]);
            z[i] = sum == sum ? to_bits(sum) : 0x7fc00000;
        } else if constexpr (reduction == Reduction::MaxF32)
            z[i] = F32Lane::max(x[i], y[i]);
        else if constexpr (reduction == Reduction::MinF32)
            z[i] = F32Lane::min(x[i], y[i]);
        else if constexpr (reduction == Reduction::AddI32)
            z[i] = x[i] + y[i];
        else if constexpr (reduction == Reduction::MaxI32)
            z[i] = I32Lane::max(x[i], y[i]);
        else
            z[i] = I32Lane::min(x[i], y[i]);
    }
}

// ---- the matrix unit ---------------------------------------------------------------------------

inline Pair load_c(const Rows &c, int t, size_t at, bool narrow) {
    if (narrow) return load_halves(c.row[2 * t] + at);
    return {load(c.row[2 * t] + at), load(c.row[2 * t + 1] + at)};
}
inline void store_y(const RowsOut &out, int t, size_t at, Pair y, bool narrow) {
    y = {canonical(y.first), canonical(y.second)};
    if (narrow) return store_halves(out.row[2 * t] + at, y);
    store(out.row[2 * t] + at, y.first);
    store(out.row[2 * t + 1] + at, y.second);
}

#if defined(__AVX512F__)

// All four cycles at once; a register holds all 16 rows of a column. `x` is [cycle][column].
struct Four {
    __m512 v[4];
};
template<int n>
inline Four tree16(const float *face, const float *x) {
    Four r;
    if constexpr (n == 2) {
        const __m512 w0 = _mm512_load_ps(face), w1 = _mm512_load_ps(face + 16);
        for (int t = 0; t < 4; t++)
            r.v[t] = _mm512_fmadd_ps(w1, _mm512_set1_ps(x[16 * t + 1]), _mm512_mul_ps(w0, _mm512_set1_ps(x[16 * t])));
    } else {
        const Four a = tree16<n / 2>(face, x), b = tree16<n / 2>(face + 8 * n, x + n / 2);
        for (int t = 0; t < 4; t++) r.v[t] = _mm512_add_ps(a.v[t], b.v[t]);
    }
    return r;
}
inline void matrix_mab(const float *face, const float *x, Pair *y) {
    const Four sums = tree16<16>(face, x);
    for (int t = 0; t < 4; t++) y[t] = {{_mm512_castps512_ps256(sums.v[t])}, {_mm512_extractf32x8_ps(sums.v[t], 1)}};
}

#else

// Two cycles and half of the rows at once.
struct Two {
    Floats v[2];
};
template<int n>
inline Two tree16(const float *face, const float *x) {
    if constexpr (n == 2) {
        const Floats w0 = load(face), w1 = load(face + 16);
        return {exact_fused(w1, broadcast(x + 1), w0 * broadcast(x)),
                exact_fused(w1, broadcast(x + 17), w0 * broadcast(x + 16))};
    } else {
        const Two a = tree16<n / 2>(face, x), b = tree16<n / 2>(face + 8 * n, x + n / 2);
        return {a.v[0] + b.v[0], a.v[1] + b.v[1]};
    }
}
inline void matrix_mab(const float *face, const float *x, Pair *y) {
    for (int t = 0; t < 4; t += 2) {
        const Two first = tree16<16>(face, x + 16 * t);
        y[t].first = first.v[0], y[t + 1].first = first.v[1];
        const Two second = tree16<16>(face + 8, x + 16 * t);
        y[t].second = second.v[0], y[t + 1].second = second.v[1];
    }
}

#endif

template<bool add_c, bool narrow_c, bool narrow_y>
void matrix_f16_loop(const MatrixArgs &m, const Range &g) {
    const float *face = m.face;
    for (size_t i = 0; i < g.bytes; i += mab_bytes, face += face_floats) {
        alignas(64) float x[64];
        for (int t = 0; t < 4; t++) halves_to_floats(m.x.row[2 * t] + g.at + i, x + 16 * t);
        if (m.negate)
            for (float &f : x) f = -f;
        Pair y[4];
        matrix_mab(face, x, y);
        for (int t = 0; t < 4; t++) {
            if constexpr (add_c) {
                const Pair c = load_c(m.c, t, g.at + i, narrow_c);
                y[t] = {y[t].first + c.first, y[t].second + c.second};
            }
            store_y(m.out, t, g.out_at + i, y[t], narrow_y);
        }
    }
}

void matrix_f16(const MatrixArgs &m, const Range &g) {
    if (!m.add_c)
        return m.narrow_y ? matrix_f16_loop<false, false, true>(m, g) : matrix_f16_loop<false, false, false>(m, g);
    if (m.narrow_c)
        return m.narrow_y ? matrix_f16_loop<true, true, true>(m, g) : matrix_f16_loop<true, true, false>(m, g);
    m.narrow_y ? matrix_f16_loop<true, false, true>(m, g) : matrix_f16_loop<true, false, false>(m, g);
}

void matrix_f32(const MatrixArgs &m, const Range &g) {
    const float *face = m.face;
    for (size_t i = 0; i < g.bytes; i += mab_bytes, face += face_floats) {
        for (int t = 0; t < 4; t++) {
            alignas(32) float x[8];
            __builtin_memcpy(x, m.x.row[2 * t] + g.at + i, sizeof x);
            if (m.negate)
                for (float &f : x) f = -f;
            const auto product = [&](int p) {
                return load(face + 8 * (2 * p + m.half)) * broadcast(x + 2 * p + m.half);
            };
            Floats y = (product(0) + product(1)) + (product(2) + product(3));
            if (m.add_c) y = y + load(m.c.row[2 * t] + g.at + i);
            store(m.out.row[2 * t] + g.out_at + i, canonical(y));
        }
    }
}

struct MultiplyAdd {
    static constexpr bool b = true, c = true;
    static Floats f16(Floats a, Floats b, Floats c) { return exact_fused(a, b, c); }
    static Floats f32(Floats a, Floats b, Floats c) { return fused(a, b, c); }
};
struct Multiply {
    static constexpr bool b = true, c = false;
    static Floats f16(Floats a, Floats b, Floats) { return a * b; }
    static Floats f32(Floats a, Floats b, Floats) { return a * b; }
};
struct Sum {
    static constexpr bool b = false, c = true;
    static Floats f16(Floats a, Floats, Floats c) { return a + c; }
    static Floats f32(Floats a, Floats, Floats c) { return a + c; }
};

template<typename Op>
void vector_f16(const VectorArgs &v, const Range &g) {
    for (int t = 0; t < 4; t++) {
        for (size_t i = 0; i < g.bytes; i += mab_bytes) {
            const size_t at = g.at + i;
            Pair a = load_halves(v.a.row[2 * t] + at);
            if (v.negate) a = {negated(a.first), negated(a.second)};
            const Pair b = Op::b ? load_halves(v.b.row[2 * t] + at) : a;
            const Pair c = Op::c ? load_c(v.c, t, at, v.narrow_c) : a;
            store_y(v.out, t, g.out_at + i, {Op::f16(a.first, b.first, c.first), Op::f16(a.second, b.second, c.second)},
                    v.narrow_y);
        }
    }
}
template<typename Op>
void vector_f32(const VectorArgs &v, const Range &g) {
    for (int t = 0; t < 4; t++) {
        for (size_t i = 0; i < g.bytes; i += mab_bytes) {
            const size_t at = g.at + i;
            Floats a = load(v.a.row[2 * t] + at);
            if (v.negate) a = negated(a);
            const Floats b = Op::b ? load(v.b.row[2 * t] + at) : a, c = Op::c ? load(v.c.row[2 * t] + at) : a;
            store(v.out.row[2 * t] + g.out_at + i, canonical(Op::f32(a, b, c)));
        }
    }
}

void narrow_pass(const Rows &a, const RowsOut &out, const Range &g) {
    for (int t = 0; t < 4; t++)
        for (size_t i = 0; i < g.bytes; i += mab_bytes)
            store_y(out, t, g.out_at + i, {load(a.row[2 * t] + g.at + i), load(a.row[2 * t + 1] + g.at + i)}, true);
}

// ---- faces -------------------------------------------------------------------------------------

// The position of row i of an f16 face in a column.
constexpr int lane_of_row(int i) { return (i % 4 < 2 ? 0 : 8) + i / 4 * 2 + i % 2; }

inline int row_of(const FaceArgs &f, int t, int j) { return f.part * 4 * f.width + f.width * t + j; }

#if defined(__AVX2__)

// Rows 8h + 0 1 4 5, 2 3 6 7 of a MAB are lanes 4h.. and 8 + 4h.. of each column: two 8×8
// transposes.
inline void write_eight_rows(const FaceArgs &f, size_t at, float *face) {
    constexpr int order[8] = {0, 1, 4, 5, 2, 3, 6, 7};
    for (int half = 0; half < 2; half++) {
        __m256 r[8];
        for (int i = 0; i < 8; i++)
            r[i] = _mm256_cvtph_ps(
                _mm_loadu_si128(reinterpret_cast<const __m128i *>(f.from.row[order[i]] + at + 16 * half)));
        __m256 a[8];
        for (int i = 0; i < 8; i += 2)
            a[i] = _mm256_unpacklo_ps(r[i], r[i + 1]), a[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
        __m256 b[8]; // b[4·(i/4) + c]: columns c and c + 4 of four rows
        for (int i = 0; i < 8; i += 4) {
            b[i] = _mm256_shuffle_ps(a[i], a[i + 2], 0x44), b[i + 1] = _mm256_shuffle_ps(a[i], a[i + 2], 0xee);
            b[i + 2] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0x44),
                  b[i + 3] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0xee);
        }
        float *out = face + 128 * half + 4 * f.part;
        for (int c = 0; c < 4; c++) {
            _mm_storeu_ps(out + 16 * c, _mm256_castps256_ps128(b[c]));
            _mm_storeu_ps(out + 16 * c + 8, _mm256_castps256_ps128(b[4 + c]));
            _mm_storeu_ps(out + 16 * (c + 4), _mm256_extractf128_ps(b[c], 1));
            _mm_storeu_ps(out + 16 * (c + 4) + 8, _mm256_extractf128_ps(b[4 + c], 1));
        }
    }
}
constexpr bool writes_eight_rows = true;

#else

inline void write_eight_rows(const FaceArgs &, size_t, float *) {}
constexpr bool writes_eight_rows = false;

#endif

void face_write_f16(const FaceArgs &f, const Range &g) {
    float *face = f.face;
    uint16_t *bits = f.face_bits;
    for (size_t i = 0; i < g.bytes; i += mab_bytes, face += face_floats) {
        if (writes_eight_rows && f.width == 2) {
            write_eight_rows(f, g.at + i, face);
        } else {
            for (int t = 0; t < 4; t++) {
                for (int j = 0; j < f.width; j++) {
                    const uint16_t *x = lanes<uint16_t>(f.from.row[2 * t + j] + g.at + i);
                    float *out = face + lane_of_row(row_of(f, t, j));
                    for (int k = 0; k < 16; k++) out[16 * k] = float_from_half(x[k]);
                }
            }
        }
        if (!bits) continue;
        for (int t = 0; t < 4; t++)
            for (int j = 0; j < f.width; j++)
                __builtin_memcpy(bits + 16 * row_of(f, t, j), f.from.row[2 * t + j] + g.at + i, mab_bytes);
        bits += face_floats;
    }
}

void face_write_f32(const FaceArgs &f, const Range &g) {
    float *face = f.face;
    for (size_t i = 0; i < g.bytes; i += mab_bytes, face += face_floats) {
        for (int t = 0; t < 4; t++) {
            for (int j = 0; j < f.width; j++) {
                const uint32_t *x = lanes<uint32_t>(f.from.row[2 * t + j] + g.at + i);
                uint32_t *out = reinterpret_cast<uint32_t *>(face) + row_of(f, t, j);
                for (int k = 0; k < 8; k++) out[8 * k] = x[k];
            }
        }
    }
}

// Reads columns, whereas writing filled rows.
void face_read_f16(const FaceArgs &f, const Range &g) {
    const uint16_t *bits = f.face_bits;
    for (size_t i = 0; i < g.bytes; i += mab_bytes, bits += face_floats)
        for (int t = 0; t < 4; t++)
            for (int j = 0; j < f.width; j++)
                for (int row = 0; row < 16; row++)
                    lanes<uint16_t>(f.out.row[2 * t + j] + g.out_at + i)[row] = bits[16 * row + row_of(f, t, j)];
}

void face_read_f32(const FaceArgs &f, const Range &g) {
    const uint32_t *face = reinterpret_cast<const uint32_t *>(f.face);
    for (size_t i = 0; i < g.bytes; i += mab_bytes, face += face_floats)
        for (int t = 0; t < 4; t++)
            for (int j = 0; j < f.width; j++)
                __builtin_memcpy(f.out.row[2 * t + j] + g.out_at + i, face + 8 * row_of(f, t, j), mab_bytes);
}

constexpr Kernels make_kernels() {
    Kernels k{};
    k.name = KUMIKO_KERNELS_NAME;
#define KUMIKO_ALU(op, name, operands, types, width, result, lane, words)                                              \
    fill_alu<Shape::result, op##Meaning>(k, AluOp::op);
#include "sim/alu_operations.def"
#undef KUMIKO_ALU
    k.rotate = rotate;
    k.select = select;
    k.matrix_f16 = matrix_f16;
    k.matrix_f32 = matrix_f32;
    k.vector_f16[0] = vector_f16<MultiplyAdd>, k.vector_f16[1] = vector_f16<Multiply>,
    k.vector_f16[2] = vector_f16<Sum>;
    k.vector_f32[0] = vector_f32<MultiplyAdd>, k.vector_f32[1] = vector_f32<Multiply>,
    k.vector_f32[2] = vector_f32<Sum>;
    k.narrow_pass = narrow_pass;
    k.face_write_f16 = face_write_f16, k.face_write_f32 = face_write_f32;
    k.face_read_f16 = face_read_f16, k.face_read_f32 = face_read_f32;
    k.combine[0] = combine<Reduction::AddF32>, k.combine[1] = combine<Reduction::MaxF32>,
    k.combine[2] = combine<Reduction::MinF32>;
    k.combine[3] = combine<Reduction::AddI32>, k.combine[4] = combine<Reduction::MaxI32>,
    k.combine[5] = combine<Reduction::MinI32>;
    k.blend = blend;
    return k;
}

constexpr Kernels table = make_kernels();

} // namespace
} // namespace kumiko::sim::KUMIKO_KERNELS
