// Embeddings of tokens and positions, with norms.
#include "bench/own_ops/own_ops.h"

#include "dsl/math.h"
#include "dsl/reduction.h"

namespace kumiko::bench {

namespace {

// RMS norm over the dimensions of a head, then a rotary embedding of its two halves, in bf16.
Op rope_rms(const Extents &e) {
    Axis t("t", e["T"]), h("h", e["H"]), d("d", e["D"]), half("half", e["D"] / 2);
    const Expr D = e["D"], F = e["D"] / 2;
    Tensor X = input("X", bf16, {t, h, d}), g = input("g", f32, {d}), C = input("C", f32, {t, half}),
           S = input("S", f32, {t, half});
    Tensor ms = compute("ms", {t, h}, sum(square(cast(f32, X(t, h, d))), d) / cast(f32, D));
    Tensor n = compute("n", {t, h, d}, cast(f32, X(t, h, d)) * rsqrt(ms(t, h) + 1e-6f) * g(d));
    return Op("rope_rms", {X, g, C, S},
              {compute("Y", {t, h, d},
                       cast(bf16, n(t, h, d) * C(t, d % F) +
                                      select(d < F, -n(t, h, (d + F) % D), n(t, h, (d + F) % D)) * S(t, d % F)))});
}
const char *rope_rms_loop = R"(
    for (int t = 0; t < T; t++)
        for (int h = 0; h < H; h++) {
            float n[D], sum = 0;
            for (int d = 0; d < D; d++) n[d] = from_bf16(X[t][h][d]), sum += n[d] * n[d];
            const float r = 1 / sqrt(sum / D + 1e-6f);
            for (int d = 0; d < D; d++) n[d] *= r * g[d];
            for (int d = 0; d < D / 2; d++) {
                Y[t][h][d] = to_bf16(n[d] * C[t][d] - n[d + D / 2] * S[t][d]);
                Y[t][h][d + D / 2] = to_bf16(n[d + D / 2] * C[t][d] + n[d] * S[t][d]);
            }
        }
)";
// Vectors lie within one half of a head, so that every index is affine.
void rope_rms_hand(Schedule &s) {
    const int64_t v = lanes(s);
    s.stage("Y").fuse("t", "h", "row").split("d", 48);
    s.stage("Y").split("d.i", v);
    s.stage("Y").unroll("d.o").unroll("d.i.o").vectorize("d.i.i");
    s.stage("n").compute_at("Y", "row").vectorize("d", 2 * v);
    s.stage("ms").compute_at("Y", "row");
    s.stage("ms.sum").compute_at("Y", "row").vectorize("d", 2 * v);
}

// The layer norm of the sum of the embeddings of word, position and segment, in f16.
Op bert_embedding(const Extents &e) {
    Axis b("b", e["B"]), t("t", e["T"]), d("d", e["D"]), v("v", e["V"]), s("s", 2);
    Tensor word = input("word", f16, {v, d}), pos = input("pos", f16, {t, d}), type = input("type", f16, {s, d}),
           id = input("id", i32, {b, t}), seg = input("seg", i32, {b, t}), g = input("g", f32, {d}),
           c = input("c", f32, {d});
    Tensor x = compute("x", {b, t, d},
                       cast(f32, word(clamp(id(b, t), 0, e["V"] - 1), d)) + cast(f32, pos(t, d)) +
                           cast(f32, type(clamp(seg(b, t), 0, 1), d)));
    Tensor mean = compute("mean", {b, t}, sum(x(b, t, d), d) / cast(f32, e["D"]));
    Tensor var = compute("var", {b, t}, sum(square(x(b, t, d) - mean(b, t)), d) / cast(f32, e["D"]));
    return Op("bert_embedding", {word, pos, type, id, seg, g, c},
              {compute("Y", {b, t, d}, cast(f16, (x(b, t, d) - mean(b, t)) * rsqrt(var(b, t) + 1e-5f) * g(d) + c(d)))});
}
const char *bert_embedding_loop = R"(
    for (int b = 0; b < B; b++)
        for (int t = 0; t < T; t++) {
            float x[D], mean = 0, var = 0;
            const auto *w = word[id[b][t]], *s = type[seg[b][t]];
            for (int d = 0; d < D; d++) x[d] = float(w[d]) + float(pos[t][d]) + float(s[d]), mean += x[d];
            mean /= D;
            for (int d = 0; d < D; d++) var += (x[d] - mean) * (x[d] - mean);
            const float r = 1 / sqrt(var / D + 1e-5f);
            for (int d = 0; d < D; d++) Y[b][t][d] = (x[d] - mean) * r * g[d] + c[d];
        }
)";

} // namespace

std::vector<OwnOp> embedding_ops() {
    return {
        {"rope_rms", {{"T", 100}, {"H", 8}, {"D", 96}}, rope_rms, rope_rms_loop, rope_rms_hand, {}, {1e-2, 1e-2}},
        {"bert_embedding",
         {{"B", 4}, {"T", 60}, {"D", 192}, {"V", 1000}},
         bert_embedding,
         bert_embedding_loop,
         {},
         {{"id", {0, 1000}}, {"seg", {0, 2}}},
         {2e-3, 2e-3}},
    };
}

} // namespace kumiko::bench
