/* sin, cos, tan and their inverses on f64 (kumiko_math.h).
 *
 * An angle is reduced in integers after Payne and Hanek, "Radian reduction for trigonometric
 * functions" (1983): the product of its 53 bits with those bits of 2/pi that matter, modulo 4.
 * Then Taylor series. The arctangent: a table of atan(k / 8), and the series for what is left. */
#include "kumiko_math.h"

#include <stdint.h>

__extension__ typedef unsigned __int128 angle_product;

typedef union {
    double x;
    uint64_t u;
} angle_bits;

/* 64 zeros, then the bits of 2/pi. */
static const uint64_t two_over_pi[] = {0,
                                       0xa2f9836e4e441529,
                                       0xfc2757d1f534ddc0,
                                       0xdb6295993c439041,
                                       0xfe5163abdebbc561,
                                       0xb7246e3a424dd2e0,
                                       0x06492eea09d1921c,
                                       0xfe1deb1cb129a73e,
                                       0xe88235f52ebb4484,
                                       0xe99c7026b45f7e41,
                                       0x3991d639835339f4,
                                       0x9c845f8bbdf9283b,
                                       0x1ff897ffde05980f,
                                       0xef2f118b5a0a6d1f,
                                       0x6d367ecf27cb09b7,
                                       0x4f463f669e5fea2d,
                                       0x7527bac7ebe5f17b,
                                       0x3d0739f78a5292ea,
                                       0x6bfb5fb11f8d5d08,
                                       0x56033046fc7b6bab,
                                       0xf0cfbc209af4361d};

static double angle_power(int e) {
    angle_bits p;
    p.u = (uint64_t)(e + 1023) << 52;
    return p.x;
}

/* The number of quarter turns in |x|, to the nearest, modulo 4. The remainder, in [-pi/4, pi/4], is
 * high + low. x is finite and |x| > pi/4. */
static unsigned reduce_angle(double x, double *high, double *low) {
    angle_bits in;
    in.x = x;
    const int e = (int)(in.u >> 52 & 0x7ff) - 1075; /* |x| = m * 2^e */
    const uint64_t m = (in.u & 0xfffffffffffff) | 0x10000000000000;
    /* The 192 bits of 2/pi from weight 2^-(e - 1) on; earlier bits contribute multiples of 4. */
    const int first = e - 1 + 63, word = first / 64, shift = first % 64;
    uint64_t w[3], p[3];
    for (int i = 0; i < 3; i++)
        w[i] =
            shift ? two_over_pi[word + i] << shift | two_over_pi[word + i + 1] >> (64 - shift) : two_over_pi[word + i];
    /* p = m * w modulo 2^192, in units of 2^-190 */
    angle_product sum = (angle_product)m * w[2];
    p[2] = (uint64_t)sum;
    sum = (angle_product)m * w[1] + (uint64_t)(sum >> 64);
    p[1] = (uint64_t)sum;
    p[0] = m * w[0] + (uint64_t)(sum >> 64);
    unsigned quarter = (unsigned)(p[0] >> 62);
    int negative = 0;
    /* The fraction, in units of 2^-192. */
    p[0] = p[0] << 2 | p[1] >> 62, p[1] = p[1] << 2 | p[2] >> 62, p[2] <<= 2;
    if (p[0] >> 63) {
        negative = 1, quarter++;
        p[2] = ~p[2] + 1, p[1] = ~p[1] + !p[2], p[0] = ~p[0] + (!p[1] && !p[2]);
    }
    int exponent = 0;
    while (!p[0] && exponent < 128) p[0] = p[1], p[1] = p[2], p[2] = 0, exponent += 64;
    int zeros = 0;
    while (p[0] && !(p[0] << zeros >> 63)) zeros++;
    if (zeros) p[0] = p[0] << zeros | p[1] >> (64 - zeros), p[1] = p[1] << zeros | p[2] >> (64 - zeros);
    exponent += zeros;
    /* 53 bits, then the next 64 */
    const double f = (double)(p[0] >> 11) * angle_power(-53 - exponent);
    const double g = (double)(p[0] << 53 | p[1] >> 11) * angle_power(-64 - 53 - exponent);
    /* (f + g) * pi/2 */
    angle_bits fh, ch;
    const double quarter_turn = 0x1.921fb54442d18p0, rest = 0x1.1a62633145c07p-54;
    fh.x = f, fh.u &= ~(uint64_t)0x7ffffff;
    ch.x = quarter_turn, ch.u &= ~(uint64_t)0x7ffffff;
    const double fl = f - fh.x, cl = quarter_turn - ch.x, product = f * quarter_turn;
    *high = product;
    *low = ((fh.x * ch.x - product) + fh.x * cl + fl * ch.x) + fl * cl + (f * rest + g * quarter_turn);
    if (negative) *high = -*high, *low = -*low;
    return quarter & 3;
}

/* sin(r + rest) for |r| up to pi/4. */
static double small_sine(double r, double rest) {
    const double z = r * r;
    double p = 1 / 355687428096000.;
    p = p * z - 1 / 1307674368000.;
    p = p * z + 1 / 6227020800.;
    p = p * z - 1 / 39916800.;
    p = p * z + 1 / 362880.;
    p = p * z - 1 / 5040.;
    p = p * z + 1 / 120.;
    p = p * z - 1 / 6.;
    return r + (r * z * p + rest * (1 - 0.5 * z));
}

static double small_cosine(double r, double rest) {
    const double z = r * r, half = 0.5 * z, w = 1 - half;
    double p = 1 / 20922789888000.;
    p = p * z - 1 / 87178291200.;
    p = p * z + 1 / 479001600.;
    p = p * z - 1 / 3628800.;
    p = p * z + 1 / 40320.;
    p = p * z - 1 / 720.;
    p = p * z + 1 / 24.;
    return w + (((1 - w) - half) + (z * z * p - r * rest));
}

