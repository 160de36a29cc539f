// Computer vision: filters by rank, sums of regions, motion, and features.
#include "bench/own_ops/own_ops.h"

#include "dsl/math.h"
#include "dsl/reduction.h"
#include "dsl/scan.h"
#include "dsl/scatter.h"

namespace kumiko::bench {

namespace {

// The median of 3×3 bytes. Beyond the border the filter reads the nearest pixel.
Op median3(const Extents &e) {
    Axis y("y", e["H"]), x("x", e["W"]);
    Tensor X = input("X", u8, {y, x}), P = clamped(X, {y});
    const auto mid = [](Element a, Element b, Element c) { return max(min(a, b), min(max(a, b), c)); };
    const Element a = P(y - 1, x), b = X(y, x), c = P(y + 1, x);
    Tensor lo = clamped(compute("lo", {y, x}, min(a, b, c))), md = clamped(compute("md", {y, x}, mid(a, b, c))),
           hi = clamped(compute("hi", {y, x}, max(a, b, c)));
    const Element l = max(lo(y, x - 1), lo(y, x), lo(y, x + 1)), m = mid(md(y, x - 1), md(y, x), md(y, x + 1)),
                  h = min(hi(y, x - 1), hi(y, x), hi(y, x + 1));
    return Op("median3", {X}, {compute("Y", {y, x}, mid(l, m, h))});
}
const char *median3_loop = R"(
    const auto mid = [](uint8_t a, uint8_t b, uint8_t c) { return max(min(a, b), min(max(a, b), c)); };
    for (int y = 0; y < H; y++) {
        uint8_t lo[W + 2], md[W + 2], hi[W + 2];
        const uint8_t *u = X[max(y - 1, 0)], *v = X[y], *w = X[min(y + 1, H - 1)];
        for (int x = 0; x < W; x++) {
            lo[x + 1] = min(min(u[x], v[x]), w[x]);
            md[x + 1] = mid(u[x], v[x], w[x]);
            hi[x + 1] = max(max(u[x], v[x]), w[x]);
        }
        lo[0] = lo[1], md[0] = md[1], hi[0] = hi[1], lo[W + 1] = lo[W], md[W + 1] = md[W], hi[W + 1] = hi[W];
        for (int x = 0; x < W; x++) {
            const uint8_t l = max(max(lo[x], lo[x + 1]), lo[x + 2]), m = mid(md[x], md[x + 1], md[x + 2]);
            const uint8_t h = min(min(hi[x], hi[x + 1]), hi[x + 2]);
            Y[y][x] = mid(l, m, h);
        }
    }
)";

// The sum of all pixels above and to the left of each pixel.
Op integral_image(const Extents &e) {
    Axis y("y", e["H"]), x("x", e["W"]);
    Tensor X = input("X", u8, {y, x});
    const auto add = [](Expr a, Expr b) { return a + b; };
    Tensor rows = compute("rows", {y, x}, scan(add, 0, cast(i32, X(y, x)), x));
    return Op("integral_image", {X}, {compute("S", {y, x}, scan(add, 0, rows(y, x), y))});
}
const char *integral_image_loop = R"(
    for (int y = 0; y < H; y++) {
        int sum = 0;
        if (y == 0) for (int x = 0; x < W; x++) S[0][x] = sum += X[0][x];
        else for (int x = 0; x < W; x++) S[y][x] = S[y - 1][x] + (sum += X[y][x]);
    }
)";

