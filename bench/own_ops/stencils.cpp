// Stencils: single steps of simulations on grids.
#include "bench/own_ops/own_ops.h"

#include "dsl/math.h"
#include "dsl/reduction.h"

#include <cstdlib>

namespace kumiko::bench {

namespace {

// Loops first copy the grid to P, which has a border of zeros.
const char *zero_border = R"(
    static float P[H + 2][W + 2];
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++) P[y + 1][x + 1] = X[y][x];
)";

Op heat(const Extents &e) {
    Axis y("y", e["H"]), x("x", e["W"]);
    Tensor X = input("X", f32, {y, x}), P = zero_padded(X);
    return Op("heat", {X},
              {compute("Y", {y, x}, 0.6f * X(y, x) + 0.1f * (P(y - 1, x) + P(y + 1, x) + P(y, x - 1) + P(y, x + 1)))});
}
const char *heat_loop = R"(
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            Y[y][x] = 0.6f * P[y + 1][x + 1] + 0.1f * (P[y][x + 1] + P[y + 2][x + 1] + P[y + 1][x] + P[y + 1][x + 2]);
)";

Op heat_twice(const Extents &e) {
    Axis y("y", e["H"]), x("x", e["W"]);
    Tensor X = input("X", f32, {y, x});
    const auto step = [&](const char *name, const Tensor &from) {
        Tensor P = zero_padded(from);
        return compute(name, {y, x},
                       0.6f * from(y, x) + 0.1f * (P(y - 1, x) + P(y + 1, x) + P(y, x - 1) + P(y, x + 1)));
    };
    return Op("heat_twice", {X}, {step("Y", step("T", X))});
}
const char *heat_twice_loop = R"(
    static float T[H + 2][W + 2];
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            T[y + 1][x + 1] =
                0.6f * P[y + 1][x + 1] + 0.1f * (P[y][x + 1] + P[y + 2][x + 1] + P[y + 1][x] + P[y + 1][x + 2]);
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            Y[y][x] = 0.6f * T[y + 1][x + 1] + 0.1f * (T[y][x + 1] + T[y + 2][x + 1] + T[y + 1][x] + T[y + 1][x + 2]);
)";
void heat_twice_hand(Schedule &s) {
    s.stage("T").compute_root();
    for (const char *name : {"Y", "T"}) s.stage(name).peel("y", 1, 1).vectorize("x", 2 * lanes(s));
}

Op wave(const Extents &e) {
    Axis y("y", e["H"]), x("x", e["W"]);
    Tensor X = input("X", f32, {y, x}), B = input("B", f32, {y, x}), C = input("C", f32, {y, x}), P = zero_padded(X);
    const Element around = P(y - 1, x) + P(y + 1, x) + P(y, x - 1) + P(y, x + 1) - 4.f * X(y, x);
    return Op("wave", {X, B, C}, {compute("Y", {y, x}, 2.f * X(y, x) - B(y, x) + C(y, x) * around)});
}
const char *wave_loop = R"(
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++) {
            const float around =
                P[y][x + 1] + P[y + 2][x + 1] + P[y + 1][x] + P[y + 1][x + 2] - 4 * P[y + 1][x + 1];
            Y[y][x] = 2 * P[y + 1][x + 1] - B[y][x] + C[y][x] * around;
        }
)";
void wave_hand(Schedule &s) {
    const int64_t v = lanes(s);
    s.stage("Y").peel("y", 1, 1).split("x", 2 * v);
    s.stage("Y").peel("x.o", 1, 1).vectorize("x.i", v).unroll("x.i.o");
}

// Computes the inner elements of the grid.
Op stencil7(const Extents &e) {
    Axis z("z", e["D"]), y("y", e["H"]), x("x", e["W"]);
    Axis k("k", e["D"] + 2), j("j", e["H"] + 2), i("i", e["W"] + 2);
    Tensor X = input("X", f32, {k, j, i});
    const Element around = X(z, y + 1, x + 1) + X(z + 2, y + 1, x + 1) + X(z + 1, y, x + 1) + X(z + 1, y + 2, x + 1) +
                           X(z + 1, y + 1, x) + X(z + 1, y + 1, x + 2);
    return Op("stencil7", {X}, {compute("Y", {z, y, x}, 0.4f * X(z + 1, y + 1, x + 1) + 0.1f * around)});
}
const char *stencil7_loop = R"(
    for (int z = 0; z < D; z++)
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++) {
                const float around = X[z][y + 1][x + 1] + X[z + 2][y + 1][x + 1] + X[z + 1][y][x + 1] +
                                     X[z + 1][y + 2][x + 1] + X[z + 1][y + 1][x] + X[z + 1][y + 1][x + 2];
                Y[z][y][x] = 0.4f * X[z + 1][y + 1][x + 1] + 0.1f * around;
            }
)";

