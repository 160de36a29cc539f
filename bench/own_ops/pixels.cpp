// Colours, and conversions between bytes, f16 and f32.
#include "bench/own_ops/own_ops.h"

#include "dsl/math.h"
#include "dsl/reduction.h"
#include "dsl/scatter.h"

namespace kumiko::bench {

namespace {

Op gray(const Extents &e) {
    Axis p("p", e["P"]), c("c", 3);
    Tensor X = input("X", f32, {p, c});
    return Op("gray", {X}, {compute("Y", {p}, X(p, 0) * 0.299f + X(p, 1) * 0.587f + X(p, 2) * 0.114f)});
}
const char *gray_loop = R"(
    for (int p = 0; p < P; p++) Y[p] = X[p][0] * 0.299f + X[p][1] * 0.587f + X[p][2] * 0.114f;
)";

Op rgb_yuv(const Extents &e) {
    Axis p("p", e["P"]), c("c", 3);
    Tensor X = input("X", f32, {p, c});
    Tensor y = compute("y", {p}, X(p, 0) * 0.299f + X(p, 1) * 0.587f + X(p, 2) * 0.114f);
    return Op("rgb_yuv", {X},
              {y, compute("u", {p}, (X(p, 2) - y(p)) * 0.492f), compute("v", {p}, (X(p, 0) - y(p)) * 0.877f)});
}
const char *rgb_yuv_loop = R"(
    for (int p = 0; p < P; p++) {
        const float l = X[p][0] * 0.299f + X[p][1] * 0.587f + X[p][2] * 0.114f;
        y[p] = l, u[p] = (X[p][2] - l) * 0.492f, v[p] = (X[p][0] - l) * 0.877f;
    }
)";

// u8 NHWC to f32 NCHW, with a mean and a deviation per channel.
Op normalise_image(const Extents &e) {
    Axis n("n", e["N"]), c("c", 3), y("y", e["H"]), x("x", e["W"]);
    Tensor X = input("X", u8, {n, y, x, c}), mean = input("mean", f32, {c}), dev = input("dev", f32, {c});
    return Op("normalise_image", {X, mean, dev},
              {compute("Y", {n, c, y, x}, (cast(f32, X(n, y, x, c)) * (1.f / 255) - mean(c)) / dev(c))});
}
const char *normalise_image_loop = R"(
    for (int n = 0; n < N; n++)
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++)
                for (int c = 0; c < 3; c++) Y[n][c][y][x] = (X[n][y][x][c] * (1.f / 255) - mean[c]) / dev[c];
)";

// (F·α + B·(255 − α)) / 255, rounded.
Op alpha_blend(const Extents &e) {
    Axis p("p", e["P"]), c("c", 3);
    Tensor F = input("F", u8, {c, p}), B = input("B", u8, {c, p}), A = input("A", u8, {p});
    const Element a = cast(u16, A(p)),
                  t = cast(u16, F(c, p)) * a + cast(u16, B(c, p)) * (cast(u16, 255) - a) + cast(u16, 128);
    return Op("alpha_blend", {F, B, A}, {compute("Y", {c, p}, cast(u8, (t + t / 256) / 256))});
}
const char *alpha_blend_loop = R"(
    for (int c = 0; c < 3; c++)
        for (int p = 0; p < P; p++) {
            const uint16_t t = F[c][p] * A[p] + B[c][p] * (255 - A[p]) + 128;
            Y[c][p] = uint16_t(t + t / 256) / 256;
        }
)";

Op histogram(const Extents &e) {
    Axis n("n", e["N"]), v("v", 256);
    Tensor X = input("X", u8, {n});
    return Op("histogram", {X}, {compute("Y", {v}, scatter(sum, Expr(1), v, cast(i32, X(n)), n))});
}
const char *histogram_loop = R"(
    for (int v = 0; v < 256; v++) Y[v] = 0;
    for (int n = 0; n < N; n++) Y[X[n]]++;
)";

// Adds two u8 tensors that have scales and zero points, and requantises twice.
Op requantise_add(const Extents &e) {
    Axis n("n", e["N"]);
    Tensor A = input("A", u8, {n}), B = input("B", u8, {n});
    const Element a = cast(f32, cast(i32, A(n)) - 120) * 0.031f, b = cast(f32, cast(i32, B(n)) - 131) * 0.027f;
    Tensor S = compute("S", {n}, cast(u8, clamp(round(max(a + b, 0.f) * 25.f), 0.f, 255.f)));
    return Op("requantise_add", {A, B},
              {compute("Y", {n}, cast(u8, clamp(round(cast(f32, S(n)) * 0.8f) + 3.f, 0.f, 255.f)))});
}
const char *requantise_add_loop = R"(
    for (int n = 0; n < N; n++) {
        const float a = (A[n] - 120) * 0.031f, b = (B[n] - 131) * 0.027f;
        const uint8_t s = min(max(nearbyint(max(a + b, 0.f) * 25.f), 0.f), 255.f);
        Y[n] = min(max(nearbyint(s * 0.8f) + 3.f, 0.f), 255.f);
    }
)";

