#include "bench/tune_tasks.h"

#include "dsl/reduction.h"
#include "dsl/tensor.h"
#include "ops/registry.h"
#include "support/error.h"

#include <algorithm>

namespace kumiko::bench {

namespace {

TuneCase named(const std::string &name, const std::string &op, const Json &parameters) {
    return {name, ops::make(op, parameters)};
}

// Three ops that no template of the library matches.

// D(i, j) = sum over k: (X(i, k) - Y(j, k))²
Op squared_distances(int m, int n, int d) {
    Axis i("i", m), j("j", n), k("k", d);
    Tensor X = input("X", Float(32), {i, k}), Y = input("Y", Float(32), {j, k});
    Expr difference = X(i, k) - Y(j, k);
    return Op("squared_distances", {X, Y}, {compute("D", {i, j}, sum(difference * difference, k))});
}

// G(i, j) = (sum over k: X(i, k) U(k, j)) × sigmoid(sum over k: X(i, k) V(k, j))
Op gated_product(int m, int n, int d) {
    Axis i("i", m), j("j", n), k("k", d);
    Tensor X = input("X", Float(32), {i, k}), U = input("U", Float(32), {k, j}), V = input("V", Float(32), {k, j});
    Tensor A = compute("A", {i, j}, sum(X(i, k) * U(k, j), k)), B = compute("B", {i, j}, sum(X(i, k) * V(k, j), k));
    return Op("gated_product", {X, U, V}, {compute("G", {i, j}, A(i, j) / (1.f + exp(-B(i, j))))});
}

// Correlates each channel of one tensor with shifts of the other: R(c, s, w) = sum over h: X(c, h,
// w) Y(c, h, w + s)
Op correlation(int channels, int height, int width, int shifts) {
    Axis c("c", channels), h("h", height), w("w", width), s("s", shifts), v("v", width + shifts - 1);
    Tensor X = input("X", Float(32), {c, h, w}), Y = input("Y", Float(32), {c, h, v});
    return Op("correlation", {X, Y}, {compute("R", {c, s, w}, sum(X(c, h, w) * Y(c, h, w + s), h))});
}

} // namespace

std::vector<TuneCase> tune_cases() {
    const auto conv = [](int c, int side, int o, int kernel, int stride) {
        return Json{{"c", c},       {"h", side},    {"w", side},        {"o", o},
                    {"kh", kernel}, {"kw", kernel}, {"stride", stride}, {"padding", kernel / 2}};
    };
    std::vector<TuneCase> all = {
        named("matmul 512x512x512", "matmul", {{"m", 512}, {"n", 512}, {"k", 512}}),
        named("matmul 128x768x768", "matmul", {{"m", 128}, {"n", 768}, {"k", 768}}),
        named("matmul 784x128x512", "matmul", {{"m", 784}, {"n", 128}, {"k", 512}}),
        named("matmul 100x300x200 B transposed", "matmul", {{"m", 100}, {"n", 300}, {"k", 200}, {"transpose_b", true}}),
        named("matmul u8*s8 384x384x384", "matmul",
              {{"m", 384}, {"n", 384}, {"k", 384}, {"type", "u8"}, {"b_type", "i8"}}),
        named("conv 64-64 3x3 @56", "conv2d", conv(64, 56, 64, 3, 1)),
        named("conv 128-128 3x3/2 @28", "conv2d", conv(128, 28, 128, 3, 2)),
        named("conv 256-64 1x1 @28", "conv2d", conv(256, 28, 64, 1, 1)),
        named("conv 3-32 7x7/2 @96", "conv2d", conv(3, 96, 32, 7, 2)),
        named("depthwise 144 3x3 @56", "depthwise_conv2d", {{"c", 144}, {"h", 56}, {"w", 56}, {"padding", 1}}),
        named("depthwise 192 3x3/2 @28", "depthwise_conv2d",
              {{"c", 192}, {"h", 28}, {"w", 28}, {"padding", 1}, {"stride", 2}}),
        named("softmax 1536x128", "softmax", {{"m", 1536}, {"n", 128}}),
        named("softmax 128x2048", "softmax", {{"m", 128}, {"n", 2048}}),
        named("layer norm 512x768", "layer_norm", {{"m", 512}, {"n", 768}}),
        named("attention 12 heads 256x64", "attention", {{"heads", 12}, {"s", 256}, {"t", 256}, {"d", 64}}),
        named("matmul 128x768x384, bias, gelu, residual", "matmul",
              {{"m", 128}, {"n", 768}, {"k", 384}, {"bias", true}, {"activation", "gelu"}, {"residual", true}}),
    };
    Json pooled = conv(32, 32, 64, 3, 1);
    pooled.update({{"bias", true}, {"activation", "relu"}, {"pool", "max"}});
    all.push_back(named("conv 32-64 3x3 @32, bias, relu, pool", "conv2d", pooled));
    all.push_back({"squared distances 256x256x64", squared_distances(256, 256, 64)});
    all.push_back({"gated product 128x512x256", gated_product(128, 512, 256)});
    all.push_back({"correlation 32x32x128, 9 shifts", correlation(32, 32, 128, 9)});
    return all;
}

void require_task(const std::vector<TuneCase> &cases, const std::string &text) {
    const auto named = [&](const TuneCase &c) { return c.name.find(text) != std::string::npos; };
    if (std::any_of(cases.begin(), cases.end(), named)) return;
    std::string names;
    for (const TuneCase &c : cases) names += "\n  " + c.name;
    throw UserError("no task of the suite has \"" + text + "\" in its name; there are:" + names);
}

std::vector<TuneCase> chip_tune_cases() {
    const auto product = [](int m, int n, int k) {
        return Json{{"m", m}, {"n", n}, {"k", k}, {"type", "f16"}, {"output", "f32"}, {"transpose_b", true}};
    };
    return {
        named("matmul f16 512x512x512", "matmul", product(512, 512, 512)),
        named("matmul f16 256x1024x256", "matmul", product(256, 1024, 256)),
        named("conv f16 64-64 3x3 @28", "conv2d",
              {{"c", 64}, {"h", 28}, {"w", 28}, {"o", 64}, {"padding", 1}, {"type", "f16"}, {"output", "f32"}}),
        named("depthwise f32 64 3x3 @28", "depthwise_conv2d", {{"c", 64}, {"h", 28}, {"w", 28}, {"padding", 1}}),
        named("softmax f32 512x512", "softmax", {{"m", 512}, {"n", 512}}),
        named("sum of rows f32 256x1024", "reduce", {{"shape", {256, 1024}}, {"axes", {1}}}),
        // The library has no schedule for it.
        {"gated product f32 32x256x64", gated_product(32, 256, 64)},
    };
}

} // namespace kumiko::bench
