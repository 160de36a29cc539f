// Filters of images. Beyond the border they read the nearest pixel.
#include "bench/own_ops/own_ops.h"

#include "dsl/math.h"
#include "dsl/reduction.h"
#include "dsl/tuple.h"

namespace kumiko::bench {

namespace {

// Loops first copy the image to P, which has a border of R pixels, so that lanes need no branches.
const char *padded_copy = R"(
    static float P[H + 2 * R][W + 2 * R];
    for (int y = 0; y < H + 2 * R; y++) {
        const float *from = X[min(max(y - R, 0), H - 1)];
        for (int x = 0; x < R; x++) P[y][x] = from[0], P[y][R + W + x] = from[W - 1];
        for (int x = 0; x < W; x++) P[y][R + x] = from[x];
    }
)";

struct Image {
    Axis y, x;
    Tensor X, P; // P may be read anywhere
    explicit Image(const Extents &e) : y("y", e["H"]), x("x", e["W"]), X(input("X", f32, {y, x})), P(clamped(X)) {}
};

Op bilateral(const Extents &e) {
    const Image m(e);
    const auto &[y, x, X, P] = m;
    Axis j("j", 5), i("i", 5);
    const Element v = P(y + j - 2, x + i - 2), d = v - X(y, x);
    const Element w = exp(d * d * -4.f - cast(f32, (j - 2) * (j - 2) + (i - 2) * (i - 2)) * 0.125f);
    const Tuple t = reduce(
        [](Values a, Values b) -> Values {
            return {a[0] + b[0], a[1] + b[1]};
        },
        {0.f, 0.f}, {w * v, w}, {j, i}, {.associative = true, .commutative = true});
    return Op("bilateral", {X}, {compute("Y", {y, x}, t[0] / t[1])});
}
const char *bilateral_loop = R"(
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++) {
            float values = 0, weights = 0;
            for (int j = -2; j <= 2; j++)
                for (int i = -2; i <= 2; i++) {
                    const float v = P[y + R + j][x + R + i], d = v - X[y][x];
                    const float w = exp(d * d * -4 - (j * j + i * i) * 0.125f);
                    values += w * v, weights += w;
                }
            Y[y][x] = values / weights;
        }
)";
void bilateral_hand(Schedule &s) {
    const int64_t v = lanes(s);
    s.stage("X.clamped").compute_root().vectorize("x", v);
    s.stage("Y").vectorize("x", v);
    auto sums = s.stage("Y.reduce");
    sums.compute_at("Y", "y").split("x", 4 * v);
    sums.reorder({"y", "x.o", "j", "i", "x.i"}).vectorize("x.i", v).unroll("x.i.o");
    sums.accumulate_in("registers", "x.o");
}

Op unsharp(const Extents &e) {
    const Image m(e);
    const auto &[y, x, X, P] = m;
    Tensor across = compute("across", {y, x}, P(y, x - 1) + 2.f * P(y, x) + P(y, x + 1));
    Tensor A = clamped(across);
    const Element blur = (A(y - 1, x) + 2.f * A(y, x) + A(y + 1, x)) * 0.0625f;
    return Op("unsharp", {X}, {compute("Y", {y, x}, clamp(X(y, x) + 0.7f * (X(y, x) - blur), 0.f, 1.f))});
}
const char *unsharp_loop = R"(
    static float A[H + 2][W];
    for (int y = 0; y < H + 2; y++)
        for (int x = 0; x < W; x++) A[y][x] = P[y][x] + 2 * P[y][x + 1] + P[y][x + 2];
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++) {
            const float blur = (A[y][x] + 2 * A[y + 1][x] + A[y + 2][x]) * 0.0625f;
            Y[y][x] = min(max(X[y][x] + 0.7f * (X[y][x] - blur), 0.f), 1.f);
        }
)";

Op gauss(const Extents &e) {
    const Image m(e);
    const auto &[y, x, X, P] = m;
    Axis k("k", 7), l("l", 7);
    Tensor w = input("w", f32, {k});
    Tensor across = compute("across", {y, x}, sum(P(y, x + k - 3) * w(k), k));
    Tensor A = clamped(across);
    return Op("gauss", {X, w}, {compute("Y", {y, x}, sum(A(y + l - 3, x) * w(l), l))});
}
const char *gauss_loop = R"(
    static float A[H + 6][W];
    for (int y = 0; y < H + 6; y++)
        for (int x = 0; x < W; x++) {
            float sum = 0;
            for (int k = 0; k < 7; k++) sum += P[y][x + k] * w[k];
            A[y][x] = sum;
        }
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++) {
            float sum = 0;
            for (int k = 0; k < 7; k++) sum += A[y + k][x] * w[k];
            Y[y][x] = sum;
        }
)";
// Only the first and last rows and blocks clamp their reads.
void gauss_hand(Schedule &s) {
    const int64_t v = lanes(s);
    s.stage("across").compute_root();
    for (const auto &[name, k] : {std::pair("Y", "l"), std::pair("across", "k")}) {
        auto blur = s.stage(name);
        blur.split("x", 4 * v);
        blur.reorder({"y", "x.o", k, "x.i"}).peel("x.o", 1, 1).vectorize("x.i", v).unroll("x.i.o").unroll(k);
        blur.accumulate_in("registers", "x.o");
    }
    s.stage("Y").peel("y", 3, 3);
}