// A product of bytes whose two operands have zero points; each column has a scale.
Op product_zero_points(const Extents &e) {
    Axis i("i", e["M"]), j("j", e["N"]), k("k", e["K"]);
    Tensor A = input("A", u8, {i, k}), B = input("B", i8, {k, j}), scale = input("scale", f32, {j});
    Tensor C = compute("C", {i, j}, sum((cast(i32, A(i, k)) - 118) * (cast(i32, B(k, j)) + 7), k));
    return Op("product_zero_points", {A, B, scale},
              {compute("Y", {i, j}, cast(u8, clamp(round(cast(f32, C(i, j)) * scale(j)) + 128.f, 0.f, 255.f)))});
}
const char *product_zero_points_loop = R"(
    for (int i = 0; i < M; i++) {
        int C[N] = {};
        for (int k = 0; k < K; k++)
            for (int j = 0; j < N; j++) C[j] += (A[i][k] - 118) * (B[k][j] + 7);
        for (int j = 0; j < N; j++) Y[i][j] = min(max(nearbyint(C[j] * scale[j]) + 128.f, 0.f), 255.f);
    }
)";
void product_zero_points_hand(Schedule &s) {
    const int64_t v = lanes(s);
    tile_in_registers(s.stage("C"), "i", 4, "j", 3 * v, v, {"j.o", "i.o"}, {"k"});
    s.stage("C").finish_in("Y");
}

// Weights of 4 bits, two per byte, with one scale per 32 weights, times a vector.
Op dequantise_gemv(const Extents &e) {
    Axis i("i", e["M"]), b("b", e["K"] / 32), k("k", 16);
    Tensor W = input("W", u8, {i, b, k}), scale = input("scale", f32, {i, b}), X = input("X", f32, {b, Axis("l", 32)});
    const Element w = cast(i32, W(i, b, k));
    const Element low = cast(f32, w % 16 - 8), high = cast(f32, w / 16 - 8);
    return Op("dequantise_gemv", {W, scale, X},
              {compute("Y", {i}, sum((low * X(b, k) + high * X(b, k + 16)) * scale(i, b), {b, k}))});
}
const char *dequantise_gemv_loop = R"(
    for (int i = 0; i < M; i++) {
        float sum = 0;
        for (int b = 0; b < K / 32; b++) {
            float part = 0;
            for (int k = 0; k < 16; k++)
                part += (W[i][b][k] % 16 - 8) * X[b][k] + (W[i][b][k] / 16 - 8) * X[b][k + 16];
            sum += part * scale[i][b];
        }
        Y[i] = sum;
    }
)";
// All lanes have the same scale; they are summed once per row.
void dequantise_gemv_hand(Schedule &s) {
    const int64_t v = lanes(s);
    s.stage("Y").rfactor("k");
    auto parts = s.stage("Y.rf");
    parts.compute_at("Y", "i").reorder({"i", "b", "k"}).vectorize("k", v);
    if (v < 16) parts.unroll("k.o");
    parts.unroll("b", 4).accumulate_in("registers", "i");
    s.stage("Y").vectorize("k");
}

Op f16_chain(const Extents &e) {
    Axis i("i", e["M"]), j("j", e["N"]);
    Tensor X = input("X", f16, {i, j}), a = input("a", f16, {j}), b = input("b", f16, {j}), R = input("R", f16, {i, j});
    Tensor z = compute("z", {i, j}, cast(f32, X(i, j)) * cast(f32, a(j)) + cast(f32, b(j)));
    return Op("f16_chain", {X, a, b, R},
              {compute("Y", {i, j}, cast(f16, z(i, j) / (1.f + exp(-z(i, j))) + cast(f32, R(i, j))))});
}
const char *f16_chain_loop = R"(
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            const float z = float(X[i][j]) * float(a[j]) + float(b[j]);
            Y[i][j] = _Float16(z / (1 + exp(-z)) + float(R[i][j]));
        }
)";

