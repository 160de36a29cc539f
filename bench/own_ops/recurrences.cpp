// Recurrences: filters along time, and tables of dynamic programming.
#include "bench/own_ops/own_ops.h"

#include "dsl/math.h"
#include "dsl/recurrence.h"
#include "dsl/reduction.h"
#include "dsl/scan.h"

namespace kumiko::bench {

namespace {

// A filter of second order along time, one for each channel.
Op biquad(const Extents &e) {
    Axis c("c", e["C"]), t("t", e["T"]);
    Tensor X = input("X", f32, {c, t}), A = input("A", f32, {c}), B = input("B", f32, {c});
    return Op("biquad", {X, A, B}, {recurrence("y", f32, {c, t}, 0, [&](const Earlier &y) {
                  return X(c, t) + A(c) * y(c, t - 1) - B(c) * y(c, t - 2);
              })});
}
const char *biquad_loop = R"(
    for (int c = 0; c < C; c++) {
        float now = 0, before = 0;
        for (int t = 0; t < T; t++) {
            const float next = X[c][t] + A[c] * now - B[c] * before;
            before = now, now = y[c][t] = next;
        }
    }
)";

// The same with time outermost, as sound cards deliver it.
Op biquad_frames(const Extents &e) {
    Axis c("c", e["C"]), t("t", e["T"]);
    Tensor X = input("X", f32, {t, c}), A = input("A", f32, {c}), B = input("B", f32, {c});
    return Op("biquad_frames", {X, A, B}, {recurrence("y", f32, {t, c}, 0, [&](const Earlier &y) {
                  return X(t, c) + A(c) * y(t - 1, c) - B(c) * y(t - 2, c);
              })});
}
const char *biquad_frames_loop = R"(
    for (int t = 0; t < T; t++)
        for (int c = 0; c < C; c++)
            y[t][c] = X[t][c] + A[c] * (t > 0 ? y[t - 1][c] : 0) - B[c] * (t > 1 ? y[t - 2][c] : 0);
)";

// Scores of local alignments of two strings (Smith and Waterman, 1981).
Op alignment(const Extents &e) {
    Axis i("i", e["M"]), j("j", e["N"]);
    Tensor S = input("S", i32, {i}), R = input("R", i32, {j});
    return Op("alignment", {S, R}, {recurrence("H", i32, {i, j}, 0, [&](const Earlier &H) {
                  const Element score = select(S(i) % 4 == R(j) % 4, 3, Expr(-2));
                  return max(max(H(i - 1, j - 1) + score, max(H(i - 1, j), H(i, j - 1)) - 1), 0);
              })});
}
const char *alignment_loop = R"(
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            const int score = S[i] % 4 == R[j] % 4 ? 3 : -2;
            const int up = i > 0 ? H[i - 1][j] : 0, left = j > 0 ? H[i][j - 1] : 0;
            const int corner = i > 0 && j > 0 ? H[i - 1][j - 1] : 0;
            H[i][j] = max(max(corner + score, max(up, left) - 1), 0);
        }
)";

// The most that the first n items are worth in w units of room, if each takes 7 units.
Op knapsack(const Extents &e) {
    Axis n("n", e["N"]), w("w", e["W"]);
    Tensor V = input("V", f32, {n});
    return Op("knapsack", {V}, {recurrence("best", f32, {n, w}, 0, [&](const Earlier &best) {
                  return max(best(n - 1, w), best(n - 1, w - 7) + V(n));
              })});
}
const char *knapsack_loop = R"(
    for (int w = 0; w < W; w++) best[0][w] = max(0.f, V[0]);
    for (int n = 1; n < N; n++) {
        for (int w = 0; w < 7 && w < W; w++) best[n][w] = max(best[n - 1][w], V[n]);
        for (int w = 7; w < W; w++) best[n][w] = max(best[n - 1][w], best[n - 1][w - 7] + V[n]);
    }
)";

