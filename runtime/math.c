/* exp, log, pow, erf and the hyperbolic functions on f64 (kumiko_math.h).
 *
 * exp and log: reduction by ln 2 in two parts after Cody and Waite, "Software Manual for the
 * Elementary Functions" (1980), then Taylor series that are long enough for f64. pow: the logarithm
 * as a sum of two f64 numbers after Dekker, "A floating-point technique for extending the available
 * precision" (1971). erf: Taylor series about the nearest multiple of 1/8. erfc: after M. Shepherd
 * and J. Laframboise, "Chebyshev approximation of (1 + 2x) exp(x²) erfc x in 0 <= x < inf" (1981),
 * the polynomial fitted by us. log1p after Kahan. */
#include "kumiko_math.h"

#include <stdint.h>

static const double math_inf = __builtin_inf();

static uint64_t math_bits(double x) {
    union {
        double x;
        uint64_t u;
    } both = {x};
    return both.u;
}

static double math_float(uint64_t u) {
    union {
        uint64_t u;
        double x;
    } both = {u};
    return both.x;
}

static double math_abs(double x) { return math_float(math_bits(x) & INT64_MAX); }

static double with_sign(double x, double sign) {
    return math_float((math_bits(x) & INT64_MAX) | (math_bits(sign) & (uint64_t)INT64_MIN));
}

/* The leading 26 bits: the product of two such numbers is exact. */
static double leading(double x) { return math_float(math_bits(x) & ~(uint64_t)0x7ffffff); }

/* a * b - p, where p is a * b rounded. */
static double product_rest(double a, double b, double p) {
    const double ah = leading(a), al = a - ah, bh = leading(b), bl = b - bh;
    return ((ah * bh - p) + ah * bl + al * bh) + al * bl;
}

static const double ln2_high = 0x1.62e42fefp-1, ln2_low = 0x1.473de6af278edp-34; /* 33 bits; rest */

/* x * 2^k, rounded once more where the result is subnormal. */
static double scaled(double x, int k) {
    if (k > 1023) return x * 0x1p1023 * math_float((uint64_t)k << 52);
    if (k < -1022) return x * math_float((uint64_t)(k + 54 + 1023) << 52) * 0x1p-54;
    return x * math_float((uint64_t)(k + 1023) << 52);
}

/* The integer nearest to x / ln 2, for |x| < 2^20. */
static double nearest_multiple_of_ln2(double x) {
    const double magic = 0x1.8p52;
    return x * 0x1.71547652b82fep0 + magic - magic;
}

/* (e^r - 1) for r = high + low up to ln 2 / 2. */
static double exp_minus_one_small(double high, double low) {
    const double r = high + low, rest = (high - r) + low;
    double p = 1 / 87178291200.;
    p = p * r + 1 / 6227020800.;
    p = p * r + 1 / 479001600.;
    p = p * r + 1 / 39916800.;
    p = p * r + 1 / 3628800.;
    p = p * r + 1 / 362880.;
    p = p * r + 1 / 40320.;
    p = p * r + 1 / 5040.;
    p = p * r + 1 / 720.;
    p = p * r + 1 / 120.;
    p = p * r + 1 / 24.;
    p = p * r + 1 / 6.;
    p = p * r + 0.5;
    return r + (rest + r * r * p + r * rest);
}

/* e^(x + rest), |rest| far below |x|. */
static double exp_sum(double x, double rest) {
    if (x != x) return x;
    if (x > 709.79) return math_inf;
    if (x < -745.2) return 0;
    const double k = nearest_multiple_of_ln2(x);
    return scaled(1 + exp_minus_one_small(x - k * ln2_high, rest - k * ln2_low), (int)k);
}

/* e^x - 1 for x >= -40. */
static double exp_minus_one(double x) {
    if (!(x < 709.79)) return x + math_inf;
    const double k = nearest_multiple_of_ln2(x), small = exp_minus_one_small(x - k * ln2_high, -k * ln2_low);
    if (k == 0) return small;
    if (k > 60) return scaled(1 + small, (int)k);
    const double power = scaled(1, (int)k);
    return power * small + (power - 1);
}

