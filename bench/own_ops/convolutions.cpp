// Convolutions with activations, pooling and further outputs.
#include "bench/own_ops/own_ops.h"

#include "dsl/math.h"
#include "dsl/reduction.h"

namespace kumiko::bench {

namespace {

Op conv1d_groups(const Extents &e) {
    Axis n("n", e["N"]), g("g", e["G"]), o("o", e["O"]), c("c", e["C"]), l("l", e["L"]), t("t", e["L"] - 6), k("k", 4);
    Tensor X = input("X", f32, {n, g, c, l}), W = input("W", f32, {g, o, c, k});
    Tensor y = compute("y", {n, g, o, t}, sum(X(n, g, c, t + 2 * k) * W(g, o, c, k), {c, k}));
    return Op(
        "conv1d_groups", {X, W},
        {compute("Y", {n, g, o, t}, max(y(n, g, o, t), 0.f)), compute("Z", {n, g, o, t}, min(y(n, g, o, t), 0.f))});
}
const char *conv1d_groups_loop = R"(
    for (int n = 0; n < N; n++)
        for (int g = 0; g < G; g++)
            for (int o = 0; o < O; o++) {
                float y[L - 6] = {};
                for (int c = 0; c < C; c++)
                    for (int k = 0; k < 4; k++)
                        for (int t = 0; t < L - 6; t++) y[t] += X[n][g][c][t + 2 * k] * W[g][o][c][k];
                for (int t = 0; t < L - 6; t++) Y[n][g][o][t] = max(y[t], 0.f), Z[n][g][o][t] = min(y[t], 0.f);
            }
)";
void conv1d_groups_hand(Schedule &s) {
    const int64_t v = lanes(s);
    tile_in_registers(s.stage("y"), "o", 4, "t", 3 * v, v, {"n", "g", "o.o", "t.o"}, {"c", "k"});
    s.stage("y").unroll("k");
    for (const char *name : {"Y", "Z"}) s.stage(name).vectorize("t", v);
}

Op conv_hard_swish_pool(const Extents &e) {
    Axis o("o", e["O"]), c("c", e["C"]), y("y", e["H"]), x("x", e["W"]), j("j", 3), i("i", 3), v("v", e["H"] / 2),
        u("u", e["W"] / 2), q("q", 2), p("p", 2);
    Tensor X = input("X", f32, {c, y, x}), F = input("F", f32, {o, c, j, i}), b = input("b", f32, {o}),
           P = zero_padded(X);
    Tensor s = compute("s", {o, y, x}, sum(P(c, y + j - 1, x + i - 1) * F(o, c, j, i), {c, j, i}));
    Tensor z = compute("z", {o, y, x}, hard_swish(s(o, y, x) + b(o)));
    return Op("conv_hard_swish_pool", {X, F, b},
              {compute("Y", {o, v, u}, maximum(z(o, 2 * v + q, 2 * u + p), {q, p}))});
}
const char *conv_hard_swish_pool_loop = R"(
    static float P[C][H + 2][W + 2];
    for (int c = 0; c < C; c++)
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++) P[c][y + 1][x + 1] = X[c][y][x];
    for (int o = 0; o < O; o++)
        for (int v = 0; v < H / 2; v++) {
            float s[2][W];
            for (int q = 0; q < 2; q++) {
                for (int x = 0; x < W; x++) s[q][x] = b[o];
                for (int c = 0; c < C; c++)
                    for (int j = 0; j < 3; j++)
                        for (int i = 0; i < 3; i++)
                            for (int x = 0; x < W; x++) s[q][x] += P[c][2 * v + q + j][x + i] * F[o][c][j][i];
                for (int x = 0; x < W; x++) s[q][x] *= min(max(s[q][x] + 3, 0.f), 6.f) * (1.f / 6);
            }
            for (int u = 0; u < W / 2; u++)
                Y[o][v][u] = max(max(s[0][2 * u], s[0][2 * u + 1]), max(s[1][2 * u], s[1][2 * u + 1]));
        }
)";
void conv_hard_swish_pool_hand(Schedule &s) {
    const int64_t v = lanes(s);
    auto pool = s.stage("Y");
    pool.split("u", v);
    pool.reorder({"o", "v", "u.o", "q", "p", "u.i"}).vectorize("u.i").unroll("p").unroll("q");
    pool.accumulate_in("registers", "u.o");
    s.stage("z").compute_root();
    s.stage("s").finish_in("z");
    tile_in_registers(s.stage("s"), "o", 6, "x", 2 * v, v, {"o.o", "y", "x.o"}, {"c", "j", "i"});
    s.stage("s").unroll("i");
    s.stage("X.padded").compute_root().vectorize("x", v);
}

