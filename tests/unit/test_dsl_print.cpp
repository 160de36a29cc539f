// The printed form of formulas, and the hash that depends on it.
#include "dsl/padding.h"
#include "dsl/print.h"
#include "dsl/top_k.h"

#include <doctest/doctest.h>

using namespace kumiko;

namespace {

Op matmul(Type t, const Expr &M, const Expr &N, const Expr &K) {
    Axis i("i", M), j("j", N), k("k", K);
    Tensor A = input("A", t, {i, k});
    Tensor B = input("B", t, {k, j});
    Tensor C = compute("C", {i, j}, sum(A(i, k) * B(k, j), k));
    return Op("matmul", {A, B}, {C});
}

} // namespace

TEST_CASE("matmul prints as its formula") {
    CHECK(matmul(f32, 512, 128, 256).to_string() == "matmul(A, B) -> C\n"
                                                    "  A: f32[i: 512, k: 256]\n"
                                                    "  B: f32[k: 256, j: 128]\n"
                                                    "  C: f32[i: 512, j: 128]\n"
                                                    "    C(i, j) = sum over k: A(i, k) * B(k, j)\n");
}

TEST_CASE("strides, sizes and reduction extents are printed") {
    Size M("M"), lda("lda");
    Axis i("i", M), x("x", 10), kx("kx", 3);
    Tensor A = input("A", f32, {i, x}, {.strides = {lda, 1}});
    Tensor P = zero_padded(A, {x});
    Tensor C = compute("C", {i, x}, sum(P(i, x + kx - 1), kx));
    CHECK(Op("blur", {A}, {C}).to_string() == "blur(A) -> C\n"
                                              "  A: f32[i: M, x: 10], strides [lda, 1]\n"
                                              "  A.padded: f32[i: M, x: 10]\n"
                                              "    A.padded(i, x) = if 0 <= x < 10 then A(i, x) else 0.0\n"
                                              "  C: f32[i: M, x: 10]\n"
                                              "    C(i, x) = sum over kx < 3: A.padded(i, x + kx - 1)\n");
}

TEST_CASE("paddings of one tensor that differ have names of their own") {
    Axis i("i", 4), x("x", 10);
    Tensor A = input("A", f32, {i, x});
    const auto names = [&](const Expr &value) {
        const Op op("op", {A}, {compute("C", {i, x}, value)});
        std::string all;
        for (const Stage &s : op.stages()) all += s.name + " ";
        return all;
    };
    Tensor rows = zero_padded(A, {x}), both = zero_padded(A), ones = constant_padded(A, 1.f);
    CHECK(names(rows(i, x - 1) + zero_padded(A, {x})(i, x + 1)) == "A.padded C ");
    CHECK(names(rows(i, x - 1) + both(i - 1, x) + ones(i, x + 1) + both(i, x)) == "A.padded A.padded1 A.padded2 C ");
    CHECK(names(clamped(A)(i - 1, x) + clamped(A, {x})(i, x - 1)) == "A.clamped A.clamped1 C ");
    // Each of them may be padded again.
    CHECK(names(clamped(rows, {i})(i - 1, x) + clamped(both, {i})(i + 1, x)) ==
          "A.padded A.padded.clamped A.padded1 A.padded.clamped1 C ");
}

TEST_CASE("expressions have the fewest parentheses") {
    Axis i("i", 4);
    Expr a = Halide::Internal::Variable::make(f32, "a"), b = Halide::Internal::Variable::make(f32, "b");
    CHECK(to_string(a + b * a) == "a + b * a");
    CHECK(to_string((a + b) * a) == "(a + b) * a");
    CHECK(to_string(a - (b - a)) == "a - (b - a)");
    CHECK(to_string(a - b - a) == "a - b - a");
    CHECK(to_string(a / (b * a)) == "a / (b * a)");
    CHECK(to_string(-a) == "-a");
    CHECK(to_string(cast<float>(i) * 0.1f) == "f32(i) * 0.1");
    CHECK(to_string(exp(a) + 1.f) == "exp(a) + 1.0");
    CHECK(to_string(select(a > b && i > 2, a, b)) == "select(a > b && i > 2, a, b)");
    CHECK(to_string(a * 1e-5f) == "a * 1e-05");
    CHECK(to_string(cast<int8_t>(i) & cast<int8_t>(7)) == "i8(i) & 7");
}

TEST_CASE("reductions print as they were written before an op has them") {
    Axis i("i", 4), k("k", 8), l("l", 3);
    Tensor X = input("X", f32, {i, k}), Y = input("Y", f32, {k, l});
    CHECK(to_string(sum(X(i, k), k) + 1.f) == "sum(X(i, k), k) + 1.0");
    CHECK(to_string(maximum(Y(k, l), {k, l})) == "maximum(Y(k, l), {k, l})");
    CHECK(to_string(sum(X(i, k), k, where(k <= i))) == "sum(X(i, k), k, where(k <= i))");
    CHECK(to_string(argmax(X(i, k), k)) == "argmax(X(i, k), k)");
    CHECK(to_string(argmax(X(i, k), k).value) == "argmax(X(i, k), k).value");
    CHECK(to_string(top_k(X(i, k) * 2.f, k, 3)[0]) == "top_k(X(i, k) * 2.0, k, 3)[0]");
    CHECK(to_string(top_k(X(i, k), k, 3)[5] + 1) == "top_k(X(i, k), k, 3)[5] + 1");
    const Tuple both = reduce(
        [](const Values &a, const Values &b) -> Values {
            return {a[0] + b[0], a[1] * b[1]};
        },
        {0.f, 1.f}, {X(i, k), X(i, k)}, k);
    CHECK(to_string(both[1]) == "reduce({X(i, k), X(i, k)}, k)[1]");
}

TEST_CASE("large shared parts are named once") {
    Axis i("i", 4);
    Expr x = cast<float>(i);
    for (int n = 0; n < 40; n++) x = x * x + 1.f;
    CHECK(to_string(x).size() < 3000);
}

TEST_CASE("the hash depends on the formula only") {
    const std::string h = matmul(f32, 512, 128, 256).hash();
    CHECK(h.size() == 32);
    CHECK(h == matmul(f32, 512, 128, 256).hash());
    CHECK(h != matmul(f32, 512, 128, 255).hash());
    CHECK(h != matmul(f64, 512, 128, 256).hash());
    CHECK(h != matmul(f32, Size("M"), 128, 256).hash());
    CHECK(h == "1886fb707a2617e587a2fa297017f8be"); // equal in every process
}