/* x = 2^e * m, m from sqrt(1/2) to sqrt(2), of a positive finite x. */
static double split_exponent(double x, int *e) {
    *e = 0;
    if (x < 0x1p-1022) x *= 0x1p54, *e = -54;
    const uint64_t u = math_bits(x);
    const int64_t k = (int64_t)(u - 0x3fe6a09e667f3bcdu) >> 52;
    *e += (int)k;
    return math_float(u - ((uint64_t)k << 52));
}

/* sum over n >= 1 of 2 z^n / (2n + 1): log((1 + s) / (1 - s)) = 2s + s * tail(s * s). */
static double log_tail(double z) {
    double p = 2 / 23.;
    p = p * z + 2 / 21.;
    p = p * z + 2 / 19.;
    p = p * z + 2 / 17.;
    p = p * z + 2 / 15.;
    p = p * z + 2 / 13.;
    p = p * z + 2 / 11.;
    p = p * z + 2 / 9.;
    p = p * z + 2 / 7.;
    p = p * z + 2 / 5.;
    return z * (p * z + 2 / 3.);
}

double KUMIKO_MATH(exp)(double x) { return exp_sum(x, 0); }

double KUMIKO_MATH(log)(double x) {
    if (!(x > 0)) return x == 0 ? -math_inf : __builtin_nan("");
    if (x == math_inf) return x;
    int e;
    const double f = split_exponent(x, &e) - 1, s = f / (2 + f), half = 0.5 * f * f;
    return e * ln2_high - ((half - (s * (half + log_tail(s * s)) + e * ln2_low)) - f);
}

double KUMIKO_MATH(sqrt)(double x) {
    if (!(x > 0) || x == math_inf) return x == 0 || x == math_inf ? x : __builtin_nan("");
    double scale = 1;
    if (x < 0x1p-900) x *= 0x1p200, scale = 0x1p-100;
    if (x > 0x1p900) x *= 0x1p-200, scale = 0x1p100;
    double y = math_float(0x5fe6eb50c7b537a9u - (math_bits(x) >> 1)); /* x^-1/2 within 4 % */
    for (int i = 0; i < 4; i++) y *= 1.5 - 0.5 * x * y * y;
    double root = x * y;
    const double square = root * root;
    root += 0.5 * y * ((x - square) - product_rest(root, root, square));
    return root * scale;
}

/* log(1 + x) for x > -1. */
static double log_one_plus(double x) {
    const double w = 1 + x;
    if (w == math_inf) return w;
    return KUMIKO_MATH(log)(w) - ((w - 1) - x) / w;
}

/* log(x) as high + low, to some 2^-63 of it. x is positive and finite. */
static double log_sum(double x, double *low) {
    int e;
    const double m = split_exponent(x, &e), f = m - 1;
    const double d = m + 1, d_rest = m - (d - 1);
    /* s = f / (m + 1) */
    const double s = f / d, p = s * d;
    const double s_rest = (((f - p) - product_rest(s, d, p)) - s * d_rest) / d;
    /* z = s^2, t = 1/3 + z/5 + z^2/7 + … */
    const double z = s * s, z_rest = product_rest(s, s, z) + 2 * s * s_rest;
    double q = 1 / 25.;
    q = q * z + 1 / 23.;
    q = q * z + 1 / 21.;
    q = q * z + 1 / 19.;
    q = q * z + 1 / 17.;
    q = q * z + 1 / 15.;
    q = q * z + 1 / 13.;
    q = q * z + 1 / 11.;
    q = q * z + 1 / 9.;
    q = q * z + 1 / 7.;
    q = q * z + 1 / 5.;
    q *= z;
    const double third = 1 / 3., t = third + q, t_rest = ((third - t) + q) + 0x1.5555555555555p-56;
    /* v = z * t, then s * v */
    const double v = z * t, v_rest = product_rest(z, t, v) + z * t_rest + z_rest * t;
    const double w = s * v, w_rest = product_rest(s, v, w) + s * v_rest + s_rest * v;
    /* 2 (s + w) + e ln 2 */
    const double a = s + w, a_rest = ((s - a) + w) + w_rest + s_rest;
    const double whole = e * ln2_high;
    const double sum = whole + 2 * a;
    const double sum_rest = e == 0 ? 0 : (whole - sum) + 2 * a;
    const double rest = sum_rest + 2 * a_rest + e * ln2_low;
    const double high = sum + rest;
    *low = (sum - high) + rest;
    return high;
}

