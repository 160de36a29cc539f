// Several reductions of the same data, and distances.
#include "bench/own_ops/own_ops.h"

#include "dsl/math.h"
#include "dsl/reduction.h"

namespace kumiko::bench {

namespace {

Op minmax(const Extents &e) {
    Axis n("n", e["N"]), y("y", e["H"]), x("x", e["W"]);
    Tensor X = input("X", f32, {n, y, x});
    return Op("minmax", {X},
              {compute("a", {n}, maximum(X(n, y, x), {y, x})), compute("b", {n}, minimum(X(n, y, x), {y, x}))});
}
const char *minmax_loop = R"(
    for (int n = 0; n < N; n++) {
        float most = -INFINITY, least = INFINITY;
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++) most = max(most, X[n][y][x]), least = min(least, X[n][y][x]);
        a[n] = most, b[n] = least;
    }
)";

Op maxarg(const Extents &e) {
    Axis n("n", e["N"]), y("y", e["H"]), x("x", e["W"]);
    Tensor X = input("X", f32, {n, y, x});
    return Op("maxarg", {X},
              {compute("a", {n}, maximum(X(n, y, x), {y, x})), compute("b", {n}, argmax(X(n, y, x), {y, x}))});
}
const char *maxarg_loop = R"(
    for (int n = 0; n < N; n++) {
        float most = X[n][0][0];
        int at = 0;
        for (int i = 1; i < H * W; i++)
            if (X[n][0][i] > most) most = X[n][0][i], at = i;
        a[n] = most, b[n] = at;
    }
)";

Op moments(const Extents &e) {
    Axis n("n", e["N"]);
    Tensor X = input("X", f32, {n});
    return Op("moments", {X}, {compute("s", {}, sum(X(n), n)), compute("q", {}, sum(X(n) * X(n), n))});
}
const char *moments_loop = R"(
    float sum = 0, squares = 0;
    for (int n = 0; n < N; n++) sum += X[n], squares += X[n] * X[n];
    *s = sum, *q = squares;
)";

Op cosine(const Extents &e) {
    Axis i("i", e["M"]), k("k", e["K"]);
    Tensor A = input("A", f32, {i, k}), B = input("B", f32, {i, k});
    Tensor ab = compute("ab", {i}, sum(A(i, k) * B(i, k), k)), aa = compute("aa", {i}, sum(A(i, k) * A(i, k), k)),
           bb = compute("bb", {i}, sum(B(i, k) * B(i, k), k));
    return Op("cosine", {A, B}, {compute("Y", {i}, ab(i) / (sqrt(aa(i)) * sqrt(bb(i)))), compute("Z", {i}, aa(i))});
}
const char *cosine_loop = R"(
    for (int i = 0; i < M; i++) {
        float ab = 0, aa = 0, bb = 0;
        for (int k = 0; k < K; k++) ab += A[i][k] * B[i][k], aa += A[i][k] * A[i][k], bb += B[i][k] * B[i][k];
        Y[i] = ab / (sqrt(aa) * sqrt(bb)), Z[i] = aa;
    }
)";
void cosine_hand(Schedule &s) {
    const int64_t v = lanes(s);
    for (const char *name : {"bb", "ab"}) s.stage(name).compute_at("Y", "i").vectorize("k", 4 * v);
    s.stage("aa").vectorize("k", 4 * v);
}

Op distances(const Extents &e) {
    Axis i("i", e["M"]), j("j", e["N"]), k("k", e["K"]);
    Tensor A = input("A", f32, {i, k}), B = input("B", f32, {j, k});
    return Op("distances", {A, B}, {compute("Y", {i, j}, sum((A(i, k) - B(j, k)) * (A(i, k) - B(j, k)), k))});
}
const char *distances_loop = R"(
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            float sum = 0;
            for (int k = 0; k < K; k++) sum += (A[i][k] - B[j][k]) * (A[i][k] - B[j][k]);
            Y[i][j] = sum;
        }
)";
void distances_hand(Schedule &s) {
    const int64_t v = lanes(s);
    tile_in_registers(s.stage("Y"), "i", 5, "j", 2 * v, v, {"j.o", "i.o"}, {"k"});
    s.place_in("B", "L2", "Y", "j.o");
    auto copy = s.stage("B.L2");
    copy.compute_root().layout({"k", "j"}).split("j", v);
    copy.split("k", 4);
    copy.reorder({"j.o", "k.o", "k.i", "j.i"}).unroll("k.i").vectorize("j.i");
}

} // namespace

std::vector<OwnOp> reduction_ops() {
    return {
        {"minmax", {{"N", 64}, {"H", 49}, {"W", 61}}, minmax, minmax_loop},
        {"maxarg", {{"N", 64}, {"H", 49}, {"W", 61}}, maxarg, maxarg_loop},
        {"moments", {{"N", 300000}}, moments, moments_loop, {}, {}, {1e-3, 1e-2}},
        {"cosine", {{"M", 300}, {"K", 384}}, cosine, cosine_loop, cosine_hand, {}, {1e-4, 1e-5}},
        {"distances", {{"M", 200}, {"N", 200}, {"K", 100}}, distances, distances_loop, distances_hand},
    };
}

} // namespace kumiko::bench
