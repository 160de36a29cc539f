// Gathers, scatters, the largest elements of rows, and geometry.
#include "bench/own_ops/own_ops.h"

#include "dsl/math.h"
#include "dsl/reduction.h"
#include "dsl/scatter.h"

namespace kumiko::bench {

namespace {

Op embedding_bag(const Extents &e) {
    Axis b("b", e["B"]), l("l", e["L"]), d("d", e["D"]), v("v", e["V"]);
    Tensor table = input("table", f32, {v, d}), id = input("id", i32, {b, l});
    return Op("embedding_bag", {table, id},
              {compute("Y", {b, d}, sum(table(clamp(id(b, l), 0, e["V"] - 1), d), l) / cast(f32, e["L"]))});
}
const char *embedding_bag_loop = R"(
    for (int b = 0; b < B; b++) {
        float sum[D] = {};
        for (int l = 0; l < L; l++)
            for (int d = 0; d < D; d++) sum[d] += table[id[b][l]][d];
        for (int d = 0; d < D; d++) Y[b][d] = sum[d] / L;
    }
)";
// The sum of one bag stays in registers.
void embedding_bag_hand(Schedule &s) {
    s.stage("Y.sum").reorder({"b", "l", "d"}).vectorize("d", lanes(s)).unroll("d.o").unroll("l", 4);
    s.stage("Y.sum").accumulate_in("registers", "b").finish_in("Y");
}

// A sparse matrix with L stored elements per row (ELLPACK), times a dense one.
Op sparse_product(const Extents &e) {
    Axis i("i", e["M"]), l("l", e["L"]), k("k", e["K"]), j("j", e["N"]);
    Tensor V = input("V", f32, {i, l}), column = input("column", i32, {i, l}), B = input("B", f32, {k, j});
    return Op("sparse_product", {V, column, B},
              {compute("Y", {i, j}, sum(V(i, l) * B(clamp(column(i, l), 0, e["K"] - 1), j), l))});
}
const char *sparse_product_loop = R"(
    for (int i = 0; i < M; i++) {
        float sum[N] = {};
        for (int l = 0; l < L; l++)
            for (int j = 0; j < N; j++) sum[j] += V[i][l] * B[column[i][l]][j];
        for (int j = 0; j < N; j++) Y[i][j] = sum[j];
    }
)";
void sparse_product_hand(Schedule &s) {
    s.stage("Y").reorder({"i", "l", "j"}).vectorize("j", lanes(s)).unroll("j.o").unroll("l", 4);
    s.stage("Y").accumulate_in("registers", "i");
}

Op scatter_add(const Extents &e) {
    Axis n("n", e["N"]), d("d", e["D"]), v("v", e["V"]);
    Tensor G = input("G", f32, {n, d}), id = input("id", i32, {n});
    return Op("scatter_add", {G, id}, {compute("Y", {v, d}, scatter(sum, G(n, d), v, id(n), n))});
}
const char *scatter_add_loop = R"(
    for (int v = 0; v < V; v++)
        for (int d = 0; d < D; d++) Y[v][d] = 0;
    for (int n = 0; n < N; n++)
        for (int d = 0; d < D; d++) Y[id[n]][d] += G[n][d];
)";
void scatter_add_hand(Schedule &s) {
    s.stage("Y").reorder({"n", "v", "d"}).scatter("v").vectorize("d", lanes(s)).unroll("d.o");
}

Op top1(const Extents &e) {
    Axis i("i", e["M"]), j("j", e["N"]);
    Tensor X = input("X", f32, {i, j});
    return Op("top1", {X}, {compute("value", {i}, maximum(X(i, j), j)), compute("place", {i}, argmax(X(i, j), j))});
}
const char *top1_loop = R"(
    for (int i = 0; i < M; i++) {
        float most = X[i][0];
        int at = 0;
        for (int j = 1; j < N; j++)
            if (X[i][j] > most) most = X[i][j], at = j;
        value[i] = most, place[i] = at;
    }
)";

Op iou(const Extents &e) {
    Axis i("i", e["M"]), j("j", e["N"]), c("c", 4);
    Tensor A = input("A", f32, {j, c}), S = input("S", f32, {i, c});
    const Element w = max(min(A(j, 2), S(i, 2)) - max(A(j, 0), S(i, 0)), 0.f),
                  h = max(min(A(j, 3), S(i, 3)) - max(A(j, 1), S(i, 1)), 0.f);
    const Element in = w * h, a = (A(j, 2) - A(j, 0)) * (A(j, 3) - A(j, 1)),
                  b = (S(i, 2) - S(i, 0)) * (S(i, 3) - S(i, 1));
    return Op("iou", {A, S}, {compute("Y", {i, j}, in / (a + b - in))});
}
const char *iou_loop = R"(
    for (int i = 0; i < M; i++) {
        const float b = (S[i][2] - S[i][0]) * (S[i][3] - S[i][1]);
        for (int j = 0; j < N; j++) {
            const float w = max(min(A[j][2], S[i][2]) - max(A[j][0], S[i][0]), 0.f);
            const float h = max(min(A[j][3], S[i][3]) - max(A[j][1], S[i][1]), 0.f);
            Y[i][j] = w * h / ((A[j][2] - A[j][0]) * (A[j][3] - A[j][1]) + b - w * h);
        }
    }
)";
void iou_hand(Schedule &s) {
    const int64_t v = lanes(s);
    s.stage("Y").split("j", 2 * v);
    s.stage("Y").reorder({"j.o", "i", "j.i"}).vectorize("j.i", v).unroll("j.i.o");
    s.place_in("A", "L1", "Y", "j.o");
    s.stage("A.L1").layout({"c", "j"});
}