// A smoother of first order along time, forwards and then backwards.
Op zero_phase(const Extents &e) {
    Axis c("c", e["C"]), t("t", e["T"]);
    Tensor X = input("X", f32, {c, t});
    const auto step = [](Expr a, Expr b) { return a * 0.8f + b * 0.2f; };
    Tensor f = compute("f", {c, t}, scan(step, 0.f, X(c, t), t));
    Tensor r = compute("r", {c, t}, scan(step, 0.f, f(c, e["T"] - 1 - t), t));
    return Op("zero_phase", {X}, {compute("Y", {c, t}, r(c, e["T"] - 1 - t))});
}
const char *zero_phase_loop = R"(
    for (int c = 0; c < C; c++) {
        float s = 0;
        for (int t = 0; t < T; t++) Y[c][t] = s = s * 0.8f + X[c][t] * 0.2f;
        s = 0;
        for (int t = T - 1; t >= 0; t--) Y[c][t] = s = s * 0.8f + Y[c][t] * 0.2f;
    }
)";

// The score of the best path to each state of a hidden Markov model at each time.
Op viterbi(const Extents &e) {
    Axis t("t", e["T"]), s("s", e["S"]), p("p", e["S"]);
    Tensor E = input("E", f32, {t, s}), A = input("A", f32, {p, s});
    return Op("viterbi", {E, A}, {recurrence("V", f32, {t, s}, 0, [&](const Earlier &V) {
                  return maximum(V(t - 1, p) + A(p, s), p) + E(t, s);
              })});
}
const char *viterbi_loop = R"(
    for (int t = 0; t < T; t++) {
        float most[S];
        for (int s = 0; s < S; s++) most[s] = -INFINITY;
        for (int p = 0; p < S; p++) {
            const float before = t > 0 ? V[t - 1][p] : 0;
            for (int s = 0; s < S; s++) most[s] = max(most[s], before + A[p][s]);
        }
        for (int s = 0; s < S; s++) V[t][s] = most[s] + E[t][s];
    }
)";

// A selective scan (A. Gu and T. Dao, "Mamba", 2023): N states per channel decay by a gate that
// depends on time.
Op mamba_scan(const Extents &e) {
    Axis t("t", e["T"]), d("d", e["D"]), n("n", e["N"]);
    Tensor X = input("X", f32, {t, d}), delta = input("delta", f32, {t, d}), A = input("A", f32, {d, n}),
           B = input("B", f32, {t, n}), C = input("C", f32, {t, n}), skip = input("skip", f32, {d});
    Tensor h = recurrence("h", f32, {t, d, n}, 0, [&](const Earlier &h) {
        return exp(delta(t, d) * A(d, n)) * h(t - 1, d, n) + delta(t, d) * B(t, n) * X(t, d);
    });
    return Op("mamba_scan", {X, delta, A, B, C, skip},
              {compute("Y", {t, d}, sum(h(t, d, n) * C(t, n), n) + skip(d) * X(t, d))});
}
const char *mamba_scan_loop = R"(
    float h[D][N] = {};
    for (int t = 0; t < T; t++)
        for (int d = 0; d < D; d++) {
            const float x = X[t][d], s = delta[t][d];
            float sum = 0;
            for (int n = 0; n < N; n++) {
                h[d][n] = exp(s * A[d][n]) * h[d][n] + s * B[t][n] * x;
                sum += h[d][n] * C[t][n];
            }
            Y[t][d] = sum + skip[d] * x;
        }
)";

} // namespace

std::vector<OwnOp> recurrence_ops() {
    return {
        {"biquad", {{"C", 48}, {"T", 1000}}, biquad, biquad_loop, {}, {{"A", {0.1, 0.9}}, {"B", {0.1, 0.3}}}},
        {"biquad_frames",
         {{"C", 100}, {"T", 500}},
         biquad_frames,
         biquad_frames_loop,
         {},
         {{"A", {0.1, 0.9}}, {"B", {0.1, 0.3}}}},
        {"alignment", {{"M", 200}, {"N", 250}}, alignment, alignment_loop},
        {"knapsack", {{"N", 50}, {"W", 1000}}, knapsack, knapsack_loop},
        {"zero_phase", {{"C", 60}, {"T", 1000}}, zero_phase, zero_phase_loop},
        {"viterbi", {{"T", 300}, {"S", 40}}, viterbi, viterbi_loop},
        {"mamba_scan",
         {{"T", 128}, {"D", 48}, {"N", 16}},
         mamba_scan,
         mamba_scan_loop,
         {},
         {{"delta", {0.01, 0.5}}, {"A", {-2, -0.1}}}},
    };
}

} // namespace kumiko::bench
