// Matrix products that feed each other, a softmax, a norm or a gate, triangular ones, and inverses.
#include "bench/own_ops/own_ops.h"

#include "dsl/math.h"
#include "dsl/reduction.h"

namespace kumiko::bench {

namespace {

Op product2(const Extents &e) {
    Axis i("i", e["M"]), j("j", e["M"]), k("k", e["K"]), l("l", e["M"]);
    Tensor S = input("S", f32, {i, k}), B = input("B", f32, {k, l}), C = input("C", f32, {l, j});
    Tensor T = compute("T", {i, l}, sum(S(i, k) * B(k, l), k));
    return Op("product2", {S, B, C}, {compute("Q", {i, j}, sum(T(i, l) * C(l, j), l))});
}
const char *product2_loop = R"(
    for (int i = 0; i < M; i++) {
        float T[M] = {};
        for (int k = 0; k < K; k++)
            for (int l = 0; l < M; l++) T[l] += S[i][k] * B[k][l];
        for (int j = 0; j < M; j++) Q[i][j] = 0;
        for (int l = 0; l < M; l++)
            for (int j = 0; j < M; j++) Q[i][j] += T[l] * C[l][j];
    }
)";
void product2_hand(Schedule &s) {
    const int64_t v = lanes(s);
    tile_in_registers(s.stage("T"), "i", 6, "l", 2 * v, v, {"l.o", "i.o"}, {"k"});
    tile_in_registers(s.stage("Q"), "i", 6, "j", 2 * v, v, {"j.o", "i.o"}, {"l"});
}

// Z + (A · B) · C / 2, in which A · B has few columns.
Op low_rank(const Extents &e) {
    Axis i("i", e["M"]), j("j", e["N"]), k("k", e["K"]), r("r", e["R"]);
    Tensor A = input("A", f32, {i, k}), B = input("B", f32, {k, r}), C = input("C", f32, {r, j}),
           Z = input("Z", f32, {i, j});
    Tensor T = compute("T", {i, r}, sum(A(i, k) * B(k, r), k));
    return Op("low_rank", {A, B, C, Z}, {compute("Y", {i, j}, Z(i, j) + 0.5f * sum(T(i, r) * C(r, j), r))});
}
const char *low_rank_loop = R"(
    for (int i = 0; i < M; i++) {
        float T[R] = {}, sum[N] = {};
        for (int k = 0; k < K; k++)
            for (int r = 0; r < R; r++) T[r] += A[i][k] * B[k][r];
        for (int r = 0; r < R; r++)
            for (int j = 0; j < N; j++) sum[j] += T[r] * C[r][j];
        for (int j = 0; j < N; j++) Y[i][j] = Z[i][j] + 0.5f * sum[j];
    }
)";

Op geglu(const Extents &e) {
    Axis i("i", e["M"]), j("j", e["N"]), k("k", e["K"]);
    Tensor X = input("X", f32, {i, k}), A = input("A", f32, {k, j}), B = input("B", f32, {k, j});
    Tensor a = compute("a", {i, j}, sum(X(i, k) * A(k, j), k)), b = compute("b", {i, j}, sum(X(i, k) * B(k, j), k));
    return Op("geglu", {X, A, B}, {compute("Y", {i, j}, a(i, j) / (1.f + exp(-a(i, j))) * b(i, j))});
}
const char *geglu_loop = R"(
    for (int i = 0; i < M; i++) {
        float a[N] = {}, b[N] = {};
        for (int k = 0; k < K; k++)
            for (int j = 0; j < N; j++) a[j] += X[i][k] * A[k][j], b[j] += X[i][k] * B[k][j];
        for (int j = 0; j < N; j++) Y[i][j] = a[j] / (1 + exp(-a[j])) * b[j];
    }
)";

Op reglu_bias(const Extents &e) {
    Axis i("i", e["M"]), j("j", e["N"]), k("k", e["K"]);
    Tensor X = input("X", f32, {i, k}), A = input("A", f32, {k, j}), B = input("B", f32, {k, j}),
           u = input("u", f32, {j}), v = input("v", f32, {j});
    Tensor a = compute("a", {i, j}, sum(X(i, k) * A(k, j), k)), b = compute("b", {i, j}, sum(X(i, k) * B(k, j), k));
    return Op("reglu_bias", {X, A, B, u, v}, {compute("Y", {i, j}, max(a(i, j) + u(j), 0.f) * (b(i, j) + v(j)))});
}
const char *reglu_bias_loop = R"(
    for (int i = 0; i < M; i++) {
        float a[N], b[N];
        for (int j = 0; j < N; j++) a[j] = u[j], b[j] = v[j];
        for (int k = 0; k < K; k++)
            for (int j = 0; j < N; j++) a[j] += X[i][k] * A[k][j], b[j] += X[i][k] * B[k][j];
        for (int j = 0; j < N; j++) Y[i][j] = max(a[j], 0.f) * b[j];
    }
)";