// Optical flow by the method of Lucas and Kanade (1981): sums of products of gradients in windows
// of 5×5, then two equations for each pixel.
Op lucas_kanade(const Extents &e) {
    Axis y("y", e["H"]), x("x", e["W"]), j("j", 5), i("i", 5);
    Tensor A = input("A", f32, {y, x}), B = input("B", f32, {y, x}), P = clamped(A);
    Tensor gx = compute("gx", {y, x}, (P(y, x + 1) - P(y, x - 1)) * 0.5f),
           gy = compute("gy", {y, x}, (P(y + 1, x) - P(y - 1, x)) * 0.5f),
           gt = compute("gt", {y, x}, B(y, x) - A(y, x));
    const auto window = [&](const std::string &name, const Tensor &a, const Tensor &b) {
        Tensor f = zero_padded(compute(name, {y, x}, a(y, x) * b(y, x)));
        Tensor down = zero_padded(compute(name + "_down", {y, x}, sum(f(y + j - 2, x), j)));
        return compute(name + "_sum", {y, x}, sum(down(y, x + i - 2), i));
    };
    Tensor xx = window("xx", gx, gx), xy = window("xy", gx, gy), yy = window("yy", gy, gy), xt = window("xt", gx, gt),
           yt = window("yt", gy, gt);
    Tensor r = compute("r", {y, x}, -1.f / (xx(y, x) * yy(y, x) - xy(y, x) * xy(y, x) + 1e-3f));
    return Op("lucas_kanade", {A, B},
              {compute("U", {y, x}, (yy(y, x) * xt(y, x) - xy(y, x) * yt(y, x)) * r(y, x)),
               compute("V", {y, x}, (xx(y, x) * yt(y, x) - xy(y, x) * xt(y, x)) * r(y, x))});
}
const char *lucas_kanade_loop = R"(
    static float f[5][H + 4][W + 4]; // borders stay zero
    for (int y = 0; y < H; y++) {
        const float *u = A[max(y - 1, 0)], *v = A[y], *w = A[min(y + 1, H - 1)];
        float gx[W];
        for (int x = 1; x < W - 1; x++) gx[x] = (v[x + 1] - v[x - 1]) * 0.5f;
        gx[0] = (v[1] - v[0]) * 0.5f, gx[W - 1] = (v[W - 1] - v[W - 2]) * 0.5f;
        for (int x = 0; x < W; x++) {
            const float a = gx[x], b = (w[x] - u[x]) * 0.5f, t = B[y][x] - v[x];
            f[0][y + 2][x + 2] = a * a, f[1][y + 2][x + 2] = a * b, f[2][y + 2][x + 2] = b * b;
            f[3][y + 2][x + 2] = a * t, f[4][y + 2][x + 2] = b * t;
        }
    }
    for (int y = 0; y < H; y++) {
        float s[5][W + 4], t[5][W];
        for (int q = 0; q < 5; q++) {
            for (int x = 0; x < W + 4; x++)
                s[q][x] = f[q][y][x] + f[q][y + 1][x] + f[q][y + 2][x] + f[q][y + 3][x] + f[q][y + 4][x];
            for (int x = 0; x < W; x++) t[q][x] = s[q][x] + s[q][x + 1] + s[q][x + 2] + s[q][x + 3] + s[q][x + 4];
        }
        for (int x = 0; x < W; x++) {
            const float r = -1 / (t[0][x] * t[2][x] - t[1][x] * t[1][x] + 1e-3f);
            U[y][x] = (t[2][x] * t[3][x] - t[1][x] * t[4][x]) * r;
            V[y][x] = (t[0][x] * t[4][x] - t[1][x] * t[3][x]) * r;
        }
    }
)";