double KUMIKO_MATH(pow)(double x, double y) {
    if (y == 0 || x == 1) return 1;
    if (x != x || y != y) return x + y;
    const double ax = math_abs(x), ay = math_abs(y);
    int integer = ay >= 0x1p52, odd = 0;
    if (ay < 0x1p53) {
        const int64_t n = (int64_t)ay;
        integer = (double)n == ay;
        odd = integer && (n & 1);
    }
    const int negative = (int)(math_bits(x) >> 63);
    double result;
    if (ax == 0 || ax == math_inf) {
        result = (ax == 0) == (y < 0) ? math_inf : 0;
    } else if (ay == math_inf) {
        result = ax == 1 ? 1 : (ax > 1) == (y > 0) ? math_inf : 0;
    } else if (negative && !integer) {
        return __builtin_nan("");
    } else {
        double low;
        const double high = log_sum(ax, &low), p = y * high;
        if (p > 800 || p < -800)
            result = p > 0 ? math_inf : 0;
        else
            result = exp_sum(p, product_rest(y, high, p) + y * low);
    }
    return negative && odd ? -result : result;
}

/* erf(c) and its derivative at c = k / 8, k from 4 to 48. */
static const double erf_table[45][2] = {
    {0x1.0a7ef5c18edd2p-1, 0x1.c1efca49a5011p-1},  {0x1.3f196dcd0f135p-1, 0x1.86e9694134b9ep-1},
    {0x1.6c1c9759d0e5fp-1, 0x1.492e42d78d2c5p-1},  {0x1.91724951b8fc6p-1, 0x1.0cab61f084b93p-1},
    {0x1.af767a741088bp-1, 0x1.a911f096fbc26p-2},  {0x1.c6dad2829ec62p-1, 0x1.45e99bcbb7915p-2},
    {0x1.d8865d98abe01p-1, 0x1.e4652fadcb6b2p-3},  {0x1.e5768c3b4a3fcp-1, 0x1.5ce595c455b0ap-3},
    {0x1.eea5557137ae0p-1, 0x1.e723726b824a9p-4},  {0x1.f4f693b67bd77p-1, 0x1.499d478bca735p-4},
    {0x1.f92d077f8d56dp-1, 0x1.b055303221015p-5},  {0x1.fbe61eef4cf6ap-1, 0x1.12ceb37ff9bc3p-5},
    {0x1.fd9ae142795e3p-1, 0x1.529b9e8cf9a1ep-6},  {0x1.fea4218d6594ap-1, 0x1.94624e78e0fafp-7},
    {0x1.ff404760319b4p-1, 0x1.d4143a9dfe965p-8},  {0x1.ff9960f3eb327p-1, 0x1.06918b6355624p-8},
    {0x1.ffcaa8f4c9beap-1, 0x1.1d83170fbf6fbp-9},  {0x1.ffe514bbdc197p-1, 0x1.2ce898809244ep-10},
    {0x1.fff2cfb0453d9p-1, 0x1.3360ccd23db3ap-11}, {0x1.fff9ba420e834p-1, 0x1.30538fbb77ecdp-12},
    {0x1.fffd1ac4135f9p-1, 0x1.2408e9ba3327fp-13}, {0x1.fffeb3ebb267bp-1, 0x1.0f9e1b4dd36dfp-14},
    {0x1.ffff6f9f67e55p-1, 0x1.e9b5e8d00ce77p-16}, {0x1.ffffc316d9ed0p-1, 0x1.abe09e9144b5ep-17},
    {0x1.ffffe710d565ep-1, 0x1.6a597219a93dap-18}, {0x1.fffff618c3da6p-1, 0x1.296a70f414053p-19},
    {0x1.fffffc2f171e3p-1, 0x1.d9371e2ff7c35p-21}, {0x1.fffffe92ced93p-1, 0x1.6ce1aa3fd7bddp-22},
    {0x1.ffffff7b91176p-1, 0x1.10b1488aeb235p-23}, {0x1.ffffffd169d0cp-1, 0x1.8b0cfce0579e0p-25},
    {0x1.fffffff01a8b6p-1, 0x1.155a09065d4f7p-26}, {0x1.fffffffabd229p-1, 0x1.7974e743dea3dp-28},
    {0x1.fffffffe4fa30p-1, 0x1.f1e3523b41d7dp-30}, {0x1.ffffffff79626p-1, 0x1.3e44e45301b92p-31},
    {0x1.ffffffffd759dp-1, 0x1.8a61745ec7d1dp-33}, {0x1.fffffffff4188p-1, 0x1.d9a880f306bd8p-35},
    {0x1.fffffffffc9e8p-1, 0x1.13af4f04f9998p-36}, {0x1.ffffffffff11ap-1, 0x1.370ab8327af5ep-38},
    {0x1.ffffffffffc05p-1, 0x1.5422ef5d8949dp-40}, {0x1.ffffffffffef8p-1, 0x1.68823e52970bep-42},
    {0x1.fffffffffffbep-1, 0x1.7258610b3b233p-44}, {0x1.ffffffffffff0p-1, 0x1.70beaf9c7ffb6p-46},
    {0x1.ffffffffffffcp-1, 0x1.63daf8b4b1e0cp-48}, {0x1.fffffffffffffp-1, 0x1.4cd9c04158cd7p-50},
    {0x1.0000000000000p+0, 0x1.2dc119095729fp-52},
};