Op sobel(const Extents &e) {
    const Image m(e);
    const auto &[y, x, X, P] = m;
    const Element a = P(y - 1, x + 1) - P(y - 1, x - 1) + 2.f * (P(y, x + 1) - P(y, x - 1)) + P(y + 1, x + 1) -
                      P(y + 1, x - 1),
                  b = P(y + 1, x - 1) - P(y - 1, x - 1) + 2.f * (P(y + 1, x) - P(y - 1, x)) + P(y + 1, x + 1) -
                      P(y - 1, x + 1);
    return Op("sobel", {X}, {compute("Y", {y, x}, sqrt(a * a + b * b))});
}
const char *sobel_loop = R"(
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++) {
            const float *u = P[y], *v = P[y + 1], *w = P[y + 2];
            const float a = u[x + 2] - u[x] + 2 * (v[x + 2] - v[x]) + w[x + 2] - w[x];
            const float b = w[x] - u[x] + 2 * (w[x + 1] - u[x + 1]) + w[x + 2] - u[x + 2];
            Y[y][x] = sqrt(a * a + b * b);
        }
)";

// Blurs by 1 4 6 4 1 in both directions and keeps every second row and column.
Op pyramid_down(const Extents &e) {
    const Image m(e);
    const auto &[y, x, X, P] = m;
    Axis v("v", e["H"] / 2), u("u", e["W"] / 2);
    const auto blur = [](Element a, Element b, Element c, Element d, Element f) {
        return (a + f + 4.f * (b + d) + 6.f * c) * 0.0625f;
    };
    Tensor across = compute("across", {y, u},
                            blur(P(y, 2 * u - 2), P(y, 2 * u - 1), P(y, 2 * u), P(y, 2 * u + 1), P(y, 2 * u + 2)));
    Tensor A = clamped(across);
    return Op(
        "pyramid_down", {X},
        {compute("Y", {v, u}, blur(A(2 * v - 2, u), A(2 * v - 1, u), A(2 * v, u), A(2 * v + 1, u), A(2 * v + 2, u)))});
}
const char *pyramid_down_loop = R"(
    static float A[H + 4][W / 2];
    for (int y = 0; y < H + 4; y++)
        for (int u = 0; u < W / 2; u++) {
            const float *p = &P[y][2 * u];
            A[y][u] = (p[0] + p[4] + 4 * (p[1] + p[3]) + 6 * p[2]) * 0.0625f;
        }
    for (int v = 0; v < H / 2; v++)
        for (int u = 0; u < W / 2; u++)
            Y[v][u] = (A[2 * v][u] + A[2 * v + 4][u] + 4 * (A[2 * v + 1][u] + A[2 * v + 3][u]) + 6 * A[2 * v + 2][u]) *
                      0.0625f;
)";

// Doubles the size by bilinear interpolation.
Op pyramid_up(const Extents &e) {
    const Image m(e);
    const auto &[y, x, X, P] = m;
    Axis v("v", e["H"] * 2), u("u", e["W"] * 2);
    Tensor up = compute("up", {v, x}, P(v / 2, x) * 0.75f + P(v / 2 - 1 + 2 * (v % 2), x) * 0.25f);
    Tensor U = clamped(up);
    return Op("pyramid_up", {X}, {compute("Y", {v, u}, U(v, u / 2) * 0.75f + U(v, u / 2 - 1 + 2 * (u % 2)) * 0.25f)});
}
const char *pyramid_up_loop = R"(
    for (int v = 0; v < 2 * H; v++) {
        float U[W + 2];
        const float *near = P[v / 2 + 1], *far = P[v / 2 + 2 * (v % 2)];
        for (int x = 0; x < W + 2; x++) U[x] = near[x] * 0.75f + far[x] * 0.25f;
        for (int x = 0; x < W; x++) {
            Y[v][2 * x] = U[x + 1] * 0.75f + U[x] * 0.25f;
            Y[v][2 * x + 1] = U[x + 1] * 0.75f + U[x + 2] * 0.25f;
        }
    }
)";

