// A shared object with ops, as written by a user of the command; tests load it.
#include "ops/export.h"

#include <stdexcept>

using namespace kumiko;

namespace {

Op group_norm_silu(Expr N, Expr G, Expr C, Expr H, Expr W) {
    Axis n("n", N), g("g", G), c("c", C), y("y", H), x("x", W);
    Tensor X = input("X", f32, {n, g, c, y, x}), scale = input("scale", f32, {g, c});
    Tensor mean = compute("mean", {n, g}, sum(X(n, g, c, y, x), {c, y, x}) / cast<float>(C * H * W));
    Tensor var = compute("var", {n, g}, sum(square(X(n, g, c, y, x) - mean(n, g)), {c, y, x}) / cast<float>(C * H * W));
    Expr z = (X(n, g, c, y, x) - mean(n, g)) * rsqrt(var(n, g) + 1e-5f) * scale(g, c);
    return Op("group_norm_silu", {X, scale}, {compute("Y", {n, g, c, y, x}, z / (1.f + exp(-z)))});
}

// The declaration order of the sizes differs from the order of their first use.
Op layer(Expr M, Expr N, Expr K) {
    Axis i("i", M), j("j", N), k("k", K);
    Tensor A = input("A", f32, {i, k}), B = input("B", f32, {k, j}), bias = input("bias", f32, {j});
    return Op("layer", {A, B, bias}, {compute("C", {i, j}, relu(sum(A(i, k) * B(k, j), k) + bias(j)))});
}

// A parameter of each kind.
Op scaled(const Expr &n, Type type, double factor, bool shift, int by) {
    Axis i("i", n);
    Tensor X = input("X", type, {i});
    Expr value = X(i) * Halide::cast(type, Expr(static_cast<float>(factor)));
    if (shift) value = value + Halide::cast(type, Expr(by));
    return Op("scaled", {X}, {compute("Y", {i}, value)});
}

// A size that no extent determines.
Op shifted(const Expr &n, const Expr &by) {
    Axis i("i", n);
    Tensor X = input("X", i64, {i});
    return Op("shifted", {X}, {compute("Y", {i}, X(i) + cast(i64, by))});
}

Op broken(Expr n) { throw std::runtime_error("the author is to blame"); }

} // namespace

KUMIKO_EXPORT_OPS(KUMIKO_OP(group_norm_silu, "group normalisation, then silu", N, G, C, H, W),
                  KUMIKO_OP(scaled, "a factor and a shift", n, type, factor, shift, by), KUMIKO_OP(broken, "throws", n),
                  KUMIKO_OP(layer, "relu(A * B + bias)", M, N, K), KUMIKO_OP(shifted, "X + by", n, by))
