// The kernel of the first story: written as its formula, printed, and evaluated.
// Links: ops
#include "dsl/interpret.h"
#include "ops/ops.h"
#include "ops/registry.h"

#include <doctest/doctest.h>

#include <cmath>
#include <sstream>

using namespace kumiko;

namespace {

Op group_norm_silu(Expr N, Expr G, Expr C, Expr H, Expr W) { // C channels in each of G groups
    Axis n("n", N), g("g", G), c("c", C), y("y", H), x("x", W);
    Tensor X = input("X", f32, {n, g, c, y, x}), scale = input("scale", f32, {g, c});
    Tensor mean = compute("mean", {n, g}, sum(X(n, g, c, y, x), {c, y, x}) / cast<float>(C * H * W));
    Tensor var = compute("var", {n, g}, sum(square(X(n, g, c, y, x) - mean(n, g)), {c, y, x}) / cast<float>(C * H * W));
    Expr z = (X(n, g, c, y, x) - mean(n, g)) * rsqrt(var(n, g) + 1e-5f) * scale(g, c);
    Tensor Y = compute("Y", {n, g, c, y, x}, z / (1.f + exp(-z)));
    return Op("group_norm_silu", {X, scale}, {Y});
}

} // namespace

TEST_CASE("group normalisation with silu") {
    Op op = group_norm_silu(2, 8, 4, 16, 16);
    std::ostringstream text;
    text << op;
    CHECK(text.str() ==
          "group_norm_silu(X, scale) -> Y\n"
          "  X: f32[n: 2, g: 8, c: 4, y: 16, x: 16]\n"
          "  scale: f32[g: 8, c: 4]\n"
          "  mean.sum: f32[n: 2, g: 8]\n"
          "    mean.sum(n, g) = sum over c, y, x: X(n, g, c, y, x)\n"
          "  mean: f32[n: 2, g: 8]\n"
          "    mean(n, g) = mean.sum(n, g) / f32(4 * 16 * 16)\n"
          "  var.sum: f32[n: 2, g: 8]\n"
          "    var.sum(n, g) = sum over c, y, x: (X(n, g, c, y, x) - mean(n, g)) * (X(n, g, c, y, x) - mean(n, g))\n"
          "  var: f32[n: 2, g: 8]\n"
          "    var(n, g) = var.sum(n, g) / f32(4 * 16 * 16)\n"
          "  Y: f32[n: 2, g: 8, c: 4, y: 16, x: 16]\n"
          "    Y(n, g, c, y, x) = t1 / (1.0 + exp(-t1))\n"
          "      where t1 = (X(n, g, c, y, x) - mean(n, g)) * rsqrt(var(n, g) + 1e-05) * scale(g, c)\n");
    Buffer<float> x = random({2, 8, 4, 16, 16}), s = random({8, 4}), y({2, 8, 4, 16, 16});
    interpret(op, x, s, y);
    check_close(y, interpret(op, x, s));
    double mean = 0, var = 0;
    for (int l = 0; l < 1024; l++) mean += static_cast<double>(x.data()[1024 + l]) / 1024;
    for (int l = 0; l < 1024; l++) var += std::pow(static_cast<double>(x.data()[1024 + l]) - mean, 2) / 1024;
    const double z =
        (static_cast<double>(x(0, 1, 2, 3, 4)) - mean) / std::sqrt(var + 1e-5) * static_cast<double>(s(1, 2));
    CHECK(static_cast<double>(y(0, 1, 2, 3, 4)) == doctest::Approx(z / (1 + std::exp(-z))).epsilon(1e-5));
    Size H("H"), W("W");
    check_close(interpret(group_norm_silu(2, 8, 4, H, W), x, s), y, {.relative = 0, .absolute = 0});
    CHECK(ops::make("softmax", {{"m", 4}, {"n", 8}}).to_string() == "softmax(X) -> Y\n"
                                                                    "  X: f32[i: 4, j: 8]\n"
                                                                    "  max: f32[i: 4]\n"
                                                                    "    max(i) = maximum over k < 8: X(i, k)\n"
                                                                    "  e: f32[i: 4, j: 8]\n"
                                                                    "    e(i, j) = exp(X(i, j) - max(i))\n"
                                                                    "  sum: f32[i: 4]\n"
                                                                    "    sum(i) = sum over k < 8: e(i, k)\n"
                                                                    "  share: f32[i: 4]\n"
                                                                    "    share(i) = 1.0 / sum(i)\n"
                                                                    "  Y: f32[i: 4, j: 8]\n"
                                                                    "    Y(i, j) = e(i, j) * share(i)\n");
}