// Dilated; an output reads its own and earlier steps.
Op causal_conv1d(const Extents &e) {
    Axis o("o", e["O"]), c("c", e["C"]), t("t", e["T"]), k("k", 3);
    Tensor X = input("X", f32, {c, t}), W = input("W", f32, {o, c, k}), b = input("b", f32, {o}), P = zero_padded(X);
    Tensor s = compute("s", {o, t}, sum(P(c, t + 4 * k - 8) * W(o, c, k), {c, k}));
    return Op("causal_conv1d", {X, W, b}, {compute("Y", {o, t}, tanh(s(o, t) + b(o)))});
}
const char *causal_conv1d_loop = R"(
    for (int o = 0; o < O; o++) {
        float s[T];
        for (int t = 0; t < T; t++) s[t] = b[o];
        for (int c = 0; c < C; c++)
            for (int k = 0; k < 3; k++)
                for (int t = 8 - 4 * k; t < T; t++) s[t] += X[c][t + 4 * k - 8] * W[o][c][k];
        for (int t = 0; t < T; t++) Y[o][t] = tanh(s[t]);
    }
)";
void causal_conv1d_hand(Schedule &s) {
    const int64_t v = lanes(s);
    s.stage("X.padded").compute_root().vectorize("t", v);
    tile_in_registers(s.stage("s"), "o", 4, "t", 3 * v, v, {"o.o", "t.o"}, {"c", "k"});
    s.stage("s").unroll("k");
    s.stage("Y").vectorize("t", 2 * v);
}

Op separable_block(const Extents &e) {
    Axis c("c", e["C"]), y("y", e["H"]), x("x", e["W"]), j("j", 3), i("i", 3), o("o", e["O"]);
    Tensor X = input("X", f32, {c, y, x}), D = input("D", f32, {c, j, i}), V = input("V", f32, {o, c}),
           b = input("b", f32, {o}), P = zero_padded(X);
    Tensor d = compute("d", {c, y, x}, sum(P(c, y + j - 1, x + i - 1) * D(c, j, i), {j, i}));
    Tensor r = compute("r", {c, y, x}, max(d(c, y, x), 0.f));
    return Op("separable_block", {X, D, V, b},
              {compute("Y", {o, y, x}, max(sum(r(c, y, x) * V(o, c), c) + b(o), 0.f))});
}
const char *separable_block_loop = R"(
    static float P[C][H + 2][W + 2], r[C][H * W];
    for (int c = 0; c < C; c++)
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++) P[c][y + 1][x + 1] = X[c][y][x];
    for (int c = 0; c < C; c++)
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++) {
                float s = 0;
                for (int j = 0; j < 3; j++)
                    for (int i = 0; i < 3; i++) s += P[c][y + j][x + i] * D[c][j][i];
                r[c][y * W + x] = max(s, 0.f);
            }
    for (int o = 0; o < O; o++) {
        float s[H * W];
        for (int p = 0; p < H * W; p++) s[p] = b[o];
        for (int c = 0; c < C; c++)
            for (int p = 0; p < H * W; p++) s[p] += r[c][p] * V[o][c];
        for (int p = 0; p < H * W; p++) Y[o][0][p] = max(s[p], 0.f);
    }
)";
void separable_block_hand(Schedule &s) {
    const int64_t v = lanes(s);
    s.stage("X.padded").compute_root().vectorize("x", v);
    s.stage("r").compute_root();
    auto depthwise = s.stage("d");
    depthwise.split("x", v);
    depthwise.reorder({"c", "y", "x.o", "j", "i", "x.i"}).vectorize("x.i").unroll("i").unroll("j");
    depthwise.accumulate_in("registers", "x.o").finish_in("r");
    s.stage("Y.sum").fuse("y", "x", "p");
    tile_in_registers(s.stage("Y.sum"), "o", 6, "p", 2 * v, v, {"p.o", "o.o"}, {"c"});
    s.stage("Y.sum").finish_in("Y");
}