// v + 2 w (u × v) + 2 u × (u × v), of the unit quaternion w + u, in rows of x, y, z, w.
Op quaternion_rotation(const Extents &e) {
    Axis n("n", e["N"]), c("c", 3), q("q", 4);
    Tensor Q = input("Q", f32, {n, q}), V = input("V", f32, {n, c});
    Tensor t =
        compute("t", {n, c}, 2.f * (Q(n, (c + 1) % 3) * V(n, (c + 2) % 3) - Q(n, (c + 2) % 3) * V(n, (c + 1) % 3)));
    return Op("quaternion_rotation", {Q, V},
              {compute("Y", {n, c},
                       V(n, c) + Q(n, 3) * t(n, c) + Q(n, (c + 1) % 3) * t(n, (c + 2) % 3) -
                           Q(n, (c + 2) % 3) * t(n, (c + 1) % 3))});
}
const char *quaternion_rotation_loop = R"(
    for (int n = 0; n < N; n++) {
        const float x = Q[n][0], y = Q[n][1], z = Q[n][2], w = Q[n][3];
        const float a = 2 * (y * V[n][2] - z * V[n][1]), b = 2 * (z * V[n][0] - x * V[n][2]);
        const float c = 2 * (x * V[n][1] - y * V[n][0]);
        Y[n][0] = V[n][0] + w * a + y * c - z * b;
        Y[n][1] = V[n][1] + w * b + z * a - x * c;
        Y[n][2] = V[n][2] + w * c + x * b - y * a;
    }
)";
void quaternion_rotation_hand(Schedule &s) {
    s.stage("t").inline_into();
    s.stage("Y").split("n", lanes(s));
    s.stage("Y").reorder({"n.o", "c", "n.i"}).vectorize("n.i").unroll("c");
}

// The mean of the rows of each segment, and their number.
Op segment_mean(const Extents &e) {
    Axis n("n", e["N"]), d("d", e["D"]), s("s", e["S"]);
    Tensor X = input("X", f32, {n, d}), seg = input("seg", i32, {n});
    Tensor total = compute("total", {s, d}, scatter(sum, X(n, d), s, seg(n), n));
    Tensor count = compute("count", {s}, scatter(sum, Expr(1), s, seg(n), n));
    return Op("segment_mean", {X, seg}, {compute("mean", {s, d}, total(s, d) / max(cast(f32, count(s)), 1.f)), count});
}
const char *segment_mean_loop = R"(
    for (int s = 0; s < S; s++) {
        count[s] = 0;
        for (int d = 0; d < D; d++) mean[s][d] = 0;
    }
    for (int n = 0; n < N; n++) {
        count[seg[n]]++;
        for (int d = 0; d < D; d++) mean[seg[n]][d] += X[n][d];
    }
    for (int s = 0; s < S; s++) {
        const float r = 1.f / max(count[s], 1);
        for (int d = 0; d < D; d++) mean[s][d] *= r;
    }
)";

} // namespace

std::vector<OwnOp> gather_ops() {
    return {
        {"embedding_bag",
         {{"B", 200}, {"L", 20}, {"D", 64}, {"V", 1000}},
         embedding_bag,
         embedding_bag_loop,
         embedding_bag_hand,
         {{"id", {0, 1000}}}},
        {"sparse_product",
         {{"M", 400}, {"L", 12}, {"K", 300}, {"N", 72}},
         sparse_product,
         sparse_product_loop,
         sparse_product_hand,
         {{"column", {0, 300}}}},
        {"scatter_add",
         {{"N", 4000}, {"D", 48}, {"V", 500}},
         scatter_add,
         scatter_add_loop,
         scatter_add_hand,
         {{"id", {0, 500}}}},
        {"top1", {{"M", 200}, {"N", 1000}}, top1, top1_loop},
        {"iou", {{"M", 300}, {"N", 300}}, iou, iou_loop, iou_hand, {{"A", {0, 1}}, {"S", {1, 2}}}},
        {"quaternion_rotation",
         {{"N", 20000}},
         quaternion_rotation,
         quaternion_rotation_loop,
         quaternion_rotation_hand},
        {"segment_mean", {{"N", 4000}, {"D", 20}, {"S", 100}}, segment_mean, segment_mean_loop},
    };
}

} // namespace kumiko::bench
