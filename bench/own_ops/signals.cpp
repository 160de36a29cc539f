// Fourier transforms, filters, beams, complex numbers, and scans.
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

// One pass of Stockham's FFT of radix 4. Complex numbers are interleaved.
Op fft_radix4(const Extents &e) {
    Axis k("k", 4), p("p", e["P"]), q("q", e["Q"]), z("z", 2), r("r", 4);
    Tensor X = input("X", f32, {k, p, q, z}), W = input("W", f32, {p, r, z});
    const auto re = [&](int n) { return X(n, p, q, 0); };
    const auto im = [&](int n) { return X(n, p, q, 1); };
    // y0 and y2 are (a + c) ± (b + d). y1 and y3 are (a − c) ∓ i(b − d).
    Tensor U = compute("U", {p, r, q},
                       select(r == 0, re(0) + re(2) + re(1) + re(3), r == 1, re(0) - re(2) + im(1) - im(3), r == 2,
                              re(0) + re(2) - re(1) - re(3), re(0) - re(2) - im(1) + im(3)));
    Tensor V = compute("V", {p, r, q},
                       select(r == 0, im(0) + im(2) + im(1) + im(3), r == 1, im(0) - im(2) - re(1) + re(3), r == 2,
                              im(0) + im(2) - im(1) - im(3), im(0) - im(2) + re(1) - re(3)));
    return Op("fft_radix4", {X, W},
              {compute("Y", {p, r, q, z},
                       select(z == 0, U(p, r, q) * W(p, r, 0) - V(p, r, q) * W(p, r, 1),
                              U(p, r, q) * W(p, r, 1) + V(p, r, q) * W(p, r, 0)))});
}
const char *fft_radix4_loop = R"(
    for (int p = 0; p < P; p++)
        for (int q = 0; q < Q; q++) {
            const float *a = X[0][p][q], *b = X[1][p][q], *c = X[2][p][q], *d = X[3][p][q];
            const float sr = a[0] + c[0], si = a[1] + c[1], dr = a[0] - c[0], di = a[1] - c[1];
            const float tr = b[0] + d[0], ti = b[1] + d[1], er = b[0] - d[0], ei = b[1] - d[1];
            const float ur[4] = {sr + tr, dr + ei, sr - tr, dr - ei}, ui[4] = {si + ti, di - er, si - ti, di + er};
            for (int r = 0; r < 4; r++) {
                Y[p][r][q][0] = ur[r] * W[p][r][0] - ui[r] * W[p][r][1];
                Y[p][r][q][1] = ur[r] * W[p][r][1] + ui[r] * W[p][r][0];
            }
        }
)";

// A filter of 31 taps that keeps every fourth sample, in i16 with saturation.
Op fir_decimate(const Extents &e) {
    Axis c("c", e["C"]), t("t", e["T"] * 4 + 27), s("s", e["T"]), k("k", 31);
    Tensor X = input("X", i16, {c, t}), h = input("h", i16, {k});
    Tensor y = compute("y", {c, s}, sum(cast(i32, X(c, s * 4 + k)) * cast(i32, h(k)), k));
    return Op("fir_decimate", {X, h}, {compute("Y", {c, s}, cast(i16, clamp((y(c, s) + 16384) >> 15, -32768, 32767)))});
}
const char *fir_decimate_loop = R"(
    for (int c = 0; c < C; c++)
        for (int s = 0; s < T; s++) {
            int sum = 0;
            for (int k = 0; k < 31; k++) sum += X[c][4 * s + k] * h[k];
            Y[c][s] = int16_t(min(max((sum + 16384) >> 15, -32768), 32767));
        }
)";

// Each beam is a weighted sum of the microphones, each at a delay.
Op beamform(const Extents &e) {
    Axis b("b", e["B"]), m("m", e["M"]), t("t", e["T"]), s("s", e["T"] + 64);
    Tensor X = input("X", f32, {m, s}), delay = input("delay", i32, {b, m}), w = input("w", f32, {b, m});
    return Op("beamform", {X, delay, w}, {compute("Y", {b, t}, sum(w(b, m) * X(m, t + clamp(delay(b, m), 0, 63)), m))});
}
const char *beamform_loop = R"(
    for (int b = 0; b < B; b++) {
        for (int t = 0; t < T; t++) Y[b][t] = 0;
        for (int m = 0; m < M; m++) {
            const float *x = X[m] + delay[b][m], v = w[b][m];
            for (int t = 0; t < T; t++) Y[b][t] += v * x[t];
        }
    }
)";
// A block of the samples stays in L1 for all beams.
void beamform_hand(Schedule &s) {
    const int64_t v = lanes(s);
    s.stage("Y").split("t", 35 * v);
    s.stage("Y").split("t.i", 5 * v);
    s.stage("Y").reorder({"t.o", "t.i.o", "b", "m", "t.i.i"}).vectorize("t.i.i", v);
    s.stage("Y").unroll("t.i.i.o").unroll("m", 2).accumulate_in("registers", "b");
}

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
        {"fft_radix4", {{"P", 128}, {"Q", 60}}, fft_radix4, fft_radix4_loop},
        {"fir_decimate",
         {{"C", 8}, {"T", 1500}},
         fir_decimate,
         fir_decimate_loop,
         {},
         {{"X", {-32768, 32768}}, {"h", {-2000, 2000}}},
         {0, 0}},
        {"beamform", {{"B", 8}, {"M", 16}, {"T", 2000}}, beamform, beamform_loop, beamform_hand, {{"delay", {0, 64}}}},
    };
}

} // namespace kumiko::bench
