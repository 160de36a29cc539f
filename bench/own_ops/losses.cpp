// Loss functions.
#include "bench/own_ops/own_ops.h"

#include "dsl/math.h"
#include "dsl/reduction.h"

namespace kumiko::bench {

namespace {

Op focal_loss(const Extents &e) {
    Axis n("n", e["N"]);
    Tensor X = input("X", f32, {n}), T = input("T", f32, {n});
    const Element p = 1.f / (1.f + exp(-X(n)));
    const Element q = p * T(n) + (1.f - p) * (1.f - T(n)), a = 0.25f * T(n) + 0.75f * (1.f - T(n));
    return Op("focal_loss", {X, T}, {compute("L", {}, sum(-a * (1.f - q) * (1.f - q) * log(q), n))});
}
const char *focal_loss_loop = R"(
    float sum = 0;
    for (int n = 0; n < N; n++) {
        const float p = 1 / (1 + exp(-X[n])), q = p * T[n] + (1 - p) * (1 - T[n]);
        const float a = 0.25f * T[n] + 0.75f * (1 - T[n]);
        sum -= a * (1 - q) * (1 - q) * log(q);
    }
    *L = sum;
)";
void focal_loss_hand(Schedule &s) { s.stage("L").vectorize("n", 4 * lanes(s)); }

Op cross_entropy(const Extents &e) {
    Axis i("i", e["M"]), j("j", e["N"]);
    Tensor X = input("X", f32, {i, j}), label = input("label", i32, {i});
    Tensor most = compute("most", {i}, maximum(X(i, j), j)),
           total = compute("total", {i}, sum(exp(X(i, j) - most(i)), j)), all = compute("all", {i}, sum(X(i, j), j));
    const Element own = X(i, clamp(label(i), 0, e["N"] - 1));
    return Op("cross_entropy", {X, label},
              {compute("L", {i}, most(i) + log(total(i)) - 0.9f * own - 0.1f * all(i) / cast(f32, e["N"]))});
}
const char *cross_entropy_loop = R"(
    for (int i = 0; i < M; i++) {
        float most = -INFINITY, all = 0, total = 0;
        for (int j = 0; j < N; j++) most = max(most, X[i][j]), all += X[i][j];
        for (int j = 0; j < N; j++) total += exp(X[i][j] - most);
        L[i] = most + log(total) - 0.9f * X[i][label[i]] - 0.1f * all / N;
    }
)";
void cross_entropy_hand(Schedule &s) {
    for (const char *name : {"all", "total", "most"}) s.stage(name).compute_at("L", "i").vectorize("j", 4 * lanes(s));
}

Op huber_loss(const Extents &e) {
    Axis n("n", e["N"]);
    Tensor X = input("X", f32, {n}), T = input("T", f32, {n});
    Tensor d = compute("d", {n}, X(n) - T(n));
    const Element a = abs(d(n));
    return Op("huber_loss", {X, T},
              {compute("L", {}, sum(select(a < 1.f, 0.5f * d(n) * d(n), a - 0.5f), n) / cast(f32, e["N"])),
               compute("G", {n}, clamp(d(n), -1.f, 1.f) / cast(f32, e["N"]))});
}
const char *huber_loss_loop = R"(
    float sum = 0;
    for (int n = 0; n < N; n++) {
        const float d = X[n] - T[n], a = fabs(d);
        sum += a < 1 ? 0.5f * d * d : a - 0.5f;
        G[n] = min(max(d, -1.f), 1.f) / N;
    }
    *L = sum / N;
)";
void huber_loss_hand(Schedule &s) {
    s.stage("d").inline_into();
    s.stage("L.sum").vectorize("n", 4 * lanes(s));
    s.stage("G").vectorize("n", lanes(s));
}

Op triplet_loss(const Extents &e) {
    Axis i("i", e["M"]), k("k", e["K"]);
    Tensor A = input("A", f32, {i, k}), P = input("P", f32, {i, k}), N = input("N", f32, {i, k});
    Tensor near = compute("near", {i}, sum(square(A(i, k) - P(i, k)), k)),
           far = compute("far", {i}, sum(square(A(i, k) - N(i, k)), k));
    Tensor L = compute("L", {i}, max(sqrt(near(i)) - sqrt(far(i)) + 0.2f, 0.f));
    return Op("triplet_loss", {A, P, N}, {L, compute("mean", {}, sum(L(i), i) / cast(f32, e["M"]))});
}
const char *triplet_loss_loop = R"(
    float sum = 0;
    for (int i = 0; i < M; i++) {
        float p = 0, n = 0;
        for (int k = 0; k < K; k++) {
            p += (A[i][k] - P[i][k]) * (A[i][k] - P[i][k]);
            n += (A[i][k] - N[i][k]) * (A[i][k] - N[i][k]);
        }
        L[i] = max(sqrt(p) - sqrt(n) + 0.2f, 0.f), sum += L[i];
    }
    *mean = sum / M;
)";
void triplet_loss_hand(Schedule &s) {
    for (const char *name : {"near", "far"}) s.stage(name).compute_at("L", "i").vectorize("k", 4 * lanes(s));
}

