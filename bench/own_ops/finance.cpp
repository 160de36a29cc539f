// Prices of options.
#include "bench/own_ops/own_ops.h"

#include "dsl/math.h"
#include "dsl/reduction.h"
#include "dsl/scan.h"

namespace kumiko::bench {

namespace {

// Prices of European calls and puts by the formula of Black and Scholes, in f64.
Op black_scholes(const Extents &e) {
    Axis n("n", e["N"]);
    Tensor S = input("S", f64, {n}), K = input("K", f64, {n}), T = input("T", f64, {n});
    const double rate = 0.02, vol = 0.3;
    Tensor d1 = compute("d1", {n}, (log(S(n) / K(n)) + (rate + vol * vol / 2) * T(n)) / (vol * sqrt(T(n))));
    Tensor d2 = compute("d2", {n}, d1(n) - vol * sqrt(T(n)));
    Tensor a = compute("a", {n}, 0.5 * erfc(d1(n) * -0.7071067811865476)),
           b = compute("b", {n}, 0.5 * erfc(d2(n) * -0.7071067811865476));
    Tensor k = compute("k", {n}, K(n) * exp(-rate * T(n)));
    return Op("black_scholes", {S, K, T},
              {compute("call", {n}, S(n) * a(n) - k(n) * b(n)),
               compute("put", {n}, k(n) * (1.0 - b(n)) - S(n) * (1.0 - a(n)))});
}
const char *black_scholes_loop = R"(
    const double rate = 0.02, vol = 0.3;
    for (int n = 0; n < N; n++) {
        const double r = vol * sqrt(T[n]), d1 = (log(S[n] / K[n]) + (rate + vol * vol / 2) * T[n]) / r, d2 = d1 - r;
        const double k = K[n] * exp(-rate * T[n]);
        const double a = 0.5 * erfc(d1 * -0.7071067811865476), b = 0.5 * erfc(d2 * -0.7071067811865476);
        call[n] = S[n] * a - k * b, put[n] = k * (1 - b) - S[n] * (1 - a);
    }
)";

// The value of an Asian option by Monte Carlo simulation of P paths of T steps.
Op asian_option(const Extents &e) {
    Axis t("t", e["T"]), p("p", e["P"]);
    Tensor Z = input("Z", f32, {t, p});
    Tensor walk =
        compute("walk", {t, p}, scan([](Expr a, Expr b) { return a + b; }, 0.f, Z(t, p) * 0.05f - 0.0002f, t));
    Tensor mean = compute("mean", {p}, sum(exp(walk(t, p)), t) * (100.f / 50));
    return Op("asian_option", {Z}, {compute("value", {}, sum(max(mean(p) - 100.f, 0.f), p) / cast(f32, e["P"]))});
}
const char *asian_option_loop = R"(
    float walk[P] = {}, sums[P] = {}, total = 0;
    for (int t = 0; t < T; t++)
        for (int p = 0; p < P; p++) walk[p] += Z[t][p] * 0.05f - 0.0002f, sums[p] += exp(walk[p]);
    for (int p = 0; p < P; p++) total += max(sums[p] * (100.f / 50) - 100, 0.f);
    *value = total / P;
)";

} // namespace

std::vector<OwnOp> finance_ops() {
    return {
        {"black_scholes",
         {{"N", 10000}},
         black_scholes,
         black_scholes_loop,
         {},
         {{"S", {80, 120}}, {"K", {80, 120}}, {"T", {0.2, 2}}},
         {1e-9, 1e-9}},
        {"asian_option", {{"T", 50}, {"P", 2000}}, asian_option, asian_option_loop, {}, {}, {1e-4, 1e-4}},
    };
}

} // namespace kumiko::bench
