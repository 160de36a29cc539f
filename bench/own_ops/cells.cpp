// One step of recurrent networks.
#include "bench/own_ops/own_ops.h"

#include "dsl/math.h"
#include "dsl/reduction.h"

namespace kumiko::bench {

namespace {

Op gru_cell(const Extents &e) {
    Axis b("b", e["B"]), i("i", e["I"]), h("h", e["H"]), j("j", e["H"]);
    Tensor X = input("X", f32, {b, i}), S = input("S", f32, {b, h});
    Tensor Wz = input("Wz", f32, {i, j}), Wr = input("Wr", f32, {i, j}), Wn = input("Wn", f32, {i, j}),
           Uz = input("Uz", f32, {h, j}), Ur = input("Ur", f32, {h, j}), Un = input("Un", f32, {h, j});
    const auto gate = [&](const char *name, const Tensor &x, const Axis &k, const Tensor &w) {
        return compute(name, {b, j}, sum(x(b, k) * w(k, j), k));
    };
    Tensor xz = gate("xz", X, i, Wz), xr = gate("xr", X, i, Wr), xn = gate("xn", X, i, Wn), hz = gate("hz", S, h, Uz),
           hr = gate("hr", S, h, Ur), hn = gate("hn", S, h, Un);
    const Element z = 1.f / (1.f + exp(-(xz(b, j) + hz(b, j)))), r = 1.f / (1.f + exp(-(xr(b, j) + hr(b, j)))),
                  n = tanh(xn(b, j) + r * hn(b, j));
    return Op("gru_cell", {X, S, Wz, Wr, Wn, Uz, Ur, Un}, {compute("Y", {b, j}, (1.f - z) * n + z * S(b, j))});
}
const char *gru_cell_loop = R"(
    for (int b = 0; b < B; b++) {
        float z[H] = {}, r[H] = {}, x[H] = {}, s[H] = {};
        for (int i = 0; i < I; i++)
            for (int j = 0; j < H; j++)
                z[j] += X[b][i] * Wz[i][j], r[j] += X[b][i] * Wr[i][j], x[j] += X[b][i] * Wn[i][j];
        for (int i = 0; i < H; i++)
            for (int j = 0; j < H; j++)
                z[j] += S[b][i] * Uz[i][j], r[j] += S[b][i] * Ur[i][j], s[j] += S[b][i] * Un[i][j];
        for (int j = 0; j < H; j++) {
            const float u = 1 / (1 + exp(-z[j])), n = tanh(x[j] + s[j] / (1 + exp(-r[j])));
            Y[b][j] = (1 - u) * n + u * S[b][j];
        }
    }
)";
void gru_cell_hand(Schedule &s) {
    const int64_t v = lanes(s);
    for (const char *name : {"xz", "xr", "xn"})
        tile_in_registers(s.stage(name), "b", 4, "j", 3 * v, v, {"j.o", "b.o"}, {"i"});
    for (const char *name : {"hz", "hr", "hn"})
        tile_in_registers(s.stage(name), "b", 4, "j", 3 * v, v, {"j.o", "b.o"}, {"h"});
    s.stage("Y").vectorize("j", v);
}

// Input, forget, output gate and the new value are the four rows of W and U.
Op lstm_cell(const Extents &e) {
    Axis b("b", e["B"]), i("i", e["I"]), h("h", e["H"]), q("q", 4), j("j", e["H"]);
    Tensor X = input("X", f32, {b, i}), S = input("S", f32, {b, h}), C = input("C", f32, {b, h}),
           W = input("W", f32, {i, q, j}), U = input("U", f32, {h, q, j}), bias = input("bias", f32, {q, j});
    Tensor x = compute("x", {b, q, j}, sum(X(b, i) * W(i, q, j), i)),
           s = compute("s", {b, q, j}, sum(S(b, h) * U(h, q, j), h));
    Tensor g = compute("g", {b, q, j}, x(b, q, j) + s(b, q, j) + bias(q, j));
    const auto gate = [&](int k) { return 1.f / (1.f + exp(-g(b, k, j))); };
    Tensor c = compute("c", {b, j}, gate(1) * C(b, j) + gate(0) * tanh(g(b, 3, j)));
    return Op("lstm_cell", {X, S, C, W, U, bias}, {compute("Y", {b, j}, gate(2) * tanh(c(b, j))), c});
}
const char *lstm_cell_loop = R"(
    for (int b = 0; b < B; b++) {
        float g[4 * H];
        for (int j = 0; j < 4 * H; j++) g[j] = bias[0][j];
        for (int i = 0; i < I; i++)
            for (int j = 0; j < 4 * H; j++) g[j] += X[b][i] * W[i][0][j];
        for (int h = 0; h < H; h++)
            for (int j = 0; j < 4 * H; j++) g[j] += S[b][h] * U[h][0][j];
        for (int j = 0; j < H; j++) {
            c[b][j] = C[b][j] / (1 + exp(-g[H + j])) + tanh(g[3 * H + j]) / (1 + exp(-g[j]));
            Y[b][j] = tanh(c[b][j]) / (1 + exp(-g[2 * H + j]));
        }
    }
)";

} // namespace

std::vector<OwnOp> cell_ops() {
    return {
        {"gru_cell", {{"B", 16}, {"I", 96}, {"H", 100}}, gru_cell, gru_cell_loop, gru_cell_hand},
        {"lstm_cell", {{"B", 16}, {"I", 64}, {"H", 128}}, lstm_cell, lstm_cell_loop},
    };
}

} // namespace kumiko::bench
