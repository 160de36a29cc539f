// Recurrences: filters along time, and tables of dynamic programming.
#include "bench/own_ops/own_ops.h"

#include "dsl/math.h"
#include "dsl/recurrence.h"

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
            H[i][j] = std::max(std::max(corner + score, std::max(up, left) - 1), 0);
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
    for (int w = 0; w < W; w++) best[0][w] = std::max(0.f, V[0]);
    for (int n = 1; n < N; n++) {
        for (int w = 0; w < 7 && w < W; w++) best[n][w] = std::max(best[n - 1][w], V[n]);
        for (int w = 7; w < W; w++) best[n][w] = std::max(best[n - 1][w], best[n - 1][w - 7] + V[n]);
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
    };
}

} // namespace kumiko::bench
