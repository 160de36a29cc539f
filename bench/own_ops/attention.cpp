// Attention in which the scores are a stage: with a bias, masked, with linear biases (ALiBi), of
// sequences of several lengths; and linear attention.
#include "bench/own_ops/own_ops.h"

#include "dsl/math.h"
#include "dsl/reduction.h"

#include <cmath>

namespace kumiko::bench {

namespace {

struct Heads {
    Axis h, i, j, d, o;
    Tensor Q, K, V;
    Element product; // of a query and a key, scaled

    explicit Heads(const Extents &e)
        : h("h", e["H"]), i("i", e["N"]), j("j", e["N"]), d("d", e["D"]), o("o", e["D"]), Q(input("Q", f32, {h, i, d})),
          K(input("K", f32, {h, j, d})), V(input("V", f32, {h, j, o})),
          product(sum(Q(h, i, d) * K(h, j, d), d) * (1.f / std::sqrt(static_cast<float>(e.value("D"))))) {}

    // Restricts the keys to those for which `near` holds.
    Op finish(const std::string &name, const Element &value, const Where &near,
              const std::vector<Tensor> &more = {}) const {
        Tensor score = compute("score", {h, i, j}, value);
        Tensor most = compute("most", {h, i}, maximum(score(h, i, j), j, near));
        Tensor p = compute("p", {h, i, j}, exp(score(h, i, j) - most(h, i)));
        Tensor total = compute("total", {h, i}, sum(p(h, i, j), j, near));
        Tensor mix = compute("mix", {h, i, o}, sum(p(h, i, j) * V(h, j, o), j, near));
        std::vector<Tensor> inputs = {Q, K, V};
        inputs.insert(inputs.end(), more.begin(), more.end());
        return Op(name, inputs, {compute("Y", {h, i, o}, mix(h, i, o) / total(h, i))});
    }
};

Op attention_bias(const Extents &e) {
    const Heads a(e);
    Tensor bias = input("bias", f32, {a.h, a.i, a.j});
    return a.finish("attention_bias", a.product + bias(a.h, a.i, a.j), where(a.j >= 0), {bias});
}

Op attention_causal(const Extents &e) {
    const Heads a(e);
    return a.finish("attention_causal", a.product, where(a.j <= a.i));
}

Op attention_window(const Extents &e) {
    const Heads a(e);
    return a.finish("attention_window", a.product, where(a.j <= a.i && a.i - a.j < e["R"]));
}

Op attention_alibi(const Extents &e) {
    const Heads a(e);
    Tensor slope = input("slope", f32, {a.h});
    return a.finish("attention_alibi", a.product - slope(a.h) * cast(f32, a.i - a.j), where(a.j <= a.i), {slope});
}

// A query reads the keys first to end − 1; `change` is added to each score.
std::string attention_loop(const std::string &first, const std::string &end, const std::string &change) {
    return "    const float scale = 1 / sqrt(float(D));\n"
           "    for (int h = 0; h < H; h++)\n"
           "        for (int i = 0; i < N; i++) {\n"
           "            float s[N], most = -INFINITY, total = 0, mix[D] = {};\n"
           "            const int first = " +
           first + ", end = " + end +
           ";\n"
           "            for (int j = first; j < end; j++) {\n"
           "                float sum = 0;\n"
           "                for (int d = 0; d < D; d++) sum += Q[h][i][d] * K[h][j][d];\n"
           "                s[j] = sum * scale" +
           change +
           ";\n"
           "                most = max(most, s[j]);\n"
           "            }\n"
           "            for (int j = first; j < end; j++) s[j] = exp(s[j] - most), total += s[j];\n"
           "            for (int j = first; j < end; j++)\n"
           "                for (int d = 0; d < D; d++) mix[d] += s[j] * V[h][j][d];\n"
           "            for (int d = 0; d < D; d++) Y[h][i][d] = mix[d] / total;\n"
           "        }\n";
}

// The scores and probabilities of one head stay in L2. Its keys are copied, so that a vector holds
// one dimension of several keys.
void attention_hand(Schedule &s) {
    const int64_t v = lanes(s);
    tile_in_registers(s.stage("mix"), "i", 6, "o", 2 * v, v, {"h", "o.o", "i.o"}, {"j"});
    s.stage("mix").unroll("j", 4).finish_in("Y");
    for (const char *name : {"total", "p", "most"}) s.stage(name).compute_at("mix", "h").vectorize("j", 4 * v);
    s.stage("score").compute_at("mix", "h");
    s.stage("score.sum").finish_in("score");
    tile_in_registers(s.stage("score.sum"), "i", 6, "j", 2 * v, v, {"h", "j.o", "i.o"}, {"d"});
    s.stage("score.sum").unroll("d", 4);
    s.place_in("K", "L2", "score.sum", "h");
    const std::string width = std::to_string(2 * v);
    s.stage("K.L2").compute_at("mix", "h").layout({"h", "j/" + width, "d", "j%" + width});
}

// G heads of queries share one head of keys. Each sequence has a length, and queries do not attend
// to keys beyond it.
Op gqa_length(const Extents &e) {
    Axis b("b", e["B"]), h("h", e["H"]), g("g", e["G"]), i("i", e["M"]), j("j", e["N"]), d("d", e["D"]), o("o", e["D"]);
    Tensor Q = input("Q", f32, {b, i, h, g, d}), K = input("K", f32, {b, j, h, d}), V = input("V", f32, {b, j, h, o}),
           len = input("len", i32, {b});
    Tensor score = compute("score", {b, h, g, i, j},
                           select(j < len(b), sum(Q(b, i, h, g, d) * K(b, j, h, d), d) * 0.125f, -1e30f));
    Tensor most = compute("most", {b, h, g, i}, maximum(score(b, h, g, i, j), j));
    Tensor p = compute("p", {b, h, g, i, j}, exp(score(b, h, g, i, j) - most(b, h, g, i)));
    Tensor total = compute("total", {b, h, g, i}, sum(p(b, h, g, i, j), j));
    Tensor mix = compute("mix", {b, h, g, i, o}, sum(p(b, h, g, i, j) * V(b, j, h, o), j));
    return Op("gqa_length", {Q, K, V, len}, {compute("Y", {b, i, h, g, o}, mix(b, h, g, i, o) / total(b, h, g, i))});
}
const char *gqa_length_loop = R"(
    for (int b = 0; b < B; b++)
        for (int h = 0; h < H; h++)
            for (int g = 0; g < G; g++)
                for (int i = 0; i < M; i++) {
                    float s[N], most = -INFINITY, total = 0, mix[D] = {};
                    const int n = len[b];
                    for (int j = 0; j < n; j++) {
                        float sum = 0;
                        for (int d = 0; d < D; d++) sum += Q[b][i][h][g][d] * K[b][j][h][d];
                        s[j] = sum * 0.125f;
                        most = max(most, s[j]);
                    }
                    for (int j = 0; j < n; j++) s[j] = exp(s[j] - most), total += s[j];
                    for (int j = 0; j < n; j++)
                        for (int d = 0; d < D; d++) mix[d] += s[j] * V[b][j][h][d];
                    for (int d = 0; d < D; d++) Y[b][i][h][g][d] = mix[d] / total;
                }
)";

// The feature map is elu(x) + 1. The keys and values of a head become one D×D matrix
// (A. Katharopoulos et al., "Transformers are RNNs", 2020).
Op linear_attention(const Extents &e) {
    Axis h("h", e["H"]), i("i", e["N"]), j("j", e["N"]), d("d", e["D"]), o("o", e["D"]);
    Tensor Q = input("Q", f32, {h, i, d}), K = input("K", f32, {h, j, d}), V = input("V", f32, {h, j, o});
    const auto phi = [](Element x) { return select(x > 0.f, x + 1.f, exp(x)); };
    Tensor q = compute("q", {h, i, d}, phi(Q(h, i, d))), k = compute("k", {h, j, d}, phi(K(h, j, d)));
    Tensor kv = compute("kv", {h, d, o}, sum(k(h, j, d) * V(h, j, o), j)), z = compute("z", {h, d}, sum(k(h, j, d), j));
    Tensor top = compute("top", {h, i, o}, sum(q(h, i, d) * kv(h, d, o), d)),
           bottom = compute("bottom", {h, i}, sum(q(h, i, d) * z(h, d), d));
    return Op("linear_attention", {Q, K, V}, {compute("Y", {h, i, o}, top(h, i, o) / bottom(h, i))});
}
const char *linear_attention_loop = R"(
    for (int h = 0; h < H; h++) {
        float kv[D][D] = {}, z[D] = {};
        for (int j = 0; j < N; j++) {
            float k[D];
            for (int d = 0; d < D; d++) {
                const float x = K[h][j][d];
                k[d] = x > 0 ? x + 1 : exp(x);
            }
            for (int d = 0; d < D; d++) {
                z[d] += k[d];
                for (int o = 0; o < D; o++) kv[d][o] += k[d] * V[h][j][o];
            }
        }
        for (int i = 0; i < N; i++) {
            float q[D], top[D] = {}, bottom = 0;
            for (int d = 0; d < D; d++) {
                const float x = Q[h][i][d];
                q[d] = x > 0 ? x + 1 : exp(x);
            }
            for (int d = 0; d < D; d++) bottom += q[d] * z[d];
            for (int d = 0; d < D; d++)
                for (int o = 0; o < D; o++) top[o] += q[d] * kv[d][o];
            const float r = 1 / bottom;
            for (int o = 0; o < D; o++) Y[h][i][o] = top[o] * r;
        }
    }
)";

} // namespace

