// Fourier transforms by products, complex numbers, and scans.
#include "bench/own_ops/own_ops.h"

#include "dsl/math.h"
#include "dsl/reduction.h"
#include "dsl/scan.h"

namespace kumiko::bench {

namespace {

Op dft_power(const Extents &e) {
    Axis i("i", e["N"]), f("f", e["F"]), t("t", e["F"]);
    Tensor X = input("X", f32, {i, t}), C = input("C", f32, {t, f}), S = input("S", f32, {t, f});
    Tensor re = compute("re", {i, f}, sum(X(i, t) * C(t, f), t)), im = compute("im", {i, f}, sum(X(i, t) * S(t, f), t));
    return Op("dft_power", {X, C, S}, {compute("P", {i, f}, re(i, f) * re(i, f) + im(i, f) * im(i, f))});
}
const char *dft_power_loop = R"(
    for (int i = 0; i < N; i++) {
        float re[F] = {}, im[F] = {};
        for (int t = 0; t < F; t++)
            for (int f = 0; f < F; f++) re[f] += X[i][t] * C[t][f], im[f] += X[i][t] * S[t][f];
        for (int f = 0; f < F; f++) P[i][f] = re[f] * re[f] + im[f] * im[f];
    }
)";

// Power spectra of overlapping windowed frames, then the logarithm of mel bands.
Op mel_spectrum(const Extents &e) {
    Axis i("i", e["N"]), f("f", e["F"]), t("t", e["T"]), m("m", e["M"]), l("l", e["N"] * e["H"] + e["T"] - e["H"]);
    Tensor X = input("X", f32, {l}), w = input("w", f32, {t}), C = input("C", f32, {t, f}), S = input("S", f32, {t, f}),
           B = input("B", f32, {f, m});
    Tensor frame = compute("frame", {i, t}, X(i * e["H"] + t) * w(t));
    Tensor re = compute("re", {i, f}, sum(frame(i, t) * C(t, f), t)),
           im = compute("im", {i, f}, sum(frame(i, t) * S(t, f), t));
    Tensor power = compute("power", {i, f}, re(i, f) * re(i, f) + im(i, f) * im(i, f));
    return Op("mel_spectrum", {X, w, C, S, B}, {compute("Y", {i, m}, log(sum(power(i, f) * B(f, m), f) + 1e-3f))});
}
const char *mel_spectrum_loop = R"(
    for (int i = 0; i < N; i++) {
        float re[F] = {}, im[F] = {}, band[M] = {};
        for (int t = 0; t < T; t++) {
            const float x = X[i * H + t] * w[t];
            for (int f = 0; f < F; f++) re[f] += x * C[t][f], im[f] += x * S[t][f];
        }
        for (int f = 0; f < F; f++) {
            const float power = re[f] * re[f] + im[f] * im[f];
            for (int m = 0; m < M; m++) band[m] += power * B[f][m];
        }
        for (int m = 0; m < M; m++) Y[i][m] = log(band[m] + 1e-3f);
    }
)";
void mel_spectrum_hand(Schedule &s) {
    const int64_t v = lanes(s);
    s.stage("frame").vectorize("t", v);
    for (const char *name : {"re", "im"})
        tile_in_registers(s.stage(name), "i", 5, "f", 2 * v, v, {"f.o", "i.o"}, {"t"});
    s.stage("re").finish_in("power");
    tile_in_registers(s.stage("Y.sum"), "i", 8, "m", v, v, {"i.o", "m.o"}, {"f"});
    s.stage("Y.sum").finish_in("Y");
}

// Transforms the rows of a real image, then the columns.
Op dft2(const Extents &e) {
    Axis y("y", e["N"]), x("x", e["N"]), u("u", e["N"]), v("v", e["N"]);
    Tensor X = input("X", f32, {y, x}), C = input("C", f32, {x, u}), S = input("S", f32, {x, u});
    Tensor a = compute("a", {y, u}, sum(X(y, x) * C(x, u), x)), b = compute("b", {y, u}, sum(X(y, x) * S(x, u), x));
    return Op("dft2", {X, C, S},
              {compute("re", {v, u}, sum(C(v, y) * a(y, u) - S(v, y) * b(y, u), y)),
               compute("im", {v, u}, sum(C(v, y) * b(y, u) + S(v, y) * a(y, u), y))});
}
const char *dft2_loop = R"(
    static float a[N][N], b[N][N];
    for (int y = 0; y < N; y++) {
        for (int u = 0; u < N; u++) a[y][u] = b[y][u] = 0;
        for (int x = 0; x < N; x++)
            for (int u = 0; u < N; u++) a[y][u] += X[y][x] * C[x][u], b[y][u] += X[y][x] * S[x][u];
    }
    for (int v = 0; v < N; v++) {
        for (int u = 0; u < N; u++) re[v][u] = im[v][u] = 0;
        for (int y = 0; y < N; y++)
            for (int u = 0; u < N; u++) {
                re[v][u] += C[v][y] * a[y][u] - S[v][y] * b[y][u];
                im[v][u] += C[v][y] * b[y][u] + S[v][y] * a[y][u];
            }
    }
)";