double KUMIKO_MATH(erf)(double x) {
    const double a = math_abs(x), z = a * a;
    if (!(a < 6)) return a != a ? x : with_sign(1, x);
    if (a < 0.5) { /* 2/sqrt(pi) (x - x^3 / 3 + x^5 / (2! 5) - …) */
        double p = -0x1.51d7181c5d36dp-30;
        p = p * z + 0x1.fcc5720624c1cp-27;
        p = p * z - 0x1.5f742ec43e71ap-23;
        p = p * z + 0x1.b9e6c9dc651a3p-20;
        p = p * z - 0x1.f4d25c3e0c2ebp-17;
        p = p * z + 0x1.f9a326f9b89b7p-14;
        p = p * z - 0x1.c02db40040b86p-11;
        p = p * z + 0x1.565bcd0e6a53fp-8;
        p = p * z - 0x1.b82ce31288b51p-6;
        p = p * z + 0x1.ce2f21a042be2p-4;
        p = p * z - 0x1.812746b0379e7p-2;
        return x + x * (p * z + 0x1.06eba8214db69p-3);
    }
    const int k = (int)(8 * a + 0.5);
    const double c = k / 8., h = a - c;
    /* The derivative is b0 + b1 h + b2 h^2 + …, its own derivative -2 (c + h) times as much. */
    double before = 0, b = erf_table[k - 4][1], power = h, sum = 0;
    for (int n = 0; n < 14; n++) {
        const double next = -2 * (c * b + before) / (n + 1);
        sum += power * b / (n + 1);
        power *= h, before = b, b = next;
    }
    return with_sign(erf_table[k - 4][0] + sum, x);
}

/* (1 + 2a) e^(a²) erfc(a) as a polynomial in (a - 3.75) / (a + 3.75), from the highest power. */
static const double erfc_polynomial[24] = {
    0x1.561b105822235p-32,  -0x1.6884628ace07ap-29, -0x1.014cd7201b5adp-28, 0x1.12b326b5668bfp-25,
    0x1.8fa9fe49c359bp-26,  -0x1.0ae6bf9452a1fp-22, -0x1.eb803840c0574p-25, 0x1.d39c1a3875509p-20,
    -0x1.055686d42aa63p-20, -0x1.7fcc159f9a760p-17, 0x1.778b933adcce7p-16,  0x1.b13e13fe20445p-15,
    -0x1.303fa4966bc38p-12, 0x1.33fb5a5e7ca14p-12,  0x1.cc3a0e7d2150cp-10,  -0x1.3f603c7e65d24p-7,
    0x1.d0b0037d167adp-6,   -0x1.e0d0fa6c16f3fp-5,  0x1.7a14188a9ce2ap-4,   -0x1.bda9309a35871p-4,
    0x1.510169d09665bp-4,   0x1.d5f294816277ep-9,   -0x1.1f367683f89a5p-3,  0x1.3ccda0b5d5dc2p+0,
};