Op product_softmax(const Extents &e) {
    Axis i("i", e["M"]), j("j", e["N"]), k("k", e["K"]);
    Tensor A = input("A", f32, {i, k}), B = input("B", f32, {k, j});
    Tensor S = compute("S", {i, j}, sum(A(i, k) * B(k, j), k));
    Tensor most = compute("most", {i}, maximum(S(i, j), j));
    Tensor p = compute("p", {i, j}, exp(S(i, j) - most(i)));
    Tensor total = compute("total", {i}, sum(p(i, j), j));
    return Op("product_softmax", {A, B}, {compute("Y", {i, j}, p(i, j) / total(i))});
}
const char *product_softmax_loop = R"(
    for (int i = 0; i < M; i++) {
        float s[N] = {}, most = -INFINITY, total = 0;
        for (int k = 0; k < K; k++)
            for (int j = 0; j < N; j++) s[j] += A[i][k] * B[k][j];
        for (int j = 0; j < N; j++) most = max(most, s[j]);
        for (int j = 0; j < N; j++) s[j] = exp(s[j] - most), total += s[j];
        for (int j = 0; j < N; j++) Y[i][j] = s[j] / total;
    }
)";

Op cosine_matrix(const Extents &e) {
    Axis i("i", e["M"]), j("j", e["N"]), k("k", e["K"]);
    Tensor A = input("A", f32, {i, k}), B = input("B", f32, {j, k});
    Tensor a = compute("a", {i}, rsqrt(sum(A(i, k) * A(i, k), k))),
           b = compute("b", {j}, rsqrt(sum(B(j, k) * B(j, k), k)));
    return Op("cosine_matrix", {A, B}, {compute("Y", {i, j}, sum(A(i, k) * B(j, k), k) * a(i) * b(j))});
}
const char *cosine_matrix_loop = R"(
    float b[N];
    for (int j = 0; j < N; j++) {
        float sum = 0;
        for (int k = 0; k < K; k++) sum += B[j][k] * B[j][k];
        b[j] = 1 / sqrt(sum);
    }
    for (int i = 0; i < M; i++) {
        float a = 0;
        for (int k = 0; k < K; k++) a += A[i][k] * A[i][k];
        a = 1 / sqrt(a);
        for (int j = 0; j < N; j++) {
            float sum = 0;
            for (int k = 0; k < K; k++) sum += A[i][k] * B[j][k];
            Y[i][j] = sum * a * b[j];
        }
    }
)";
void cosine_matrix_hand(Schedule &s) {
    const int64_t v = lanes(s);
    const std::string width = std::to_string(2 * v);
    tile_in_registers(s.stage("Y.sum"), "i", 6, "j", 2 * v, v, {"j.o", "i.o"}, {"k"});
    s.stage("Y.sum").finish_in("Y");
    s.place_in("B", "L1", "Y.sum", "j.o");
    s.stage("B.L1").layout({"j/" + width, "k", "j%" + width});
    for (const char *name : {"a.sum", "b.sum"}) s.stage(name).vectorize("k", 4 * v);
    for (const char *name : {"a", "b"}) s.stage(name).compute_root();
}

Op covariance(const Extents &e) {
    Axis n("n", e["N"]), i("i", e["D"]), j("j", e["D"]);
    Tensor X = input("X", f32, {n, i});
    Tensor mean = compute("mean", {i}, sum(X(n, i), n) / cast(f32, e["N"]));
    Tensor Z = compute("Z", {n, i}, X(n, i) - mean(i));
    return Op("covariance", {X}, {compute("C", {i, j}, sum(Z(n, i) * Z(n, j), n) / cast(f32, e["N"] - 1)), mean});
}
const char *covariance_loop = R"(
    for (int i = 0; i < D; i++) mean[i] = 0;
    for (int n = 0; n < N; n++)
        for (int i = 0; i < D; i++) mean[i] += X[n][i];
    for (int i = 0; i < D; i++) mean[i] /= N;
    for (int i = 0; i < D; i++)
        for (int j = 0; j < D; j++) C[i][j] = 0;
    for (int n = 0; n < N; n++) {
        float z[D];
        for (int i = 0; i < D; i++) z[i] = X[n][i] - mean[i];
        for (int i = 0; i < D; i++)
            for (int j = 0; j < D; j++) C[i][j] += z[i] * z[j];
    }
    for (int i = 0; i < D; i++)
        for (int j = 0; j < D; j++) C[i][j] /= N - 1;
)";