Op life(const Extents &e) {
    Axis y("y", e["H"]), x("x", e["W"]);
    Tensor X = input("X", u8, {y, x}), P = zero_padded(X);
    const Element n = P(y - 1, x - 1) + P(y - 1, x) + P(y - 1, x + 1) + P(y, x - 1) + P(y, x + 1) + P(y + 1, x - 1) +
                      P(y + 1, x) + P(y + 1, x + 1);
    return Op("life", {X},
              {compute("Y", {y, x}, select(n == 3 || (n == 2 && X(y, x) == 1), cast(u8, 1), cast(u8, 0)))});
}
const char *life_loop = R"(
    static uint8_t P[H + 2][W + 2];
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++) P[y + 1][x + 1] = X[y][x];
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++) {
            const uint8_t *u = &P[y][x], *v = &P[y + 1][x], *w = &P[y + 2][x];
            const uint8_t n = u[0] + u[1] + u[2] + v[0] + v[2] + w[0] + w[1] + w[2];
            Y[y][x] = (n == 3) | ((n == 2) & v[1]);
        }
)";
void life_hand(Schedule &s) {
    const int64_t bytes = 4 * lanes(s);
    s.stage("Y").split("y", 10);
    s.stage("X.padded").compute_at("Y", "y.o").vectorize("x", bytes);
    s.stage("Y").vectorize("x", bytes);
}

// A stencil of 27 points in a periodic box, with one weight for each kind of neighbour, in f64.
Op box27(const Extents &e) {
    Axis z("z", e["D"]), y("y", e["H"]), x("x", e["W"]);
    Tensor X = input("X", f64, {z, y, x});
    const double w[4] = {0.4, 0.05, 0.015, 0.015};
    const auto at = [](const Axis &a, int d) -> Expr {
        return d == 0 ? Expr(a) : d > 0 ? (a + 1) % a.extent() : (a + a.extent() - 1) % a.extent();
    };
    Element total = X(z, y, x) * w[0];
    for (int k = -1; k <= 1; k++)
        for (int j = -1; j <= 1; j++)
            for (int i = -1; i <= 1; i++)
                if (k || j || i) total += X(at(z, k), at(y, j), at(x, i)) * w[std::abs(k) + std::abs(j) + std::abs(i)];
    return Op("box27", {X}, {compute("Y", {z, y, x}, total)});
}
const char *box27_loop = R"(
    const double w0 = 0.4, w1 = 0.05, w2 = 0.015;
    static double P[D + 2][H + 2][W + 2];
    for (int z = 0; z < D + 2; z++)
        for (int y = 0; y < H + 2; y++) {
            const double *from = X[(z + D - 1) % D][(y + H - 1) % H];
            P[z][y][0] = from[W - 1], P[z][y][W + 1] = from[0];
            for (int x = 0; x < W; x++) P[z][y][x + 1] = from[x];
        }
    for (int z = 0; z < D; z++)
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++) {
                double faces = 0, others = 0;
                for (int k = 0; k < 3; k++)
                    for (int j = 0; j < 3; j++)
                        for (int i = 0; i < 3; i++) {
                            const int kind = (k != 1) + (j != 1) + (i != 1);
                            if (kind == 1) faces += P[z + k][y + j][x + i];
                            if (kind > 1) others += P[z + k][y + j][x + i];
                        }
                Y[z][y][x] = w0 * P[z + 1][y + 1][x + 1] + w1 * faces + w2 * others;
            }
)";
// Only the first and last planes, rows and blocks wrap their reads around.
void box27_hand(Schedule &s) {
    const int64_t v = std::max<int64_t>(lanes(s) / 2, 1);
    s.stage("Y").peel("z", 1, 1).peel("y", 1, 1).split("x", 2 * v);
    s.stage("Y").peel("x.o", 1, 1).vectorize("x.i", v).unroll("x.i.o");
}

} // namespace

std::vector<OwnOp> stencil_ops() {
    const auto bordered = [](const char *loop) { return std::string(zero_border) + loop; };
    return {
        {"heat", {{"H", 350}, {"W", 421}}, heat, bordered(heat_loop)},
        {"heat_twice", {{"H", 256}, {"W", 256}}, heat_twice, bordered(heat_twice_loop), heat_twice_hand},
        {"wave", {{"H", 250}, {"W", 401}}, wave, bordered(wave_loop), wave_hand},
        {"stencil7", {{"D", 30}, {"H", 45}, {"W", 77}}, stencil7, stencil7_loop},
        {"life", {{"H", 500}, {"W", 703}}, life, life_loop, life_hand, {{"X", {0, 2}}}},
        {"box27", {{"D", 40}, {"H", 41}, {"W", 43}}, box27, box27_loop, box27_hand, {}, {1e-9, 1e-9}},
    };
}

} // namespace kumiko::bench