std::vector<OwnOp> attention_ops() {
    return {
        {"attention_bias",
         {{"H", 4}, {"N", 128}, {"D", 64}},
         attention_bias,
         attention_loop("0", "N", " + bias[h][i][j]"),
         attention_hand},
        {"attention_causal",
         {{"H", 3}, {"N", 197}, {"D", 80}},
         attention_causal,
         attention_loop("0", "i + 1", ""),
         attention_hand},
        {"attention_window",
         {{"H", 2}, {"N", 200}, {"D", 64}, {"R", 48}},
         attention_window,
         attention_loop("max(0, i - R + 1)", "i + 1", ""),
         attention_hand},
        {"attention_alibi",
         {{"H", 4}, {"N", 100}, {"D", 32}},
         attention_alibi,
         attention_loop("0", "i + 1", " - slope[h] * (i - j)"),
         attention_hand},
        {"gqa_length",
         {{"B", 2}, {"H", 2}, {"G", 4}, {"M", 24}, {"N", 150}, {"D", 64}},
         gqa_length,
         gqa_length_loop,
         {},
         {{"len", {100, 151}}}},
        {"linear_attention", {{"H", 4}, {"N", 200}, {"D", 48}}, linear_attention, linear_attention_loop},
    };
}

} // namespace kumiko::bench
