// Normalisations with residuals, activations and further outputs.
#include "bench/own_ops/own_ops.h"

#include "dsl/math.h"
#include "dsl/reduction.h"

namespace kumiko::bench {

namespace {

Op rms_residual(const Extents &e) {
    Axis i("i", e["M"]), j("j", e["N"]);
    Tensor X = input("X", f32, {i, j}), R = input("R", f32, {i, j}), g = input("g", f32, {j});
    Tensor S = compute("S", {i, j}, X(i, j) + R(i, j));
    Tensor square = compute("square", {i}, sum(S(i, j) * S(i, j), j));
    return Op("rms_residual", {X, R, g},
              {compute("Y", {i, j}, S(i, j) * rsqrt(square(i) / cast(f32, e["N"]) + 1e-5f) * g(j)), S});
}
const char *rms_residual_loop = R"(
    for (int i = 0; i < M; i++) {
        float squares = 0;
        for (int j = 0; j < N; j++) S[i][j] = X[i][j] + R[i][j], squares += S[i][j] * S[i][j];
        const float scale = 1 / sqrt(squares / N + 1e-5f);
        for (int j = 0; j < N; j++) Y[i][j] = S[i][j] * scale * g[j];
    }
)";

Op group_norm_silu(const Extents &e) {
    Axis n("n", e["N"]), g("g", e["G"]), c("c", e["C"]), y("y", e["H"]), x("x", e["W"]);
    const Expr count = cast(f32, e["C"] * e["H"] * e["W"]);
    Tensor X = input("X", f32, {n, g, c, y, x}), scale = input("scale", f32, {g, c}),
           shift = input("shift", f32, {g, c});
    Tensor mean = compute("mean", {n, g}, sum(X(n, g, c, y, x), {c, y, x}) / count);
    Tensor var = compute("var", {n, g}, sum(square(X(n, g, c, y, x) - mean(n, g)), {c, y, x}) / count);
    const Element z = (X(n, g, c, y, x) - mean(n, g)) * rsqrt(var(n, g) + 1e-5f) * scale(g, c) + shift(g, c);
    return Op("group_norm_silu", {X, scale, shift}, {compute("Y", {n, g, c, y, x}, z / (1.f + exp(-z)))});
}
const char *group_norm_silu_loop = R"(
    for (int n = 0; n < N; n++)
        for (int g = 0; g < G; g++) {
            const float *x = &X[n][g][0][0][0];
            float mean = 0, var = 0;
            for (int i = 0; i < C * H * W; i++) mean += x[i];
            mean /= C * H * W;
            for (int i = 0; i < C * H * W; i++) var += (x[i] - mean) * (x[i] - mean);
            const float r = 1 / sqrt(var / (C * H * W) + 1e-5f);
            for (int c = 0; c < C; c++) {
                const float a = r * scale[g][c], b = shift[g][c] - mean * a;
                const float *from = &X[n][g][c][0][0];
                float *to = &Y[n][g][c][0][0];
                for (int i = 0; i < H * W; i++) {
                    const float z = from[i] * a + b;
                    to[i] = z / (1 + exp(-z));
                }
            }
        }
)";
void group_norm_silu_hand(Schedule &s) {
    const int64_t v = lanes(s);
    for (const char *name : {"var", "var.sum", "mean", "mean.sum"}) s.stage(name).compute_at("Y", "g");
    s.stage("mean.sum").fuse("y", "x", "p").vectorize("p", 4 * v);
    s.stage("var.sum").fuse("y", "x", "p").vectorize("p", 4 * v);
    s.stage("Y").fuse("y", "x", "p").split("p", 4 * v);
    s.stage("Y").vectorize("p.i", v).unroll("p.i.o");
}

