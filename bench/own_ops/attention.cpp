// Attention in which the scores are a stage: with a bias, masked, and with linear biases (ALiBi).
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

    // Of the keys that `near` holds for.
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
    };
}

} // namespace kumiko::bench