// The normalised correlation of a template of 8×8 with each window of the image.
Op ncc(const Extents &e) {
    Axis y("y", e["H"]), x("x", e["W"]), v("v", e["H"] - 7), u("u", e["W"] - 7), j("j", 8), i("i", 8);
    Tensor X = input("X", f32, {y, x}), T = input("T", f32, {j, i});
    Tensor st = compute("st", {}, sum(T(j, i), {j, i})), tt = compute("tt", {}, sum(T(j, i) * T(j, i), {j, i}));
    Tensor xt = compute("xt", {v, u}, sum(X(v + j, u + i) * T(j, i), {j, i})),
           sx = compute("sx", {v, u}, sum(X(v + j, u + i), {j, i})),
           xx = compute("xx", {v, u}, sum(X(v + j, u + i) * X(v + j, u + i), {j, i}));
    const Element above = xt(v, u) - sx(v, u) * st() * (1.f / 64),
                  below = (xx(v, u) - sx(v, u) * sx(v, u) * (1.f / 64)) * (tt() - st() * st() * (1.f / 64));
    return Op("ncc", {X, T}, {compute("Y", {v, u}, above * rsqrt(max(below, 1e-6f)))});
}
const char *ncc_loop = R"(
    float st = 0, tt = 0;
    for (int j = 0; j < 8; j++)
        for (int i = 0; i < 8; i++) st += T[j][i], tt += T[j][i] * T[j][i];
    const float vt = tt - st * st * (1.f / 64);
    for (int v = 0; v < H - 7; v++) {
        float xt[W - 7] = {}, sx[W - 7] = {}, xx[W - 7] = {};
        for (int j = 0; j < 8; j++)
            for (int i = 0; i < 8; i++)
                for (int u = 0; u < W - 7; u++) {
                    const float x = X[v + j][u + i];
                    xt[u] += x * T[j][i], sx[u] += x, xx[u] += x * x;
                }
        for (int u = 0; u < W - 7; u++)
            Y[v][u] = (xt[u] - sx[u] * st * (1.f / 64)) / sqrt(max((xx[u] - sx[u] * sx[u] * (1.f / 64)) * vt, 1e-6f));
    }
)";

// For each block of 8×8 the displacement by at most 4 pixels with the least sum of absolute
// differences from another frame.
Op sad_search(const Extents &e) {
    Axis y("y", e["H"]), x("x", e["W"]), v("v", e["H"] / 8), u("u", e["W"] / 8), q("q", 9), p("p", 9), j("j", 8),
        i("i", 8);
    Tensor X = input("X", u8, {y, x}), R = input("R", u8, {y, x}), P = clamped(R);
    Tensor sad =
        compute("sad", {v, u, q, p},
                sum(cast(i32, absd(X(v * 8 + j, u * 8 + i), P(v * 8 + j + q - 4, u * 8 + i + p - 4))), {j, i}));
    const Extreme best = argmin(sad(v, u, q, p), {q, p});
    return Op("sad_search", {X, R}, {compute("at", {v, u}, best), compute("least", {v, u}, best.value)});
}
const char *sad_search_loop = R"(
    static uint8_t P[H + 8][W + 8];
    for (int y = 0; y < H + 8; y++) {
        const uint8_t *from = R[min(max(y - 4, 0), H - 1)];
        for (int x = 0; x < 4; x++) P[y][x] = from[0], P[y][W + 4 + x] = from[W - 1];
        for (int x = 0; x < W; x++) P[y][x + 4] = from[x];
    }
    for (int v = 0; v < H / 8; v++)
        for (int u = 0; u < W / 8; u++) {
            int most = 1 << 30, place = 0;
            for (int q = 0; q < 9; q++)
                for (int p = 0; p < 9; p++) {
                    int sum = 0;
                    for (int j = 0; j < 8; j++)
                        for (int i = 0; i < 8; i++) sum += abs(X[v * 8 + j][u * 8 + i] - P[v * 8 + j + q][u * 8 + i + p]);
                    if (sum < most) most = sum, place = q * 9 + p;
                }
            at[v][u] = place, least[v][u] = most;
        }
)";
// The sums of all displacements of a block stay in registers.
void sad_search_hand(Schedule &s) {
    s.stage("R.clamped").compute_root().vectorize("x", 4 * lanes(s));
    s.stage("sad").split("p", 16);
    s.stage("sad").reorder({"v", "u", "p.o", "i", "j", "q", "p.i"}).unroll("q").unroll("j").vectorize("p.i");
    s.stage("sad").accumulate_in("registers", "p.o");
    s.stage("at").fuse("q", "p", "qp").vectorize("qp", lanes(s));
    s.stage("least").vectorize("u", lanes(s));
}

