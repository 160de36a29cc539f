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

} // namespace

std::vector<OwnOp> loss_ops() {
    return {
        {"focal_loss", {{"N", 20000}}, focal_loss, focal_loss_loop, focal_loss_hand, {{"T", {0, 1}}}},
        {"cross_entropy", {{"M", 128}, {"N", 1000}}, cross_entropy, cross_entropy_loop, cross_entropy_hand},
        {"huber_loss", {{"N", 50000}}, huber_loss, huber_loss_loop, huber_loss_hand, {{"X", {-2, 2}}}},
        {"triplet_loss", {{"M", 1000}, {"K", 128}}, triplet_loss, triplet_loss_loop, triplet_loss_hand},
    };
}

} // namespace kumiko::bench