double KUMIKO_MATH(erfc)(double x) {
    if (!(x >= 0.5)) return x == -math_inf ? 2 : 1 - KUMIKO_MATH(erf)(x);
    if (x > 27.3) return 0;
    const double t = (x - 3.75) / (x + 3.75);
    double p = erfc_polynomial[0];
    for (int k = 1; k < 24; k++) p = p * t + erfc_polynomial[k];
    const double s = x * x;
    /* If the product is subnormal, it is rounded only once: e^(-s) = 2^-k e^(k ln 2 - s). */
    const double k = nearest_multiple_of_ln2(s);
    const double small = exp_minus_one_small(-(s - k * ln2_high), k * ln2_low - product_rest(x, x, s));
    const double factor = p / (1 + 2 * x);
    return scaled(factor + factor * small, -(int)k);
}

double KUMIKO_MATH(expm1)(double x) {
    if (!(math_abs(x) > 1e-17)) return x;
    return x < -40 ? -1 : exp_minus_one(x);
}

double KUMIKO_MATH(log1p)(double x) {
    if (!(math_abs(x) > 1e-17)) return x;
    if (!(x > -1)) return x == -1 ? -math_inf : __builtin_nan("");
    return log_one_plus(x);
}

double KUMIKO_MATH(sinh)(double x) {
    const double a = math_abs(x);
    if (!(a > 1e-9)) return x;
    if (a > 709) {
        const double root = exp_sum(0.5 * a, 0);
        return with_sign(0.5 * root * root, x);
    }
    const double e = exp_minus_one(a);
    return with_sign(0.5 * (e + e / (e + 1)), x);
}

double KUMIKO_MATH(cosh)(double x) {
    const double a = math_abs(x);
    const double e = exp_sum(a > 709 ? 0.5 * a : a, 0);
    return a > 709 ? 0.5 * e * e : 0.5 * (e + 1 / e);
}

double KUMIKO_MATH(tanh)(double x) {
    const double a = math_abs(x);
    if (!(a > 1e-9)) return x;
    if (a > 20) return with_sign(1, x);
    const double e = exp_minus_one(2 * a);
    return with_sign(e / (e + 2), x);
}

double KUMIKO_MATH(asinh)(double x) {
    const double a = math_abs(x);
    if (!(a > 1e-9)) return x;
    if (a > 0x1p30) return with_sign(KUMIKO_MATH(log)(a) + 0x1.62e42fefa39efp-1, x);
    return with_sign(log_one_plus(a + a * a / (1 + KUMIKO_MATH(sqrt)(1 + a * a))), x);
}

double KUMIKO_MATH(acosh)(double x) {
    if (!(x >= 1)) return __builtin_nan("");
    if (x > 0x1p30) return KUMIKO_MATH(log)(x) + 0x1.62e42fefa39efp-1;
    const double t = x - 1;
    return log_one_plus(t + KUMIKO_MATH(sqrt)(2 * t + t * t));
}

double KUMIKO_MATH(atanh)(double x) {
    const double a = math_abs(x);
    if (!(a <= 1)) return __builtin_nan("");
    if (!(a > 1e-9)) return x;
    return with_sign(a == 1 ? math_inf : 0.5 * log_one_plus(2 * a / (1 - a)), x);
}

/* Exact, 11 bits of the quotient at a time. */
double KUMIKO_MATH(fmod)(double x, double y) {
    const double ax = math_abs(x), ay = math_abs(y);
    if (x != x || y != y || ax == math_inf || ay == 0) return __builtin_nan("");
    if (ax < ay) return x;
    uint64_t m = math_bits(ax), n = math_bits(ay);
    int em = (int)(m >> 52), en = (int)(n >> 52);
    m = em ? (m & 0xfffffffffffff) | 0x10000000000000 : m;
    n = en ? (n & 0xfffffffffffff) | 0x10000000000000 : n;
    if (!em) em = 1;
    if (!en) en = 1;
    m %= n;
    for (int left = em - en; left > 0 && m;) {
        const int step = left < 11 ? left : 11;
        m = (m << step) % n;
        left -= step;
    }
    /* m * 2^(en - 1075), exactly */
    while (m && m < 0x10000000000000 && en > 1) m <<= 1, en--;
    if (m >= 0x10000000000000) m = (m & 0xfffffffffffff) | (uint64_t)en << 52;
    return with_sign(math_float(m), x);
}
