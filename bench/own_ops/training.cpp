// Steps of training: optimisers, statistics of batches, and gradients.
#include "bench/own_ops/own_ops.h"

#include "dsl/inout.h"
#include "dsl/math.h"
#include "dsl/reduction.h"

namespace kumiko::bench {

namespace {

// One step of the optimiser AdamW.
Op adamw(const Extents &e) {
    Axis n("n", e["N"]);
    Tensor p = inout("p", f32, {n}), m = inout("m", f32, {n}), v = inout("v", f32, {n}), g = input("g", f32, {n});
    Tensor m1 = update(m, 0.9f * m(n) + 0.1f * g(n)), v1 = update(v, 0.999f * v(n) + 0.001f * g(n) * g(n));
    return Op("adamw", {p, m, v, g},
              {m1, v1, update(p, p(n) - 1e-3f * (m1(n) * 1.25f / (sqrt(v1(n) * 1.5f) + 1e-8f) + 0.01f * p(n)))});
}
const char *adamw_loop = R"(
    for (int n = 0; n < N; n++) {
        m[n] = 0.9f * m[n] + 0.1f * g[n];
        v[n] = 0.999f * v[n] + 0.001f * g[n] * g[n];
        p[n] -= 1e-3f * (m[n] * 1.25f / (sqrt(v[n] * 1.5f) + 1e-8f) + 0.01f * p[n]);
    }
)";

// One step of the optimiser Lion, with weights and gradients in bf16.
Op lion_bf16(const Extents &e) {
    Axis n("n", e["N"]);
    Tensor p = inout("p", bf16, {n}), m = inout("m", f32, {n}), g = input("g", bf16, {n});
    const Element d = cast(f32, g(n)), c = 0.9f * m(n) + 0.1f * d, w = cast(f32, p(n));
    const Element sign = select(c > 0.f, 1.f, select(c < 0.f, Expr(-1.f), Expr(0.f)));
    return Op("lion_bf16", {p, m, g},
              {update(p, cast(bf16, w - 1e-2f * (sign + 0.1f * w))), update(m, 0.99f * m(n) + 0.01f * d)});
}
const char *lion_bf16_loop = R"(
    for (int n = 0; n < N; n++) {
        const float d = from_bf16(g[n]), c = 0.9f * m[n] + 0.1f * d, w = from_bf16(p[n]);
        p[n] = to_bf16(w - 1e-2f * ((c > 0 ? 1.f : c < 0 ? -1.f : 0.f) + 0.1f * w));
        m[n] = 0.99f * m[n] + 0.01f * d;
    }
)";

// Batch normalisation in training, which also updates the running mean and variance, then ReLU.
Op batchnorm_train(const Extents &e) {
    Axis n("n", e["N"]), c("c", e["C"]), p("p", e["P"]);
    Tensor X = input("X", f32, {n, c, p}), g = input("g", f32, {c}), b = input("b", f32, {c}),
           rm = inout("rm", f32, {c}), rv = inout("rv", f32, {c});
    const Expr count = cast(f32, e["N"] * e["P"]);
    Tensor mean = compute("mean", {c}, sum(X(n, c, p), {n, p}) / count);
    Tensor var = compute("var", {c}, sum(square(X(n, c, p) - mean(c)), {n, p}) / count);
    return Op("batchnorm_train", {X, g, b, rm, rv},
              {compute("Y", {n, c, p}, max((X(n, c, p) - mean(c)) * rsqrt(var(c) + 1e-5f) * g(c) + b(c), 0.f)), mean,
               var, update(rm, 0.9f * rm(c) + 0.1f * mean(c)), update(rv, 0.9f * rv(c) + 0.1f * var(c))});
}
const char *batchnorm_train_loop = R"(
    for (int c = 0; c < C; c++) {
        float m = 0, v = 0;
        for (int n = 0; n < N; n++)
            for (int p = 0; p < P; p++) m += X[n][c][p];
        m /= N * P;
        for (int n = 0; n < N; n++)
            for (int p = 0; p < P; p++) v += (X[n][c][p] - m) * (X[n][c][p] - m);
        v /= N * P;
        const float s = g[c] / sqrt(v + 1e-5f), t = b[c] - m * s;
        for (int n = 0; n < N; n++)
            for (int p = 0; p < P; p++) Y[n][c][p] = max(X[n][c][p] * s + t, 0.f);
        mean[c] = m, var[c] = v;
        rm[c] = 0.9f * rm[c] + 0.1f * m, rv[c] = 0.9f * rv[c] + 0.1f * v;
    }
)";
void batchnorm_train_hand(Schedule &s) {
    s.stage("Y").reorder({"c", "n", "p"}).vectorize("p", lanes(s));
    for (const char *name : {"mean.sum", "var.sum"}) s.stage(name).vectorize("p", 4 * lanes(s));
    for (const char *name : {"var", "var.sum", "mean", "mean.sum"}) s.stage(name).compute_at("Y", "c");
}

// The gradients of gelu(X + b), by tanh, with respect to X and to b.
Op gelu_backward_bias(const Extents &e) {
    Axis i("i", e["M"]), j("j", e["N"]);
    Tensor X = input("X", f32, {i, j}), b = input("b", f32, {j}), G = input("G", f32, {i, j});
    const Element x = X(i, j) + b(j), t = tanh(0.79788456f * (x + 0.044715f * x * x * x));
    Tensor D = compute(
        "D", {i, j}, G(i, j) * (0.5f * (1.f + t) + 0.5f * x * (1.f - t * t) * 0.79788456f * (1.f + 0.134145f * x * x)));
    return Op("gelu_backward_bias", {X, b, G}, {D, compute("db", {j}, sum(D(i, j), i))});
}
const char *gelu_backward_bias_loop = R"(
    float sums[N] = {};
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            const float x = X[i][j] + b[j], t = tanh(0.79788456f * (x + 0.044715f * x * x * x));
            const float d = G[i][j] * (0.5f * (1 + t) + 0.5f * x * (1 - t * t) * 0.79788456f * (1 + 0.134145f * x * x));
            D[i][j] = d, sums[j] += d;
        }
    for (int j = 0; j < N; j++) db[j] = sums[j];
)";

} // namespace

std::vector<OwnOp> training_ops() {
    return {
        {"adamw", {{"N", 100000}}, adamw, adamw_loop, {}, {{"v", {0.1, 1}}}},
        {"lion_bf16", {{"N", 100003}}, lion_bf16, lion_bf16_loop, {}, {}, {1e-2, 1e-3}},
        {"batchnorm_train",
         {{"N", 8}, {"C", 64}, {"P", 196}},
         batchnorm_train,
         batchnorm_train_loop,
         batchnorm_train_hand},
        {"gelu_backward_bias",
         {{"M", 200}, {"N", 388}},
         gelu_backward_bias,
         gelu_backward_bias_loop,
         {},
         {{"X", {-3, 3}}}},
    };
}

} // namespace kumiko::bench