Op mahalanobis(const Extents &e) {
    Axis n("n", e["N"]), i("i", e["D"]), j("j", e["D"]);
    Tensor X = input("X", f32, {n, i}), mean = input("mean", f32, {i}), S = input("S", f32, {i, j});
    Tensor d = compute("d", {n, i}, X(n, i) - mean(i));
    Tensor T = compute("T", {n, j}, sum(d(n, i) * S(i, j), i));
    return Op("mahalanobis", {X, mean, S}, {compute("Y", {n}, sum(T(n, j) * d(n, j), j))});
}
const char *mahalanobis_loop = R"(
    for (int n = 0; n < N; n++) {
        float d[D], T[D] = {}, sum = 0;
        for (int i = 0; i < D; i++) d[i] = X[n][i] - mean[i];
        for (int i = 0; i < D; i++)
            for (int j = 0; j < D; j++) T[j] += d[i] * S[i][j];
        for (int j = 0; j < D; j++) sum += T[j] * d[j];
        Y[n] = sum;
    }
)";

// A lower triangular matrix times a matrix.
Op trmm(const Extents &e) {
    Axis i("i", e["M"]), k("k", e["M"]), j("j", e["N"]);
    Tensor L = input("L", f32, {i, k}), B = input("B", f32, {k, j});
    return Op("trmm", {L, B}, {compute("Y", {i, j}, sum(L(i, k) * B(k, j), k, where(k <= i)))});
}
const char *trmm_loop = R"(
    for (int i = 0; i < M; i++) {
        for (int j = 0; j < N; j++) Y[i][j] = 0;
        for (int k = 0; k <= i; k++)
            for (int j = 0; j < N; j++) Y[i][j] += L[i][k] * B[k][j];
    }
)";

// The inverses of N matrices of 3×3.
Op inverse3(const Extents &e) {
    Axis n("n", e["N"]), r("r", 3), c("c", 3);
    Tensor A = input("A", f32, {n, r, c});
    const auto minor = [&](const Expr &r, const Expr &c) { // cofactor of row r, column c
        return A(n, (r + 1) % 3, (c + 1) % 3) * A(n, (r + 2) % 3, (c + 2) % 3) -
               A(n, (r + 1) % 3, (c + 2) % 3) * A(n, (r + 2) % 3, (c + 1) % 3);
    };
    Tensor det = compute("det", {n}, A(n, 0, 0) * minor(0, 0) + A(n, 0, 1) * minor(0, 1) + A(n, 0, 2) * minor(0, 2));
    return Op("inverse3", {A}, {compute("Y", {n, r, c}, minor(c, r) / det(n))});
}
const char *inverse3_loop = R"(
    for (int n = 0; n < N; n++) {
        const float a = A[n][0][0], b = A[n][0][1], c = A[n][0][2], d = A[n][1][0], e = A[n][1][1], f = A[n][1][2],
                    g = A[n][2][0], h = A[n][2][1], i = A[n][2][2];
        const float p = e * i - f * h, q = f * g - d * i, r = d * h - e * g, s = 1 / (a * p + b * q + c * r);
        Y[n][0][0] = p * s, Y[n][0][1] = (c * h - b * i) * s, Y[n][0][2] = (b * f - c * e) * s;
        Y[n][1][0] = q * s, Y[n][1][1] = (a * i - c * g) * s, Y[n][1][2] = (c * d - a * f) * s;
        Y[n][2][0] = r * s, Y[n][2][1] = (b * g - a * h) * s, Y[n][2][2] = (a * e - b * d) * s;
    }
)";
void inverse3_hand(Schedule &s) {
    s.stage("Y").split("n", lanes(s));
    s.stage("Y").reorder({"n.o", "r", "c", "n.i"}).vectorize("n.i").unroll("r").unroll("c");
    s.stage("det").inline_into();
}

} // namespace

std::vector<OwnOp> product_ops() {
    return {
        {"product2", {{"M", 150}, {"K", 150}}, product2, product2_loop, product2_hand},
        {"low_rank", {{"M", 100}, {"N", 300}, {"K", 300}, {"R", 16}}, low_rank, low_rank_loop},
        {"geglu", {{"M", 64}, {"N", 256}, {"K", 128}}, geglu, geglu_loop},
        {"reglu_bias", {{"M", 50}, {"N", 203}, {"K", 130}}, reglu_bias, reglu_bias_loop},
        {"product_softmax", {{"M", 64}, {"N", 250}, {"K", 96}}, product_softmax, product_softmax_loop},
        {"cosine_matrix", {{"M", 128}, {"N", 128}, {"K", 96}}, cosine_matrix, cosine_matrix_loop, cosine_matrix_hand},
        {"covariance", {{"N", 500}, {"D", 60}}, covariance, covariance_loop},
        {"mahalanobis", {{"N", 500}, {"D", 48}}, mahalanobis, mahalanobis_loop},
        {"trmm", {{"M", 180}, {"N", 150}}, trmm, trmm_loop},
        {"inverse3", {{"N", 10000}}, inverse3, inverse3_loop, inverse3_hand, {{"A", {0.1, 1}}}, {1e-2, 1e-2}},
    };
}

} // namespace kumiko::bench