Op moving_average(const Extents &e) {
    Axis t("t", e["T"]), c("c", e["C"]);
    Tensor X = input("X", f32, {t, c});
    return Op("moving_average", {X},
              {compute("Y", {t, c}, scan([](Expr a, Expr b) { return a * 0.9f + b * 0.1f; }, 0.f, X(t, c), t))});
}
const char *moving_average_loop = R"(
    for (int c = 0; c < C; c++) Y[0][c] = 0.1f * X[0][c];
    for (int t = 1; t < T; t++)
        for (int c = 0; c < C; c++) Y[t][c] = 0.9f * Y[t - 1][c] + 0.1f * X[t][c];
)";

Op cumulative_product(const Extents &e) {
    Axis i("i", e["M"]), j("j", e["N"]);
    Tensor X = input("X", f32, {i, j});
    return Op("cumulative_product", {X},
              {compute("Y", {i, j}, scan([](Expr a, Expr b) { return a * b; }, 1.f, X(i, j), j))});
}
const char *cumulative_product_loop = R"(
    for (int i = 0; i < M; i++) {
        float p = 1;
        for (int j = 0; j < N; j++) Y[i][j] = p *= X[i][j];
    }
)";

Op complex_product(const Extents &e) {
    Axis n("n", e["N"]);
    Tensor a = input("a", f32, {n}), b = input("b", f32, {n}), c = input("c", f32, {n}), d = input("d", f32, {n});
    return Op("complex_product", {a, b, c, d},
              {compute("re", {n}, a(n) * c(n) - b(n) * d(n)), compute("im", {n}, a(n) * d(n) + b(n) * c(n))});
}
const char *complex_product_loop = R"(
    for (int n = 0; n < N; n++) re[n] = a[n] * c[n] - b[n] * d[n], im[n] = a[n] * d[n] + b[n] * c[n];
)";

// Multiplies pairs of complex amplitudes by a complex 2×2 matrix.
Op qubit_gate(const Extents &e) {
    Axis h("h", e["N"]), q("q", 2), l("l", e["L"]), p("p", 2);
    Tensor A = input("A", f32, {h, q, l}), B = input("B", f32, {h, q, l}), U = input("U", f32, {q, p}),
           V = input("V", f32, {q, p});
    return Op("qubit_gate", {A, B, U, V},
              {compute("re", {h, q, l}, sum(U(q, p) * A(h, p, l) - V(q, p) * B(h, p, l), p)),
               compute("im", {h, q, l}, sum(U(q, p) * B(h, p, l) + V(q, p) * A(h, p, l), p))});
}
const char *qubit_gate_loop = R"(
    for (int h = 0; h < N; h++)
        for (int q = 0; q < 2; q++)
            for (int l = 0; l < L; l++) {
                const float a = A[h][0][l], b = B[h][0][l], c = A[h][1][l], d = B[h][1][l];
                re[h][q][l] = U[q][0] * a - V[q][0] * b + U[q][1] * c - V[q][1] * d;
                im[h][q][l] = U[q][0] * b + V[q][0] * a + U[q][1] * d + V[q][1] * c;
            }
)";

} // namespace

std::vector<OwnOp> signal_ops() {
    return {
        {"dft_power", {{"N", 100}, {"F", 96}}, dft_power, dft_power_loop},
        {"mel_spectrum",
         {{"N", 40}, {"T", 200}, {"F", 101}, {"H", 80}, {"M", 40}},
         mel_spectrum,
         mel_spectrum_loop,
         mel_spectrum_hand,
         {{"B", {0, 0.1}}},
         {1e-4, 1e-4}},
        {"dft2", {{"N", 60}}, dft2, dft2_loop},
        {"moving_average", {{"T", 2000}, {"C", 100}}, moving_average, moving_average_loop},
        {"cumulative_product",
         {{"M", 100}, {"N", 500}},
         cumulative_product,
         cumulative_product_loop,
         {},
         {{"X", {0.95, 1.05}}}},
        {"complex_product", {{"N", 65536}}, complex_product, complex_product_loop},
        {"qubit_gate", {{"N", 64}, {"L", 500}}, qubit_gate, qubit_gate_loop},
    };
}

} // namespace kumiko::bench