/* Sine and cosine of x; NaN where x is infinite or NaN. */
static void sine_and_cosine(double x, double *sine, double *cosine) {
    const double a = x < 0 ? -x : x;
    if (!(a < __builtin_inf())) {
        *sine = *cosine = __builtin_nan("");
    } else if (a <= 0x1.921fb54442d18p-1) {
        *sine = a < 0x1p-27 ? x : small_sine(x, 0);
        *cosine = small_cosine(x, 0);
    } else {
        double r, rest;
        const unsigned quarter = reduce_angle(a, &r, &rest);
        const double s = small_sine(r, rest), c = small_cosine(r, rest);
        const double turned_s = quarter & 1 ? c : s, turned_c = quarter & 1 ? s : c;
        *sine = (quarter >= 2) != (x < 0) ? -turned_s : turned_s;
        *cosine = quarter == 1 || quarter == 2 ? -turned_c : turned_c;
    }
}

double KUMIKO_MATH(sin)(double x) {
    double s, c;
    sine_and_cosine(x, &s, &c);
    return s;
}

double KUMIKO_MATH(cos)(double x) {
    double s, c;
    sine_and_cosine(x, &s, &c);
    return c;
}

double KUMIKO_MATH(tan)(double x) {
    double s, c;
    sine_and_cosine(x, &s, &c);
    return s / c;
}

/* atan(k / 8) as a sum of two numbers. */
static const double arc_table[9][2] = {{0x0.0p+0, 0x0.0p+0},
                                       {0x1.fd5ba9aac2f6ep-4, -0x1.cd37686760c17p-59},
                                       {0x1.f5b75f92c80ddp-3, 0x1.8ab6e3cf7afbdp-57},
                                       {0x1.6f61941e4def1p-2, -0x1.c63aae6f6e918p-56},
                                       {0x1.dac670561bb4fp-2, 0x1.a2b7f222f65e2p-56},
                                       {0x1.1e00babdefeb4p-1, -0x1.928df287a668fp-58},
                                       {0x1.4978fa3269ee1p-1, 0x1.2419a87f2a458p-56},
                                       {0x1.700a7c5784634p-1, -0x1.8c34d25aadef6p-56},
                                       {0x1.921fb54442d18p-1, 0x1.1a62633145c07p-55}};

/* atan of y / x, both positive and neither infinite, as a sum of two numbers. */
static double arc(double y, double x, double *rest) {
    const int over = y > x;
    if (over) {
        const double t = y;
        y = x, x = t;
    }
    const double q = y / x, c = (int)(8 * q + 0.5) / 8.;
    /* atan(y / x) = atan(c) + atan((q - c) / (1 + q c)) */
    const double t = (q - c) / (1 + q * c), z = t * t;
    double p = 1 / 17.;
    p = p * z - 1 / 15.;
    p = p * z + 1 / 13.;
    p = p * z - 1 / 11.;
    p = p * z + 1 / 9.;
    p = p * z - 1 / 7.;
    p = p * z + 1 / 5.;
    p = p * z - 1 / 3.;
    const double *base = arc_table[(int)(8 * c)];
    const double small = t * z * p + base[1];
    if (!over) {
        const double a = base[0] + t;
        *rest = ((base[0] - a) + t) + small;
        return a;
    }
    const double start = 0x1.921fb54442d18p0 - base[0];
    const double start_rest = ((0x1.921fb54442d18p0 - start) - base[0]) + 0x1.1a62633145c07p-54;
    const double a = start - t;
    *rest = ((start - a) - t) + (start_rest - small);
    return a;
}

double KUMIKO_MATH(atan2)(double y, double x) {
    angle_bits ay, ax, result;
    ay.x = y, ax.x = x;
    const uint64_t sign = ay.u & (uint64_t)INT64_MIN;
    const int left = (int)(ax.u >> 63);
    ay.u &= INT64_MAX, ax.u &= INT64_MAX;
    if (ax.x != ax.x || ay.x != ay.x) return x + y;
    double a, rest = 0;
    if (ay.x == 0 || ax.x == 0) {
        a = ay.x == 0 ? 0 : 0x1.921fb54442d18p0;
    } else if (ax.u >> 52 == 0x7ff || ay.u >> 52 == 0x7ff) {
        a = ax.u == ay.u ? 0x1.921fb54442d18p-1 : ay.u > ax.u ? 0x1.921fb54442d18p0 : 0;
    } else {
        a = arc(ay.x, ax.x, &rest);
    }
    if (left && !(ax.x == 0 && ay.x != 0)) {
        const double turned = 0x1.921fb54442d18p1 - a;
        a = turned + (((0x1.921fb54442d18p1 - turned) - a) + (0x1.1a62633145c07p-53 - rest));
    } else {
        a += rest;
    }
    result.x = a;
    result.u |= sign;
    return result.x;
}

double KUMIKO_MATH(atan)(double x) { return KUMIKO_MATH(atan2)(x, 1); }

double KUMIKO_MATH(asin)(double x) {
    if (!(x >= -1 && x <= 1)) return __builtin_nan("");
    return KUMIKO_MATH(atan2)(x, KUMIKO_MATH(sqrt)((1 - x) * (1 + x)));
}

double KUMIKO_MATH(acos)(double x) {
    if (!(x >= -1 && x <= 1)) return __builtin_nan("");
    return KUMIKO_MATH(atan2)(KUMIKO_MATH(sqrt)((1 - x) * (1 + x)), x);
}