// The Kullback-Leibler divergence of two rows of logits.
Op kl_rows(const Extents &e) {
    Axis i("i", e["M"]), j("j", e["N"]);
    Tensor A = input("A", f32, {i, j}), B = input("B", f32, {i, j});
    Tensor ma = compute("ma", {i}, maximum(A(i, j), j)), mb = compute("mb", {i}, maximum(B(i, j), j));
    Tensor ta = compute("ta", {i}, sum(exp(A(i, j) - ma(i)), j)), tb = compute("tb", {i}, sum(exp(B(i, j) - mb(i)), j));
    Tensor la = compute("la", {i, j}, A(i, j) - ma(i) - log(ta(i))),
           lb = compute("lb", {i, j}, B(i, j) - mb(i) - log(tb(i)));
    return Op("kl_rows", {A, B}, {compute("L", {i}, sum(exp(la(i, j)) * (la(i, j) - lb(i, j)), j))});
}
const char *kl_rows_loop = R"(
    for (int i = 0; i < M; i++) {
        float ma = -INFINITY, mb = -INFINITY, ta = 0, tb = 0, d = 0;
        for (int j = 0; j < N; j++) ma = max(ma, A[i][j]), mb = max(mb, B[i][j]);
        for (int j = 0; j < N; j++) {
            const float p = exp(A[i][j] - ma);
            ta += p, tb += exp(B[i][j] - mb), d += p * (A[i][j] - B[i][j]);
        }
        L[i] = d / ta - ma - log(ta) + mb + log(tb);
    }
)";

// A contrastive loss: cross entropies along the rows and along the columns of the similarities.
Op info_nce(const Extents &e) {
    Axis i("i", e["N"]), j("j", e["N"]), k("k", e["K"]);
    Tensor A = input("A", f32, {i, k}), B = input("B", f32, {j, k});
    Tensor S = compute("S", {i, j}, sum(A(i, k) * B(j, k), k) * 2.f);
    Tensor rm = compute("rm", {i}, maximum(S(i, j), j)), cm = compute("cm", {j}, maximum(S(i, j), i));
    Tensor rt = compute("rt", {i}, sum(exp(S(i, j) - rm(i)), j)), ct = compute("ct", {j}, sum(exp(S(i, j) - cm(j)), i));
    Tensor L = compute("L", {i}, 0.5f * (rm(i) + log(rt(i)) + cm(i) + log(ct(i))) - S(i, i));
    return Op("info_nce", {A, B}, {compute("loss", {}, sum(L(i), i) / cast(f32, e["N"]))});
}
const char *info_nce_loop = R"(
    static float S[N][N];
    float cm[N], ct[N] = {}, sum = 0;
    for (int j = 0; j < N; j++) cm[j] = -INFINITY;
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            float s = 0;
            for (int k = 0; k < K; k++) s += A[i][k] * B[j][k];
            S[i][j] = s * 2;
        }
        float most = -INFINITY, total = 0;
        for (int j = 0; j < N; j++) most = max(most, S[i][j]), cm[j] = max(cm[j], S[i][j]);
        for (int j = 0; j < N; j++) total += exp(S[i][j] - most);
        sum += 0.5f * (most + log(total)) - S[i][i];
    }
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) ct[j] += exp(S[i][j] - cm[j]);
    for (int j = 0; j < N; j++) sum += 0.5f * (cm[j] + log(ct[j]));
    *loss = sum / N;
)";

// One iteration of Sinkhorn's algorithm: row factors, then column factors.
Op sinkhorn(const Extents &e) {
    Axis i("i", e["M"]), j("j", e["N"]);
    Tensor K = input("K", f32, {i, j}), a = input("a", f32, {i}), b = input("b", f32, {j}), v = input("v", f32, {j});
    Tensor u = compute("u", {i}, a(i) / sum(K(i, j) * v(j), j));
    return Op("sinkhorn", {K, a, b, v}, {u, compute("w", {j}, b(j) / sum(K(i, j) * u(i), i))});
}
const char *sinkhorn_loop = R"(
    float sums[N] = {};
    for (int i = 0; i < M; i++) {
        float sum = 0;
        for (int j = 0; j < N; j++) sum += K[i][j] * v[j];
        const float r = u[i] = a[i] / sum;
        for (int j = 0; j < N; j++) sums[j] += K[i][j] * r;
    }
    for (int j = 0; j < N; j++) w[j] = b[j] / sums[j];
)";
// 11 vectors of column sums stay in registers.
void sinkhorn_hand(Schedule &s) {
    const int64_t v = lanes(s);
    s.stage("u.sum").vectorize("j", 4 * v);
    s.stage("u").vectorize("i", v);
    s.stage("w.sum").split("j", 11 * v);
    s.stage("w.sum").reorder({"j.o", "i", "j.i"}).vectorize("j.i", v).unroll("j.i.o");
    s.stage("w.sum").accumulate_in("registers", "j.o").finish_in("w");
}

} // namespace

std::vector<OwnOp> loss_ops() {
    return {
        {"focal_loss", {{"N", 20000}}, focal_loss, focal_loss_loop, focal_loss_hand, {{"T", {0, 1}}}},
        {"cross_entropy", {{"M", 128}, {"N", 1000}}, cross_entropy, cross_entropy_loop, cross_entropy_hand},
        {"huber_loss", {{"N", 50000}}, huber_loss, huber_loss_loop, huber_loss_hand, {{"X", {-2, 2}}}},
        {"triplet_loss", {{"M", 1000}, {"K", 128}}, triplet_loss, triplet_loss_loop, triplet_loss_hand},
        {"kl_rows",
         {{"M", 128}, {"N", 503}},
         kl_rows,
         kl_rows_loop,
         {},
         {{"A", {-3, 3}}, {"B", {-3, 3}}},
         {1e-4, 1e-4}},
        {"info_nce", {{"N", 130}, {"K", 64}}, info_nce, info_nce_loop},
        {"sinkhorn",
         {{"M", 600}, {"N", 517}},
         sinkhorn,
         sinkhorn_loop,
         sinkhorn_hand,
         {{"K", {0.1, 1}}, {"a", {0.5, 1}}, {"b", {0.5, 1}}, {"v", {0.5, 1}}}},
    };
}

} // namespace kumiko::bench