// Averages of 3×3 elements with stride 2. Elements outside the image are not counted.
Op avgpool_exclude(const Extents &e) {
    Axis n("n", e["N"]), y("y", e["H"]), x("x", e["W"]), c("c", e["C"]), v("v", (e["H"] + 1) / 2),
        u("u", (e["W"] + 1) / 2), j("j", 3), i("i", 3);
    Tensor X = input("X", f32, {n, y, x, c}), P = zero_padded(X);
    const Expr high = min(v * 2 + 2, e["H"]) - max(v * 2 - 1, 0), wide = min(u * 2 + 2, e["W"]) - max(u * 2 - 1, 0);
    return Op(
        "avgpool_exclude", {X},
        {compute("Y", {n, v, u, c}, sum(P(n, v * 2 + j - 1, u * 2 + i - 1, c), {j, i}) / cast(f32, high * wide))});
}
const char *avgpool_exclude_loop = R"(
    for (int n = 0; n < N; n++)
        for (int v = 0; v < (H + 1) / 2; v++)
            for (int u = 0; u < (W + 1) / 2; u++) {
                float s[C] = {};
                const int y0 = max(2 * v - 1, 0), y1 = min(2 * v + 2, H), x0 = max(2 * u - 1, 0), x1 = min(2 * u + 2, W);
                for (int y = y0; y < y1; y++)
                    for (int x = x0; x < x1; x++)
                        for (int c = 0; c < C; c++) s[c] += X[n][y][x][c];
                const float r = 1.f / ((y1 - y0) * (x1 - x0));
                for (int c = 0; c < C; c++) Y[n][v][u][c] = s[c] * r;
            }
)";

// A transposed convolution of 4×4 with stride 2 and padding 1, then a bias and ReLU.
Op deconv(const Extents &e) {
    Axis c("c", e["C"]), o("o", e["O"]), y("y", e["H"]), x("x", e["W"]), v("v", e["H"] * 2), u("u", e["W"] * 2),
        l("l", 4), k("k", 4), j("j", 2), i("i", 2);
    Tensor X = input("X", f32, {c, y, x}), F = input("F", f32, {c, o, l, k}), b = input("b", f32, {o}),
           P = zero_padded(X);
    Tensor s = compute(
        "s", {o, v, u},
        sum(P(c, (v + 1) / 2 - j, (u + 1) / 2 - i) * F(c, o, (v + 1) % 2 + 2 * j, (u + 1) % 2 + 2 * i), {c, j, i}));
    return Op("deconv", {X, F, b}, {compute("Y", {o, v, u}, max(s(o, v, u) + b(o), 0.f))});
}
const char *deconv_loop = R"(
    static float P[C][H + 2][W + 2];
    for (int c = 0; c < C; c++)
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++) P[c][y + 1][x + 1] = X[c][y][x];
    for (int o = 0; o < O; o++)
        for (int y = 0; y < H; y++)
            for (int a = 0; a < 2; a++) {
                float s[2][W];
                for (int z = 0; z < 2; z++)
                    for (int x = 0; x < W; x++) s[z][x] = b[o];
                for (int c = 0; c < C; c++)
                    // Output row 2y + a reads row y + a − j and tap 1 − a + 2j.
                    for (int j = 0; j < 2; j++)
                        for (int i = 0; i < 2; i++) {
                            const float *from = P[c][y + a - j + 1], *f = F[c][o][1 - a + 2 * j];
                            for (int x = 0; x < W; x++) {
                                s[0][x] += from[x - i + 1] * f[1 + 2 * i];
                                s[1][x] += from[x - i + 2] * f[2 * i];
                            }
                        }
                for (int x = 0; x < W; x++)
                    Y[o][2 * y + a][2 * x] = max(s[0][x], 0.f), Y[o][2 * y + a][2 * x + 1] = max(s[1][x], 0.f);
            }
)";

