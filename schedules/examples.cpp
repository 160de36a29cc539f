#include "schedules/examples.h"

#include "dsl/scatter.h"
#include "support/error.h"
#include "support/names.h"

namespace kumiko {

namespace {

Op matmul(const std::string &name, const Expr &M, int N, int K, Type in, Type out) {
    Axis i("i", M), j("j", N), k("k", K);
    Tensor A = input("A", in, {i, k}), B = input("B", in, {k, j});
    const Expr product = in == out ? Expr(A(i, k) * B(k, j)) : cast(out, A(i, k)) * cast(out, B(k, j));
    Tensor C = compute("C", {i, j}, sum(product, k));
    return Op(name, {A, B}, {C});
}

Op conv(const std::string &name, Type in, Type out) {
    Axis o("o", 16), y("y", 32), x("x", 32), c("c", 8), ky("ky", 3), kx("kx", 3);
    Tensor X = input("X", in, {c, y, x}), W = input("W", in, {o, c, ky, kx});
    Tensor P = zero_padded(X, {y, x});
    const Expr pixel = P(c, y + ky - 1, x + kx - 1), weight = W(o, c, ky, kx);
    const Expr product = in == out ? pixel * weight : cast(out, pixel) * cast(out, weight);
    Tensor Y = compute("Y", {o, y, x}, sum(product, {c, ky, kx}));
    return Op(name, {X, W}, {Y});
}

// Quantised bytes with zero points 118 and -7.
Op matmul_zero_points() {
    Axis i("i", 64), j("j", 64), k("k", 128);
    Tensor A = input("A", u8, {i, k}), B = input("B", i8, {k, j});
    const Expr term = (cast(i32, A(i, k)) - 118) * (cast(i32, B(k, j)) + 7);
    return Op("matmul_zero_points", {A, B}, {compute("C", {i, j}, sum(term, k))});
}

Op softmax() {
    Axis i("i", 64), j("j", 128);
    Tensor X = input("X", f32, {i, j});
    Tensor most = compute("max", {i}, maximum(X(i, j), j));
    Tensor e = compute("e", {i, j}, exp(X(i, j) - most(i)));
    Tensor total = compute("total", {i}, sum(e(i, j), j));
    Tensor Y = compute("Y", {i, j}, e(i, j) / total(i));
    return Op("softmax", {X}, {Y});
}

Op dense() {
    Axis i("i", 64), j("j", 64), k("k", 128);
    Tensor X = input("X", f32, {i, k}), W = input("W", f32, {k, j}), bias = input("bias", f32, {j});
    Tensor Y = compute("Y", {i, j}, max(sum(X(i, k) * W(k, j), k) + bias(j), 0.f));
    return Op("dense", {X, W, bias}, {Y});
}

Op add() {
    Axis i("i", 64), j("j", 100);
    Tensor A = input("A", f32, {i, j}), B = input("B", f32, {i, j});
    Tensor C = compute("C", {i, j}, A(i, j) + B(i, j));
    return Op("add", {A, B}, {C});
}

Op rowsum() {
    Axis i("i", 64), j("j", 1000);
    Tensor X = input("X", f32, {i, j});
    Tensor S = compute("S", {i}, sum(X(i, j), j));
    return Op("rowsum", {X}, {S});
}

Op extremes() {
    Axis i("i", 64), j("j", 1000);
    Tensor X = input("X", f32, {i, j});
    Tensor low = compute("low", {i}, minimum(X(i, j), j)), high = compute("high", {i}, maximum(X(i, j), j));
    return Op("extremes", {X}, {low, high});
}

Op chain() {
    Axis i("i", 64), j("j", 128);
    Tensor X = input("X", f32, {i, j});
    Tensor T = compute("T", {i, j}, X(i, j) * X(i, j) + 1.f);
    Tensor Y = compute("Y", {i, j}, sqrt(T(i, j)));
    return Op("chain", {X}, {Y});
}

// The brightness of pixels, corrected.
Op gamma() {
    Axis y("y", 64), x("x", 100);
    Tensor X = input("X", u8, {y, x});
    const Expr light = cast(f32, X(y, x)) / 255.f;
    return Op("gamma", {X}, {compute("Y", {y, x}, cast(u8, sqrt(light) * 255.f + 0.5f))});
}

Op embedding_gradient() {
    Axis n("n", 200), v("v", 64), d("d", 32);
    Tensor ids = input("ids", i32, {n}), G = input("G", f32, {n, d});
    Tensor dW = compute("dW", {v, d}, scatter(sum, G(n, d), v, ids(n), n));
    return Op("embedding_gradient", {ids, G}, {dW});
}

struct Row {
    const char *name;
    Op (*make)();
};
const Row rows[] = {
    {"matmul", [] { return matmul("matmul", 128, 128, 256, f32, f32); }},
    {"matmul_any", [] { return matmul("matmul_any", Size("M"), 128, 256, f32, f32); }},
    {"matmul_i16", [] { return matmul("matmul_i16", 64, 64, 128, i16, i32); }},
    {"matmul_zero_points", matmul_zero_points},
    {"conv", [] { return conv("conv", f32, f32); }},
    {"conv_i8", [] { return conv("conv_i8", i8, i32); }},
    {"softmax", softmax},
    {"dense", dense},
    {"add", add},
    {"rowsum", rowsum},
    {"extremes", extremes},
    {"chain", chain},
    {"gamma", gamma},
    {"embedding_gradient", embedding_gradient},
};

} // namespace

Op example_op(const std::string &name) {
    for (const Row &r : rows) {
        if (name == r.name) return r.make();
    }
    throw UserError("there is no example \"" + name + "\"" + suggest(name, example_op_names()));
}

std::vector<std::string> example_op_names() {
    std::vector<std::string> names;
    for (const Row &r : rows) names.push_back(r.name);
    return names;
}

} // namespace kumiko
