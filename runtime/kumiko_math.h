/* Mathematical functions on f64 for machines without a C library: kernels for a "-freestanding"
 * target call these instead of libm's. Each is accurate to 3 ulp over its whole domain (measured by
 * tests/unit/test_runtime_math.cpp) and follows C's rules for infinities, NaN and signed zeros.
 * None of them needs libm, errno or libgcc. */
#ifndef KUMIKO_MATH_H
#define KUMIKO_MATH_H

#ifdef KUMIKO_PREFIX
#define KUMIKO_MATH_JOIN2(a, b) a##_math_##b
#define KUMIKO_MATH_JOIN(a, b) KUMIKO_MATH_JOIN2(a, b)
#define KUMIKO_MATH(name) KUMIKO_MATH_JOIN(KUMIKO_PREFIX, name)
#else
#define KUMIKO_MATH(name) kumiko_math_##name
#endif

#ifdef __cplusplus
extern "C" {
#endif

double KUMIKO_MATH(exp)(double x);
double KUMIKO_MATH(log)(double x);
double KUMIKO_MATH(pow)(double x, double y);
double KUMIKO_MATH(erf)(double x);
double KUMIKO_MATH(erfc)(double x);
double KUMIKO_MATH(expm1)(double x);
double KUMIKO_MATH(log1p)(double x);
double KUMIKO_MATH(sinh)(double x);
double KUMIKO_MATH(cosh)(double x);
double KUMIKO_MATH(tanh)(double x);
double KUMIKO_MATH(asinh)(double x);
double KUMIKO_MATH(acosh)(double x);
double KUMIKO_MATH(atanh)(double x);
double KUMIKO_MATH(fmod)(double x, double y);
double KUMIKO_MATH(sin)(double x);
double KUMIKO_MATH(cos)(double x);
double KUMIKO_MATH(tan)(double x);
double KUMIKO_MATH(asin)(double x);
double KUMIKO_MATH(acos)(double x);
double KUMIKO_MATH(atan)(double x);
double KUMIKO_MATH(atan2)(double y, double x);

/* Used by both source files. */
double KUMIKO_MATH(sqrt)(double x);

#ifdef __cplusplus
}
#endif

#endif