// The sensor is red at even rows and columns, blue at odd ones, and green elsewhere.
Op demosaic(const Extents &e) {
    const Image m(e);
    const auto &[y, x, X, P] = m;
    const Element here = P(y, x), cross = (P(y - 1, x) + P(y + 1, x) + P(y, x - 1) + P(y, x + 1)) * 0.25f,
                  corners = (P(y - 1, x - 1) + P(y - 1, x + 1) + P(y + 1, x - 1) + P(y + 1, x + 1)) * 0.25f,
                  sides = (P(y, x - 1) + P(y, x + 1)) * 0.5f, ends = (P(y - 1, x) + P(y + 1, x)) * 0.5f;
    const Expr even_y = y % 2 == 0, even_x = x % 2 == 0;
    return Op("demosaic", {X},
              {compute("red", {y, x}, select(even_y, select(even_x, here, sides), select(even_x, ends, corners))),
               compute("green", {y, x}, select(even_y == even_x, cross, here)),
               compute("blue", {y, x}, select(even_y, select(even_x, corners, ends), select(even_x, sides, here)))});
}
const char *demosaic_loop = R"(
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++) {
            const float *u = &P[y][x], *v = &P[y + 1][x], *w = &P[y + 2][x];
            const float here = v[1], cross = (u[1] + w[1] + v[0] + v[2]) * 0.25f;
            const float corners = (u[0] + u[2] + w[0] + w[2]) * 0.25f, sides = (v[0] + v[2]) * 0.5f;
            const float ends = (u[1] + w[1]) * 0.5f;
            const bool a = y % 2 == 0, b = x % 2 == 0;
            red[y][x] = a ? (b ? here : sides) : (b ? ends : corners);
            green[y][x] = a == b ? cross : here;
            blue[y][x] = a ? (b ? corners : ends) : (b ? sides : here);
        }
)";
// Each unrolled copy knows the parity of its row and columns. Only the border clamps its reads.
void demosaic_hand(Schedule &s) {
    const int64_t v = lanes(s);
    for (const char *name : {"red", "green", "blue"}) {
        auto colour = s.stage(name);
        colour.split("x", 2 * v);
        colour.unroll("y", 2).peel("y.o", 1, 1).peel("x.o", 1, 1).vectorize("x.i", v).unroll("x.i.o");
    }
}

// Bilinear interpolation at the position that a flow field gives for each pixel.
Op warp(const Extents &e) {
    const Image m(e);
    const auto &[y, x, X, P] = m;
    Tensor U = input("U", f32, {y, x}), V = input("V", f32, {y, x});
    const Element px = clamp(cast(f32, x) + U(y, x), 0.f, static_cast<float>(e.value("W") - 1)),
                  py = clamp(cast(f32, y) + V(y, x), 0.f, static_cast<float>(e.value("H") - 1));
    const Element fx = floor(px), fy = floor(py), a = px - fx, b = py - fy;
    const Expr x0 = clamp(cast(i32, fx), 0, e["W"] - 1), y0 = clamp(cast(i32, fy), 0, e["H"] - 1),
               x1 = min(x0 + 1, e["W"] - 1), y1 = min(y0 + 1, e["H"] - 1);
    const Element top = X(y0, x0) + a * (X(y0, x1) - X(y0, x0)), bottom = X(y1, x0) + a * (X(y1, x1) - X(y1, x0));
    return Op("warp", {X, U, V}, {compute("Y", {y, x}, top + b * (bottom - top))});
}
const char *warp_loop = R"(
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++) {
            const float px = min(max(x + U[y][x], 0.f), W - 1.f), py = min(max(y + V[y][x], 0.f), H - 1.f);
            const int x0 = px, y0 = py, x1 = min(x0 + 1, W - 1), y1 = min(y0 + 1, H - 1);
            const float a = px - x0, b = py - y0;
            const float top = X[y0][x0] + a * (X[y0][x1] - X[y0][x0]);
            const float bottom = X[y1][x0] + a * (X[y1][x1] - X[y1][x0]);
            Y[y][x] = top + b * (bottom - top);
        }
)";
void warp_hand(Schedule &s) { s.stage("Y").vectorize("x", 2 * lanes(s)); }

std::string padded_loop(const char *loop) { return std::string(padded_copy) + loop; }

} // namespace

std::vector<OwnOp> image_ops() {
    return {
        {"bilateral",
         {{"H", 119}, {"W", 161}, {"R", 2}},
         bilateral,
         padded_loop(bilateral_loop),
         bilateral_hand,
         {{"X", {0, 1}}}},
        {"unsharp", {{"H", 240}, {"W", 320}, {"R", 1}}, unsharp, padded_loop(unsharp_loop), {}, {{"X", {0, 1}}}},
        {"gauss", {{"H", 239}, {"W", 321}, {"R", 3}}, gauss, padded_loop(gauss_loop), gauss_hand},
        {"sobel", {{"H", 240}, {"W", 317}, {"R", 1}}, sobel, padded_loop(sobel_loop)},
        {"pyramid_down", {{"H", 360}, {"W", 480}, {"R", 2}}, pyramid_down, padded_loop(pyramid_down_loop)},
        {"pyramid_up", {{"H", 150}, {"W", 230}, {"R", 1}}, pyramid_up, padded_loop(pyramid_up_loop)},
        {"demosaic", {{"H", 200}, {"W", 300}, {"R", 1}}, demosaic, padded_loop(demosaic_loop), demosaic_hand},
        {"warp", {{"H", 120}, {"W", 203}}, warp, warp_loop, warp_hand, {{"U", {-5, 5}}, {"V", {-5, 5}}}, {1e-3, 1e-4}},
    };
}

} // namespace kumiko::bench
