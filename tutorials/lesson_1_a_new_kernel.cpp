// Lesson 1: write a new kernel, run it, trust it.
//
// A formula is written once, with axes and tensors. compile() chooses a good schedule for it, and
// interpret() defines the formula's result, so that the kernel can be checked against it.
#include "driver/kumiko.h"

#include <iostream>

using namespace kumiko;

// Group normalisation followed by silu: C channels in each of G groups.
Op group_norm_silu(Expr N, Expr G, Expr C, Expr H, Expr W) {
    Axis n("n", N), g("g", G), c("c", C), y("y", H), x("x", W);
    Tensor X = input("X", f32, {n, g, c, y, x}), scale = input("scale", f32, {g, c});
    Tensor mean = compute("mean", {n, g}, sum(X(n, g, c, y, x), {c, y, x}) / cast<float>(C * H * W));
    Tensor var = compute("var", {n, g}, sum(square(X(n, g, c, y, x) - mean(n, g)), {c, y, x}) / cast<float>(C * H * W));
    Expr z = (X(n, g, c, y, x) - mean(n, g)) * rsqrt(var(n, g) + 1e-5f) * scale(g, c);
    Tensor Y = compute("Y", {n, g, c, y, x}, z / (1.f + exp(-z)));
    return Op("group_norm_silu", {X, scale}, {Y});
}

int main() {
    Op op = group_norm_silu(2, 8, 4, 32, 32);
    std::cout << op; // the formula, readable

    Buffer<float> x = random({2, 8, 4, 32, 32}), s = random({8, 4}), y({2, 8, 4, 32, 32});
    Kernel k = compile(op, Target::host()); // a good default schedule, no directive needed
    k(x, s, y);

    check_close(y, interpret(op, x, s)); // throws, with the first difference, when they differ
    std::cout << "the kernel computes what the formula means\n";
}