Op log_softmax_middle(const Extents &e) {
    Axis i("i", e["M"]), k("k", e["K"]), j("j", e["N"]);
    Tensor X = input("X", f32, {i, k, j});
    Tensor most = compute("most", {i, j}, maximum(X(i, k, j), k));
    Tensor total = compute("total", {i, j}, sum(exp(X(i, k, j) - most(i, j)), k));
    Tensor base = compute("base", {i, j}, most(i, j) + log(total(i, j)));
    return Op("log_softmax_middle", {X}, {compute("Y", {i, k, j}, X(i, k, j) - base(i, j))});
}
const char *log_softmax_middle_loop = R"(
    for (int i = 0; i < M; i++) {
        float most[N], total[N];
        for (int j = 0; j < N; j++) most[j] = X[i][0][j], total[j] = 0;
        for (int k = 1; k < K; k++)
            for (int j = 0; j < N; j++) most[j] = max(most[j], X[i][k][j]);
        for (int k = 0; k < K; k++)
            for (int j = 0; j < N; j++) total[j] += exp(X[i][k][j] - most[j]);
        for (int j = 0; j < N; j++) most[j] += log(total[j]);
        for (int k = 0; k < K; k++)
            for (int j = 0; j < N; j++) Y[i][k][j] = X[i][k][j] - most[j];
    }
)";
void log_softmax_middle_hand(Schedule &s) {
    const int64_t v = lanes(s);
    s.stage("base").compute_at("Y", "i").vectorize("j", v);
    for (const char *name : {"total", "most"}) {
        auto reduction = s.stage(name);
        reduction.compute_at("Y", "i").split("j", 2 * v);
        reduction.reorder({"i", "j.o", "k", "j.i"}).vectorize("j.i", v).unroll("j.i.o").unroll("k", 5);
        reduction.accumulate_in("registers", "j.o");
    }
    s.stage("Y").vectorize("j", v);
}

Op layer_norm_moments(const Extents &e) {
    Axis i("i", e["M"]), j("j", e["N"]);
    Tensor X = input("X", f32, {i, j}), g = input("g", f32, {j}), b = input("b", f32, {j});
    Tensor mean = compute("mean", {i}, sum(X(i, j), j) / cast(f32, e["N"])),
           d = compute("d", {i, j}, X(i, j) - mean(i));
    Tensor r = compute("r", {i}, rsqrt(sum(d(i, j) * d(i, j), j) / cast(f32, e["N"]) + 1e-5f));
    return Op("layer_norm_moments", {X, g, b}, {compute("Y", {i, j}, d(i, j) * r(i) * g(j) + b(j)), mean, r});
}
const char *layer_norm_moments_loop = R"(
    for (int i = 0; i < M; i++) {
        float sum = 0, squares = 0;
        for (int j = 0; j < N; j++) sum += X[i][j];
        sum /= N;
        for (int j = 0; j < N; j++) squares += (X[i][j] - sum) * (X[i][j] - sum);
        const float s = 1 / sqrt(squares / N + 1e-5f);
        for (int j = 0; j < N; j++) Y[i][j] = (X[i][j] - sum) * s * g[j] + b[j];
        mean[i] = sum, r[i] = s;
    }
)";
void layer_norm_hand(Schedule &s, const char *spread) {
    const int64_t v = lanes(s);
    s.stage("d").inline_into();
    s.stage(std::string(spread) + ".sum").vectorize("j", 8 * v);
    s.stage("mean.sum").vectorize("j", 4 * v);
    for (const char *name : {spread, "mean"}) s.stage(name).vectorize("i", v);
    s.stage("Y").split("j", 4 * v);
    s.stage("Y").vectorize("j.i", v).unroll("j.i.o");
}
void layer_norm_moments_hand(Schedule &s) { layer_norm_hand(s, "r"); }

Op layernorm3(const Extents &e) {
    Axis i("i", e["M"]), j("j", e["N"]);
    Tensor X = input("X", f32, {i, j});
    Tensor mean = compute("mean", {i}, sum(X(i, j), j) / cast(f32, e["N"])),
           d = compute("d", {i, j}, X(i, j) - mean(i));
    Tensor var = compute("var", {i}, sum(d(i, j) * d(i, j), j) / cast(f32, e["N"]));
    return Op("layernorm3", {X}, {compute("Y", {i, j}, d(i, j) * rsqrt(var(i) + 1e-5f)), mean, var});
}
const char *layernorm3_loop = R"(
    for (int i = 0; i < M; i++) {
        float sum = 0, squares = 0;
        for (int j = 0; j < N; j++) sum += X[i][j];
        sum /= N;
        for (int j = 0; j < N; j++) squares += (X[i][j] - sum) * (X[i][j] - sum);
        squares /= N;
        const float s = 1 / sqrt(squares + 1e-5f);
        for (int j = 0; j < N; j++) Y[i][j] = (X[i][j] - sum) * s;
        mean[i] = sum, var[i] = squares;
    }
)";
void layernorm3_hand(Schedule &s) { layer_norm_hand(s, "var"); }