// A grouped convolution of 3×3 with dilation 2, channels last, then a bias and leaky ReLU.
Op conv_dilated_groups(const Extents &e) {
    Axis y("y", e["H"]), x("x", e["W"]), g("g", e["G"]), c("c", e["C"]), o("o", e["O"]), j("j", 3), i("i", 3);
    Tensor X = input("X", f32, {y, x, g, c}), F = input("F", f32, {g, j, i, c, o}), b = input("b", f32, {g, o}),
           P = zero_padded(X);
    Tensor s =
        compute("s", {y, x, g, o}, sum(P(y + 2 * j - 2, x + 2 * i - 2, g, c) * F(g, j, i, c, o), {j, i, c}) + b(g, o));
    return Op("conv_dilated_groups", {X, F, b},
              {compute("Y", {y, x, g, o}, select(s(y, x, g, o) > 0.f, s(y, x, g, o), 0.1f * s(y, x, g, o)))});
}
const char *conv_dilated_groups_loop = R"(
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            for (int g = 0; g < G; g++) {
                float s[O];
                for (int o = 0; o < O; o++) s[o] = b[g][o];
                for (int j = 0; j < 3; j++) {
                    const int v = y + 2 * j - 2;
                    if (v < 0 || v >= H) continue;
                    for (int i = 0; i < 3; i++) {
                        const int u = x + 2 * i - 2;
                        if (u < 0 || u >= W) continue;
                        for (int c = 0; c < C; c++)
                            for (int o = 0; o < O; o++) s[o] += X[v][u][g][c] * F[g][j][i][c][o];
                    }
                }
                for (int o = 0; o < O; o++) Y[y][x][g][o] = s[o] > 0 ? s[o] : 0.1f * s[o];
            }
)";

} // namespace

std::vector<OwnOp> convolution_ops() {
    return {
        {"conv1d_groups",
         {{"N", 2}, {"G", 4}, {"O", 24}, {"C", 12}, {"L", 200}},
         conv1d_groups,
         conv1d_groups_loop,
         conv1d_groups_hand},
        {"conv_hard_swish_pool",
         {{"O", 32}, {"C", 16}, {"H", 30}, {"W", 30}},
         conv_hard_swish_pool,
         conv_hard_swish_pool_loop,
         conv_hard_swish_pool_hand},
        {"causal_conv1d", {{"O", 32}, {"C", 32}, {"T", 500}}, causal_conv1d, causal_conv1d_loop, causal_conv1d_hand},
        {"separable_block",
         {{"C", 48}, {"H", 28}, {"W", 28}, {"O", 64}},
         separable_block,
         separable_block_loop,
         separable_block_hand},
        {"avgpool_exclude", {{"N", 3}, {"H", 57}, {"W", 57}, {"C", 40}}, avgpool_exclude, avgpool_exclude_loop},
        {"deconv", {{"C", 16}, {"O", 12}, {"H", 20}, {"W", 20}}, deconv, deconv_loop},
        {"conv_dilated_groups",
         {{"H", 24}, {"W", 25}, {"G", 4}, {"C", 8}, {"O", 16}},
         conv_dilated_groups,
         conv_dilated_groups_loop},
    };
}

} // namespace kumiko::bench