// Histograms of 9 directions of gradients, one for each cell of 8×8 pixels.
Op hog_cells(const Extents &e) {
    Axis y("y", e["H"]), x("x", e["W"]), v("v", e["H"] / 8), u("u", e["W"] / 8), b("b", 9), j("j", 8), i("i", 8);
    Tensor X = input("X", f32, {y, x}), P = clamped(X);
    Tensor gx = compute("gx", {y, x}, P(y, x + 1) - P(y, x - 1)), gy = compute("gy", {y, x}, P(y + 1, x) - P(y - 1, x));
    Tensor size = compute("size", {y, x}, sqrt(gx(y, x) * gx(y, x) + gy(y, x) * gy(y, x)));
    const Element angle = atan2(gy(y, x), gx(y, x));
    Tensor bin = compute("bin", {y, x}, clamp(cast(i32, floor((angle + 3.14159265f) * (9.f / 6.2831853f))), 0, 8));
    return Op(
        "hog_cells", {X},
        {compute("Y", {v, u, b}, scatter(sum, size(v * 8 + j, u * 8 + i), b, bin(v * 8 + j, u * 8 + i), {j, i}))});
}
const char *hog_cells_loop = R"(
    for (int v = 0; v < H / 8; v++)
        for (int u = 0; u < W / 8; u++)
            for (int b = 0; b < 9; b++) Y[v][u][b] = 0;
    for (int y = 0; y < H; y++) {
        const float *a = X[max(y - 1, 0)], *m = X[y], *c = X[min(y + 1, H - 1)];
        float size[W];
        int bin[W];
        for (int x = 0; x < W; x++) {
            const float gx = m[min(x + 1, W - 1)] - m[max(x - 1, 0)], gy = c[x] - a[x];
            size[x] = sqrt(gx * gx + gy * gy);
            bin[x] = min(max(int(floor((atan2(gy, gx) + 3.14159265f) * (9.f / 6.2831853f))), 0), 8);
        }
        for (int x = 0; x < W; x++) Y[y / 8][x / 8][bin[x]] += size[x];
    }
)";

// Spreads the grey values of an image evenly.
Op histogram_equalise(const Extents &e) {
    Axis n("n", e["N"]), v("v", 256);
    Tensor X = input("X", u8, {n});
    Tensor h = compute("h", {v}, scatter(sum, Expr(1), v, cast(i32, X(n)), n));
    Tensor c = compute("c", {v}, scan([](Expr a, Expr b) { return a + b; }, 0, h(v), v));
    return Op("histogram_equalise", {X}, {compute("Y", {n}, cast(u8, c(cast(i32, X(n))) * 255 / e["N"]))});
}
const char *histogram_equalise_loop = R"(
    int h[256] = {}, sum = 0;
    uint8_t map[256];
    for (int n = 0; n < N; n++) h[X[n]]++;
    for (int v = 0; v < 256; v++) sum += h[v], map[v] = uint8_t(sum * 255 / N);
    for (int n = 0; n < N; n++) Y[n] = map[X[n]];
)";

} // namespace

std::vector<OwnOp> vision_ops() {
    return {
        {"median3", {{"H", 241}, {"W", 403}}, median3, median3_loop},
        {"integral_image", {{"H", 300}, {"W", 401}}, integral_image, integral_image_loop},
        {"lucas_kanade", {{"H", 120}, {"W", 161}}, lucas_kanade, lucas_kanade_loop, {}, {}, {1e-3, 1e-4}},
        {"ncc", {{"H", 90}, {"W", 110}}, ncc, ncc_loop, {}, {}, {1e-3, 1e-4}},
        {"sad_search", {{"H", 128}, {"W", 192}}, sad_search, sad_search_loop, sad_search_hand},
        {"hog_cells", {{"H", 128}, {"W", 160}}, hog_cells, hog_cells_loop, {}, {}, {1e-3, 1e-3}},
        {"histogram_equalise", {{"N", 100000}}, histogram_equalise, histogram_equalise_loop},
    };
}

} // namespace kumiko::bench