Op softmax_bias(const Extents &e) {
    Axis b("b", e["B"]), i("i", e["M"]), j("j", e["N"]);
    Tensor X = input("X", f32, {b, i, j}), bias = input("bias", f32, {i, j}), t = input("t", f32, {b});
    Tensor s = compute("s", {b, i, j}, (X(b, i, j) + bias(i, j)) / t(b));
    Tensor most = compute("most", {b, i}, maximum(s(b, i, j), j));
    Tensor p = compute("p", {b, i, j}, exp(s(b, i, j) - most(b, i)));
    Tensor total = compute("total", {b, i}, sum(p(b, i, j), j));
    return Op("softmax_bias", {X, bias, t}, {compute("Y", {b, i, j}, p(b, i, j) / total(b, i))});
}
const char *softmax_bias_loop = R"(
    for (int b = 0; b < B; b++)
        for (int i = 0; i < M; i++) {
            float most = -INFINITY, total = 0;
            for (int j = 0; j < N; j++) Y[b][i][j] = (X[b][i][j] + bias[i][j]) / t[b], most = max(most, Y[b][i][j]);
            for (int j = 0; j < N; j++) Y[b][i][j] = exp(Y[b][i][j] - most), total += Y[b][i][j];
            for (int j = 0; j < N; j++) Y[b][i][j] /= total;
        }
)";

// Local response normalisation across 5 channels.
Op lrn(const Extents &e) {
    Axis n("n", e["N"]), c("c", e["C"]), p("p", e["P"]), k("k", 5);
    Tensor X = input("X", f32, {n, c, p});
    Tensor S = zero_padded(compute("S", {n, c, p}, X(n, c, p) * X(n, c, p)));
    Tensor total = compute("total", {n, c, p}, sum(S(n, c + k - 2, p), k));
    return Op("lrn", {X}, {compute("Y", {n, c, p}, X(n, c, p) * pow(1.f + 2e-2f * total(n, c, p), -0.75f))});
}
const char *lrn_loop = R"(
    for (int n = 0; n < N; n++)
        for (int c = 0; c < C; c++) {
            float s[P] = {};
            for (int k = max(c - 2, 0); k <= min(c + 2, C - 1); k++)
                for (int p = 0; p < P; p++) s[p] += X[n][k][p] * X[n][k][p];
            for (int p = 0; p < P; p++) Y[n][c][p] = X[n][c][p] * pow(1 + 2e-2f * s[p], -0.75f);
        }
)";

} // namespace

std::vector<OwnOp> normalisation_ops() {
    return {
        {"rms_residual", {{"M", 128}, {"N", 768}}, rms_residual, rms_residual_loop},
        {"group_norm_silu",
         {{"N", 2}, {"G", 8}, {"C", 4}, {"H", 29}, {"W", 31}},
         group_norm_silu,
         group_norm_silu_loop,
         group_norm_silu_hand},
        {"log_softmax_middle",
         {{"M", 17}, {"K", 65}, {"N", 65}},
         log_softmax_middle,
         log_softmax_middle_loop,
         log_softmax_middle_hand},
        {"layer_norm_moments",
         {{"M", 150}, {"N", 500}},
         layer_norm_moments,
         layer_norm_moments_loop,
         layer_norm_moments_hand},
        {"layernorm3", {{"M", 256}, {"N", 512}}, layernorm3, layernorm3_loop, layernorm3_hand},
        {"softmax_bias", {{"B", 8}, {"M", 50}, {"N", 197}}, softmax_bias, softmax_bias_loop, {}, {{"t", {0.5, 2}}}},
        {"lrn", {{"N", 3}, {"C", 64}, {"P", 200}}, lrn, lrn_loop},
    };
}

} // namespace kumiko::bench
