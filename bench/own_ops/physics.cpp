// Simulations of particles and fluids.
#include "bench/own_ops/own_ops.h"

#include "dsl/math.h"
#include "dsl/reduction.h"

namespace kumiko::bench {

namespace {

// Gravitational accelerations between N bodies, in arrays of coordinates.
Op nbody(const Extents &e) {
    Axis i("i", e["N"]), j("j", e["N"]), c("c", 3);
    Tensor X = input("X", f32, {c, j}), m = input("m", f32, {j});
    const Element dx = X(0, j) - X(0, i), dy = X(1, j) - X(1, i), dz = X(2, j) - X(2, i);
    const Element r = rsqrt(dx * dx + dy * dy + dz * dz + 1e-2f), f = m(j) * r * r * r;
    return Op(
        "nbody", {X, m},
        {compute("ax", {i}, sum(f * dx, j)), compute("ay", {i}, sum(f * dy, j)), compute("az", {i}, sum(f * dz, j))});
}
const char *nbody_loop = R"(
    for (int i = 0; i < N; i++) {
        float x = 0, y = 0, z = 0;
        for (int j = 0; j < N; j++) {
            const float dx = X[0][j] - X[0][i], dy = X[1][j] - X[1][i], dz = X[2][j] - X[2][i];
            const float r = 1 / sqrt(dx * dx + dy * dy + dz * dz + 1e-2f), f = m[j] * r * r * r;
            x += f * dx, y += f * dy, z += f * dz;
        }
        ax[i] = x, ay[i] = y, az[i] = z;
    }
)";

// One step of the lattice Boltzmann method D2Q9: streams, then collides. Walls clamp the reads.
// Each direction is an output.
Op lbm(const Extents &e) {
    Axis q("q", 9), y("y", e["H"]), x("x", e["W"]);
    Tensor F = input("F", f32, {q, y, x});
    const int cx[9] = {0, 1, 0, -1, 0, 1, -1, -1, 1}, cy[9] = {0, 0, 1, 0, -1, 1, 1, -1, -1};
    const float w[9] = {4.f / 9, 1.f / 9, 1.f / 9, 1.f / 9, 1.f / 9, 1.f / 36, 1.f / 36, 1.f / 36, 1.f / 36};
    Tensor P = clamped(F, {y, x});
    std::vector<Element> f;
    for (int k = 0; k < 9; k++) f.push_back(P(k, y - cy[k], x - cx[k]));
    Tensor rho = compute("rho", {y, x}, f[0] + f[1] + f[2] + f[3] + f[4] + f[5] + f[6] + f[7] + f[8]);
    Tensor u = compute("u", {y, x}, (f[1] + f[5] + f[8] - f[3] - f[6] - f[7]) / rho(y, x));
    Tensor v = compute("v", {y, x}, (f[2] + f[5] + f[6] - f[4] - f[7] - f[8]) / rho(y, x));
    std::vector<Tensor> out;
    for (int k = 0; k < 9; k++) {
        const Element c = static_cast<float>(cx[k]) * u(y, x) + static_cast<float>(cy[k]) * v(y, x);
        const Element eq =
            w[k] * rho(y, x) * (1.f + 3.f * c + 4.5f * c * c - 1.5f * (u(y, x) * u(y, x) + v(y, x) * v(y, x)));
        out.push_back(compute("G" + std::to_string(k), {y, x}, f[k] + 0.6f * (eq - f[k])));
    }
    return Op("lbm", {F}, out);
}
const char *lbm_loop = R"(
    constexpr int cx[9] = {0, 1, 0, -1, 0, 1, -1, -1, 1}, cy[9] = {0, 0, 1, 0, -1, 1, 1, -1, -1};
    constexpr float w[9] = {4.f / 9, 1.f / 9, 1.f / 9, 1.f / 9, 1.f / 9, 1.f / 36, 1.f / 36, 1.f / 36, 1.f / 36};
    float *G[9] = {&G0[0][0], &G1[0][0], &G2[0][0], &G3[0][0], &G4[0][0], &G5[0][0], &G6[0][0], &G7[0][0], &G8[0][0]};
    for (int y = 0; y < H; y++) {
        float f[9][W]; // streamed rows
        for (int k = 0; k < 9; k++) {
            const float *from = F[k][min(max(y - cy[k], 0), H - 1)];
            if (cx[k] == 0) for (int x = 0; x < W; x++) f[k][x] = from[x];
            else if (cx[k] == 1) { f[k][0] = from[0]; for (int x = 1; x < W; x++) f[k][x] = from[x - 1]; }
            else { f[k][W - 1] = from[W - 1]; for (int x = 0; x < W - 1; x++) f[k][x] = from[x + 1]; }
        }
        float rho[W], u[W], v[W];
        for (int x = 0; x < W; x++) {
            rho[x] = f[0][x] + f[1][x] + f[2][x] + f[3][x] + f[4][x] + f[5][x] + f[6][x] + f[7][x] + f[8][x];
            const float r = 1 / rho[x];
            u[x] = (f[1][x] + f[5][x] + f[8][x] - f[3][x] - f[6][x] - f[7][x]) * r;
            v[x] = (f[2][x] + f[5][x] + f[6][x] - f[4][x] - f[7][x] - f[8][x]) * r;
        }
        for (int k = 0; k < 9; k++) {
            float *__restrict to = G[k] + y * W;
            for (int x = 0; x < W; x++) {
                const float c = cx[k] * u[x] + cy[k] * v[x];
                const float eq = w[k] * rho[x] * (1 + 3 * c + 4.5f * c * c - 1.5f * (u[x] * u[x] + v[x] * v[x]));
                to[x] = f[k][x] + 0.6f * (eq - f[k][x]);
            }
        }
    }
)";