// Interleaved bytes of red, green and blue to interleaved hue, saturation and value.
Op rgb_hsv(const Extents &e) {
    Axis p("p", e["P"]), c("c", 3);
    Tensor X = input("X", u8, {p, c});
    const auto at = [&](int k) { return cast(f32, X(p, k)) * (1.f / 255); };
    const Element r = at(0), g = at(1), b = at(2);
    Tensor v = compute("v", {p}, max(r, g, b));
    Tensor d = compute("d", {p}, v(p) - min(r, g, b));
    Tensor s = compute("s", {p}, d(p) / max(v(p), 1e-6f));
    const Element q = 1.f / max(d(p), 1e-6f);
    Tensor h0 = compute("h0", {p}, select(v(p) == r, (g - b) * q, v(p) == g, 2.f + (b - r) * q, 4.f + (r - g) * q));
    Tensor h = compute("h", {p}, select(h0(p) < 0.f, h0(p) + 6.f, h0(p)) * (1.f / 6));
    return Op("rgb_hsv", {X}, {compute("Y", {p, c}, select(c == 0, h(p), c == 1, s(p), v(p)))});
}
const char *rgb_hsv_loop = R"(
    for (int p = 0; p < P; p++) {
        const float r = X[p][0] * (1.f / 255), g = X[p][1] * (1.f / 255), b = X[p][2] * (1.f / 255);
        const float v = max(max(r, g), b), d = v - min(min(r, g), b), q = 1 / max(d, 1e-6f);
        float h = v == r ? (g - b) * q : v == g ? 2 + (b - r) * q : 4 + (r - g) * q;
        h = h < 0 ? h + 6 : h;
        Y[p][0] = h * (1.f / 6), Y[p][1] = d / max(v, 1e-6f), Y[p][2] = v;
    }
)";
void rgb_hsv_hand(Schedule &s) {
    for (const char *name : {"v", "d", "h0", "h", "s"}) s.stage(name).inline_into();
    s.stage("Y").split("p", lanes(s));
    s.stage("Y").reorder({"p.o", "c", "p.i"}).vectorize("p.i").unroll("c");
}

// Four planes per channel to one image of twice the size, with interleaved bytes.
Op pixel_shuffle_u8(const Extents &e) {
    Axis q("q", 12), y("y", e["H"]), x("x", e["W"]), v("v", e["H"] * 2), u("u", e["W"] * 2), c("c", 3);
    Tensor X = input("X", f32, {q, y, x});
    return Op("pixel_shuffle_u8", {X},
              {compute("Y", {v, u, c},
                       cast(u8, clamp(round(X(c * 4 + v % 2 * 2 + u % 2, v / 2, u / 2) * 255.f), 0.f, 255.f)))});
}
const char *pixel_shuffle_u8_loop = R"(
    for (int y = 0; y < H; y++)
        for (int a = 0; a < 2; a++)
            for (int x = 0; x < W; x++)
                for (int b = 0; b < 2; b++)
                    for (int c = 0; c < 3; c++)
                        Y[2 * y + a][2 * x + b][c] =
                            uint8_t(min(max(nearbyint(X[c * 4 + a * 2 + b][y][x] * 255), 0.f), 255.f));
)";
// The six bytes that the parities of a row and a column and the channel name are unrolled.
void pixel_shuffle_u8_hand(Schedule &s) {
    s.stage("Y").split("v", 2);
    s.stage("Y").split("u", 2);
    s.stage("Y").split("u.o", lanes(s));
    s.stage("Y").reorder({"v.o", "v.i", "u.o.o", "u.i", "c", "u.o.i"});
    s.stage("Y").unroll("v.i").unroll("c").unroll("u.i").vectorize("u.o.i");
}

} // namespace

std::vector<OwnOp> pixel_ops() {
    const Tolerance one_step = {0, 1}; // loops may round a tie the other way
    return {
        {"gray", {{"P", 65536}}, gray, gray_loop},
        {"rgb_yuv", {{"P", 50000}}, rgb_yuv, rgb_yuv_loop},
        {"normalise_image",
         {{"N", 4}, {"H", 113}, {"W", 97}},
         normalise_image,
         normalise_image_loop,
         {},
         {{"dev", {0.2, 0.3}}}},
        {"alpha_blend", {{"P", 100003}}, alpha_blend, alpha_blend_loop},
        {"histogram", {{"N", 100000}}, histogram, histogram_loop},
        {"requantise_add", {{"N", 200000}}, requantise_add, requantise_add_loop, {}, {}, one_step},
        {"product_zero_points",
         {{"M", 100}, {"N", 120}, {"K", 200}},
         product_zero_points,
         product_zero_points_loop,
         product_zero_points_hand,
         {{"scale", {0.0005, 0.001}}},
         one_step},
        {"dequantise_gemv", {{"M", 512}, {"K", 1024}}, dequantise_gemv, dequantise_gemv_loop, dequantise_gemv_hand},
        {"f16_chain", {{"M", 100}, {"N", 500}}, f16_chain, f16_chain_loop, {}, {}, {2e-3, 1e-4}},
        {"rgb_hsv", {{"P", 30000}}, rgb_hsv, rgb_hsv_loop, rgb_hsv_hand},
        {"pixel_shuffle_u8",
         {{"H", 90}, {"W", 121}},
         pixel_shuffle_u8,
         pixel_shuffle_u8_loop,
         pixel_shuffle_u8_hand,
         {},
         {0, 1}},
    };
}

} // namespace kumiko::bench
