// Ops that no library schedule matches whole, for measuring their default schedules, as by
// `kumiko run build/release/tests/ops/libops_composed.so:product2 --shape M=300,K=300 --threads 1`.
#include "dsl/math.h"
#include "ops/export.h"

using namespace kumiko;

namespace {

Op iou(Expr M, Expr N) {
    Axis i("i", M), j("j", N), c("c", 4);
    Tensor A = input("A", f32, {j, c}), S = input("S", f32, {Axis("b", M), c});
    Expr w = max(min(A(j, 2), S(i, 2)) - max(A(j, 0), S(i, 0)), 0.f),
         h = max(min(A(j, 3), S(i, 3)) - max(A(j, 1), S(i, 1)), 0.f);
    Expr in = w * h, a = (A(j, 2) - A(j, 0)) * (A(j, 3) - A(j, 1)), b = (S(i, 2) - S(i, 0)) * (S(i, 3) - S(i, 1));
    return Op("iou", {A, S}, {compute("Y", {i, j}, in / (a + b - in))});
}

Op minmax(Expr N, Expr H, Expr W) {
    Axis n("n", N), y("y", H), x("x", W);
    Tensor X = input("X", f32, {n, y, x});
    return Op("minmax", {X},
              {compute("a", {n}, maximum(X(n, y, x), {y, x})), compute("b", {n}, minimum(X(n, y, x), {y, x}))});
}

Op maxarg(Expr N, Expr H, Expr W) {
    Axis n("n", N), y("y", H), x("x", W);
    Tensor X = input("X", f32, {n, y, x});
    return Op("maxarg", {X},
              {compute("a", {n}, maximum(X(n, y, x), {y, x})), compute("b", {n}, argmax(X(n, y, x), {y, x}))});
}

Op gray(Expr P) {
    Axis p("p", P), c("c", 3);
    Tensor X = input("X", f32, {p, c});
    return Op("gray", {X}, {compute("Y", {p}, X(p, 0) * 0.299f + X(p, 1) * 0.587f + X(p, 2) * 0.114f)});
}

Op moments(Expr N) {
    Axis n("n", N);
    Tensor X = input("X", f32, {n});
    return Op("moments", {X}, {compute("s", {}, sum(X(n), n)), compute("q", {}, sum(X(n) * X(n), n))});
}

Op cosine(Expr M, Expr N) {
    Axis i("i", M), k("k", N);
    Tensor A = input("A", f32, {i, k}), B = input("B", f32, {i, k});
    Tensor ab = compute("ab", {i}, sum(A(i, k) * B(i, k), k)), aa = compute("aa", {i}, sum(A(i, k) * A(i, k), k)),
           bb = compute("bb", {i}, sum(B(i, k) * B(i, k), k));
    return Op("cosine", {A, B}, {compute("Y", {i}, ab(i) / (sqrt(aa(i)) * sqrt(bb(i)))), compute("Z", {i}, aa(i))});
}

Op distances(Expr M, Expr N, Expr K) {
    Axis i("i", M), j("j", N), k("k", K);
    Tensor A = input("A", f32, {i, k}), B = input("B", f32, {j, k});
    return Op("distances", {A, B}, {compute("Y", {i, j}, sum((A(i, k) - B(j, k)) * (A(i, k) - B(j, k)), k))});
}

Op layernorm3(Expr M, Expr N) {
    Axis i("i", M), j("j", N);
    Tensor X = input("X", f32, {i, j});
    Tensor mean = compute("mean", {i}, sum(X(i, j), j) / cast(f32, N)), d = compute("d", {i, j}, X(i, j) - mean(i));
    Tensor var = compute("var", {i}, sum(d(i, j) * d(i, j), j) / cast(f32, N));
    return Op("layernorm3", {X}, {compute("Y", {i, j}, d(i, j) * rsqrt(var(i) + 1e-5f)), mean, var});
}

Op product2(Expr M, Expr K) {
    Axis i("i", M), j("j", M), k("k", K), l("l", M);
    Tensor S = input("S", f32, {i, k}), B = input("B", f32, {k, l}), C = input("C", f32, {l, j});
    Tensor T = compute("T", {i, l}, sum(S(i, k) * B(k, l), k));
    return Op("product2", {S, B, C}, {compute("Q", {i, j}, sum(T(i, l) * C(l, j), l))});
}

Op geglu(Expr M, Expr N, Expr K) {
    Axis i("i", M), j("j", N), k("k", K);
    Tensor X = input("X", f32, {i, k}), A = input("A", f32, {k, j}), B = input("B", f32, {k, j});
    Tensor a = compute("a", {i, j}, sum(X(i, k) * A(k, j), k)), b = compute("b", {i, j}, sum(X(i, k) * B(k, j), k));
    return Op("geglu", {X, A, B}, {compute("Y", {i, j}, a(i, j) / (1.f + exp(-a(i, j))) * b(i, j))});
}

Op dft(Expr N, Expr F) {
    Axis i("i", N), f("f", F), t("t", F);
    Tensor X = input("X", f32, {i, t}), C = input("C", f32, {t, f}), S = input("S", f32, {t, f});
    Tensor re = compute("re", {i, f}, sum(X(i, t) * C(t, f), t)), im = compute("im", {i, f}, sum(X(i, t) * S(t, f), t));
    return Op("dft", {X, C, S}, {compute("P", {i, f}, re(i, f) * re(i, f) + im(i, f) * im(i, f))});
}

Op conv1d(Expr N, Expr G, Expr O, Expr C, Expr L) {
    Axis n("n", N), g("g", G), o("o", O), c("c", C), l("l", L), t("t", L - 6), k("k", 4);
    Tensor X = input("X", f32, {n, g, c, l}), W = input("W", f32, {g, o, c, k});
    Tensor y = compute("y", {n, g, o, t}, sum(X(n, g, c, t + 2 * k) * W(g, o, c, k), {c, k}));
    return Op(
        "conv1d", {X, W},
        {compute("Y", {n, g, o, t}, max(y(n, g, o, t), 0.f)), compute("Z", {n, g, o, t}, min(y(n, g, o, t), 0.f))});
}

} // namespace

KUMIKO_EXPORT_OPS(KUMIKO_OP(product2, "a product of a product", M, K), KUMIKO_OP(geglu, "gated products", M, N, K),
                  KUMIKO_OP(dft, "power of a Fourier transform by products", N, F),
                  KUMIKO_OP(conv1d, "a grouped convolution with two outputs", N, G, O, C, L),
                  KUMIKO_OP(iou, "overlap of boxes", M, N), KUMIKO_OP(minmax, "minimum and maximum of images", N, H, W),
                  KUMIKO_OP(maxarg, "maximum of images and its place", N, H, W), KUMIKO_OP(gray, "RGB to gray", P),
                  KUMIKO_OP(moments, "sum and sum of squares", N), KUMIKO_OP(cosine, "cosine of rows", M, N),
                  KUMIKO_OP(distances, "squared distances of rows", M, N, K),
                  KUMIKO_OP(layernorm3, "layer norm with mean and variance as outputs", M, N))