// One step of the shallow water equations by finite volumes with Rusanov's fluxes, in f64.
Op rusanov(const Extents &e) {
    Axis y("y", e["H"]), x("x", e["W"]), yf("yf", e["H"] + 1), xf("xf", e["W"] + 1);
    Tensor h = input("h", f64, {y, x}), m = input("m", f64, {y, x}), n = input("n", f64, {y, x});
    Tensor hp = clamped(h), mp = clamped(m), np = clamped(n);
    const double g = 9.81;
    // Fluxes of (h, normal momentum, other momentum) between two cells.
    const auto flux = [&](Element hl, Element al, Element bl, Element hr, Element ar,
                          Element br) -> std::vector<Element> {
        const Element ul = al / hl, ur = ar / hr;
        const Element s = max(abs(ul) + sqrt(g * hl), abs(ur) + sqrt(g * hr));
        return {0.5 * (al + ar) - 0.5 * s * (hr - hl),
                0.5 * (al * ul + 0.5 * g * hl * hl + ar * ur + 0.5 * g * hr * hr) - 0.5 * s * (ar - al),
                0.5 * (bl * ul + br * ur) - 0.5 * s * (br - bl)};
    };
    const auto a = flux(hp(y, xf - 1), mp(y, xf - 1), np(y, xf - 1), hp(y, xf), mp(y, xf), np(y, xf)),
               b = flux(hp(yf - 1, x), np(yf - 1, x), mp(yf - 1, x), hp(yf, x), np(yf, x), mp(yf, x));
    Tensor fh = compute("fh", {y, xf}, a[0]), fm = compute("fm", {y, xf}, a[1]), fn = compute("fn", {y, xf}, a[2]);
    Tensor gh = compute("gh", {yf, x}, b[0]), gn = compute("gn", {yf, x}, b[1]), gm = compute("gm", {yf, x}, b[2]);
    const auto step = [&](const char *name, const Tensor &q, const Tensor &f, const Tensor &k) {
        return compute(name, {y, x}, q(y, x) - 0.01 * (f(y, x + 1) - f(y, x) + k(y + 1, x) - k(y, x)));
    };
    return Op("rusanov", {h, m, n}, {step("h1", h, fh, gh), step("m1", m, fm, gm), step("n1", n, fn, gn)});
}
const char *rusanov_loop = R"(
    const double g = 9.81;
    static double fh[W + 1], fm[W + 1], fn[W + 1], gh[2][W], gm[2][W], gn[2][W];
    const auto flux = [&](double hl, double al, double bl, double hr, double ar, double br, double &p, double &q, double &r) {
        const double ul = al / hl, ur = ar / hr, s = max(fabs(ul) + sqrt(g * hl), fabs(ur) + sqrt(g * hr));
        p = 0.5 * (al + ar) - 0.5 * s * (hr - hl);
        q = 0.5 * (al * ul + 0.5 * g * hl * hl + ar * ur + 0.5 * g * hr * hr) - 0.5 * s * (ar - al);
        r = 0.5 * (bl * ul + br * ur) - 0.5 * s * (br - bl);
    };
    for (int x = 0; x < W; x++) flux(h[0][x], n[0][x], m[0][x], h[0][x], n[0][x], m[0][x], gh[0][x], gn[0][x], gm[0][x]);
    for (int y = 0; y < H; y++) {
        const int b = y + 1 < H ? y + 1 : y, o = y % 2, t = 1 - o;
        for (int x = 0; x < W; x++) flux(h[y][x], n[y][x], m[y][x], h[b][x], n[b][x], m[b][x], gh[t][x], gn[t][x], gm[t][x]);
        for (int x = 1; x < W; x++)
            flux(h[y][x - 1], m[y][x - 1], n[y][x - 1], h[y][x], m[y][x], n[y][x], fh[x], fm[x], fn[x]);
        flux(h[y][0], m[y][0], n[y][0], h[y][0], m[y][0], n[y][0], fh[0], fm[0], fn[0]);
        flux(h[y][W - 1], m[y][W - 1], n[y][W - 1], h[y][W - 1], m[y][W - 1], n[y][W - 1], fh[W], fm[W], fn[W]);
        for (int x = 0; x < W; x++) {
            h1[y][x] = h[y][x] - 0.01 * (fh[x + 1] - fh[x] + gh[t][x] - gh[o][x]);
            m1[y][x] = m[y][x] - 0.01 * (fm[x + 1] - fm[x] + gm[t][x] - gm[o][x]);
            n1[y][x] = n[y][x] - 0.01 * (fn[x + 1] - fn[x] + gn[t][x] - gn[o][x]);
        }
    }
)";

} // namespace

std::vector<OwnOp> physics_ops() {
    return {
        {"nbody", {{"N", 500}}, nbody, nbody_loop, {}, {{"m", {0.1, 1}}}},
        {"lbm", {{"H", 100}, {"W", 131}}, lbm, lbm_loop, {}, {{"F", {0.1, 0.2}}}},
        {"rusanov",
         {{"H", 100}, {"W", 130}},
         rusanov,
         rusanov_loop,
         {},
         {{"h", {1, 2}}, {"m", {-1, 1}}, {"n", {-1, 1}}},
         {1e-9, 1e-9}},
    };
}

} // namespace kumiko::bench
