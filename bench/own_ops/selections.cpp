// The best of several: experts, centres of clusters, and nearest neighbours.
#include "bench/own_ops/own_ops.h"

#include "dsl/math.h"
#include "dsl/reduction.h"
#include "dsl/top_k.h"

namespace kumiko::bench {

namespace {

// The gate of a mixture of experts: for each token the two best experts and their weights, and for
// each expert its mean probability.
Op moe_gate(const Extents &e) {
    Axis t("t", e["T"]), d("d", e["D"]), x("x", e["E"]), y("y", e["E"]);
    Tensor X = input("X", f32, {t, d}), W = input("W", f32, {d, x});
    Tensor logit = compute("logit", {t, x}, sum(X(t, d) * W(d, x), d));
    const Tuple best = top_k(logit(t, x), x, 2);
    Tensor most = compute("most", {t}, maximum(logit(t, x), x));
    Tensor p = compute("p", {t, x}, exp(logit(t, x) - most(t)));
    Tensor total = compute("total", {t}, sum(p(t, x), x));
    Tensor first = compute("first", {t}, 1.f / (1.f + exp(best[1] - best[0])));
    return Op("moe_gate", {X, W},
              {first, compute("second", {t}, 1.f - first(t)), compute("e1", {t}, best[2]), compute("e2", {t}, best[3]),
               compute("load", {x}, sum(p(t, x) / total(t), t) / cast(f32, e["T"]))});
}
const char *moe_gate_loop = R"(
    float sums[E] = {};
    for (int t = 0; t < T; t++) {
        float l[E] = {};
        for (int d = 0; d < D; d++)
            for (int x = 0; x < E; x++) l[x] += X[t][d] * W[d][x];
        float m = -INFINITY, s = -INFINITY;
        int a = 0, b = 0;
        for (int x = 0; x < E; x++) {
            if (l[x] > m) s = m, b = a, m = l[x], a = x;
            else if (l[x] > s) s = l[x], b = x;
        }
        first[t] = 1 / (1 + exp(s - m)), second[t] = 1 - first[t], e1[t] = a, e2[t] = b;
        float total = 0;
        for (int x = 0; x < E; x++) l[x] = exp(l[x] - m), total += l[x];
        total = 1 / total;
        for (int x = 0; x < E; x++) sums[x] += l[x] * total;
    }
    for (int x = 0; x < E; x++) load[x] = sums[x] / T;
)";

// The nearest of C centres for each point, and its squared distance.
Op kmeans_assign(const Extents &e) {
    Axis n("n", e["N"]), c("c", e["C"]), d("d", e["D"]);
    Tensor X = input("X", f32, {n, d}), M = input("M", f32, {c, d});
    Tensor dist = compute("dist", {n, c}, sum(square(X(n, d) - M(c, d)), d));
    const Extreme best = argmin(dist(n, c), c);
    return Op("kmeans_assign", {X, M}, {compute("label", {n}, best), compute("near", {n}, best.value)});
}
const char *kmeans_assign_loop = R"(
    for (int n = 0; n < N; n++) {
        float least = INFINITY;
        int at = 0;
        for (int c = 0; c < C; c++) {
            float sum = 0;
            for (int d = 0; d < D; d++) sum += (X[n][d] - M[c][d]) * (X[n][d] - M[c][d]);
            if (sum < least) least = sum, at = c;
        }
        label[n] = at, near[n] = least;
    }
)";
// A vector holds the distances of several points to one centre.
void kmeans_assign_hand(Schedule &s) {
    const int64_t v = lanes(s);
    const std::string width = std::to_string(v);
    s.stage("dist").split("n", v);
    s.stage("dist").split("c", 10);
    s.stage("dist").reorder({"n.o", "c.o", "d", "c.i", "n.i"}).vectorize("n.i").unroll("c.i");
    s.stage("dist").accumulate_in("registers", "c.o").layout({"n/" + width, "c", "n%" + width});
    s.place_in("X", "L1", "dist", "n.o");
    s.stage("X.L1").layout({"n/" + width, "d", "n%" + width});
    s.stage("label").split("n", v);
    s.stage("label").reorder({"n.o", "c", "n.i"}).vectorize("n.i").accumulate_in("registers", "n.o");
    s.stage("near").vectorize("n", v);
}

// The 4 nearest of N points for each query, by 2 q·x − |x|². The squared norms are inputs.
Op knn_top4(const Extents &e) {
    Axis m("m", e["M"]), n("n", e["N"]), d("d", e["D"]);
    Tensor Q = input("Q", f32, {m, d}), X = input("X", f32, {n, d}), xx = input("xx", f32, {n});
    Tensor score = compute("score", {m, n}, 2.f * sum(Q(m, d) * X(n, d), d) - xx(n));
    const Tuple best = top_k(score(m, n), n, 4);
    std::vector<Tensor> out;
    for (int k = 0; k < 4; k++) out.push_back(compute("s" + std::to_string(k), {m}, best[k]));
    for (int k = 0; k < 4; k++) out.push_back(compute("i" + std::to_string(k), {m}, best[4 + k]));
    return Op("knn_top4", {Q, X, xx}, out);
}
const char *knn_top4_loop = R"(
    for (int m = 0; m < M; m++) {
        float s[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
        int at[4] = {-1, -1, -1, -1};
        for (int n = 0; n < N; n++) {
            float v = 0;
            for (int d = 0; d < D; d++) v += Q[m][d] * X[n][d];
            v = 2 * v - xx[n];
            if (v > s[3]) {
                int k = 3;
                for (; k > 0 && v > s[k - 1]; k--) s[k] = s[k - 1], at[k] = at[k - 1];
                s[k] = v, at[k] = n;
            }
        }
        s0[m] = s[0], s1[m] = s[1], s2[m] = s[2], s3[m] = s[3];
        i0[m] = at[0], i1[m] = at[1], i2[m] = at[2], i3[m] = at[3];
    }
)";

} // namespace

std::vector<OwnOp> selection_ops() {
    return {
        {"moe_gate", {{"T", 200}, {"D", 128}, {"E", 16}}, moe_gate, moe_gate_loop},
        {"kmeans_assign", {{"N", 1000}, {"D", 24}, {"C", 20}}, kmeans_assign, kmeans_assign_loop, kmeans_assign_hand},
        {"knn_top4", {{"M", 20}, {"N", 1000}, {"D", 32}}, knn_top4, knn_top4_loop, nullptr, {{"xx", {5, 15}}}},
    };
}

} // namespace kumiko::bench
