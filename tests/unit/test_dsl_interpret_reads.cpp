// The interpreter's reads: masks, padding, gathers, lanes along reductions, and indices beyond
// 2^31.
#include "dsl/interpret.h"

#include <doctest/doctest.h>

#include <sys/mman.h>

#include <cmath>

using namespace kumiko;
using Halide::Internal::Call;

namespace {

Expr if_then_else(const Expr &c, const Expr &a, const Expr &b) {
    return Call::make(a.type(), Call::if_then_else, {c, a, b}, Call::PureIntrinsic);
}

} // namespace

TEST_CASE("only the taken side of if_then_else reads") {
    const int n = 3000; // several rows
    Axis i("i", n);
    Tensor X = input("X", f32, {i}), I = input("I", i32, {i});
    Buffer<float> x = random({n});
    Buffer<int32_t> index({n});
    for (int l = 0; l < n; l++) index(l) = l % 7 == 3 ? -l - 1 : n - 1 - l;
    // A condition on values, one on indices, and both nested; the branch not taken would read out
    // of bounds.
    Expr by_value = if_then_else(I(i) >= 0, X(i + 1), 7.f);
    Expr by_index = if_then_else(i >= 10 && 2 * i < n + 5, X(i - 10), X(n - 1 - i));
    Expr nested = if_then_else(i < n - 2, if_then_else(I(i + 1) >= 0, X(i + 2), by_value), 0.f);
    Expr never = if_then_else(i + n < 0, X(i - n), X(i));
    Buffer<float> a = interpret(Op("a", {X, I}, {compute("Y", {i}, by_value)}), x, index);
    Buffer<float> b = interpret(Op("b", {X}, {compute("Y", {i}, by_index)}), x);
    Buffer<float> c = interpret(Op("c", {X, I}, {compute("Y", {i}, nested)}), x, index);
    Buffer<float> d = interpret(Op("d", {X}, {compute("Y", {i}, never)}), x);
    int wrong = 0;
    for (int l = 0; l < n; l++) {
        const float value = index(l) >= 0 ? x(l + 1) : 7.f; // n % 7 is 4: the last is negative
        wrong += a(l) != value;
        wrong += b(l) != (l >= 10 && 2 * l < n + 5 ? x(l - 10) : x(n - 1 - l));
        wrong += c(l) != (l < n - 2 ? (index(l + 1) >= 0 ? x(l + 2) : value) : 0.f);
        wrong += d(l) != x(l);
    }
    CHECK(wrong == 0);
    CHECK_THROWS_AS(interpret(Op("e", {X}, {compute("Y", {i}, select(i >= 10, X(i - 10), 0.f))}), x), UserError);
}

TEST_CASE("an overflow on the side not taken is none") {
    Axis i("i", 5);
    Tensor X = input("X", i32, {i});
    Buffer<int32_t> x({5});
    for (int l = 0; l < 5; l++) x(l) = l * 500000000;
    Buffer<int32_t> y =
        interpret(Op("a", {X}, {compute("Y", {i}, if_then_else(X(i) < 1000000000, X(i) * 2, X(i)))}), x);
    CHECK(y(1) == 1000000000);
    CHECK(y(4) == 2000000000);
}

TEST_CASE("padding of padding, of stages, and over strided outputs") {
    Axis i("i", 9), j("j", 13), o("o", 6);
    Tensor X = input("X", f64, {i, j});
    Tensor S = compute("S", {i, j}, X(i, j) * 2.0);
    Tensor P = zero_padded(S, {j});
    Tensor Q = zero_padded(compute("T", {i, j}, P(i, j - 3) + 1.0));
    Op op("op", {X}, {compute("Y", {o, j}, Q(o * 2 - 1, 14 - j))});
    Buffer<double> x = random<double>({9, 13}), y = interpret(op, x);
    int wrong = 0;
    for (int a = 0; a < 6; a++)
        for (int b = 0; b < 13; b++) {
            const int r = a * 2 - 1, c = 14 - b;
            const bool inside = r >= 0 && r < 9 && c >= 0 && c < 13;
            wrong += y(a, b) != (inside ? (c - 3 >= 0 ? x(r, c - 3) * 2.0 : 0.0) + 1.0 : 0.0);
        }
    CHECK(wrong == 0);
}

TEST_CASE("reductions whose lanes run along them keep their order") {
    Axis k("k", 2500), h("h", 3);
    Tensor X = input("X", f32, {h, k}), Z = input("Z", i32, {h, k});
    Buffer<float> x = random({3, 2500});
    Buffer<int32_t> z = random_integers(i32, {3, 2500}, 4, -100, 100);
    const auto one = [&](const Expr &e) { return interpret(Op("op", {X, Z}, {compute("Y", {}, e)}), x, z); };
    float acc = 0, top = -INFINITY;
    int sum_of = 0, mixed = 1, where = -1, best = -1000;
    for (int a = 0; a < 3; a++)
        for (int b = 0; b < 2500; b++) {
            acc += x(a, b);
            top = std::max(top, x(a, b));
            sum_of += z(a, b);
            mixed = (mixed * 3 + z(a, b)) % 1000;
            if (mixed < 0) mixed += 1000;
            if (z(a, b) > best) {
                best = z(a, b);
                where = a * 2500 + b;
            }
        }
    CHECK(Buffer<float>(one(sum(X(h, k), {h, k})))() == acc);
    CHECK(Buffer<float>(one(maximum(X(h, k), {h, k})))() == top);
    CHECK(Buffer<int32_t>(one(sum(Z(h, k), {h, k})))() == sum_of);
    CHECK(Buffer<int32_t>(one(argmax(Z(h, k), {h, k})))() == where);
    CHECK(Buffer<int32_t>(one(reduce([](Expr a, Expr t) { return (a * 3 + t) % 1000; }, 1, Z(h, k), {h, k})))() ==
          mixed);
}

TEST_CASE("the maximum of 16-bit floats begins at minus infinity") {
    Axis i("i", 2), k("k", 3);
    for (Type t : {f16, bf16}) {
        Tensor X = input("X", t, {i, k});
        Op op("op", {X}, {compute("Y", {i}, maximum(X(i, k), k)), compute("Z", {i}, minimum(X(i, k), k))});
        Buffer<> x(t, {2, 3});
        fill_random(x, 1, t == f16 ? -60000 : -1e30, t == f16 ? -50000 : -1e29);
        const Results r = interpret(op, {x});
        CHECK(element(r[0].raw_buffer(), {0}) < (t == f16 ? -49000 : -0.9e29));
        CHECK(element(r[1].raw_buffer(), {0}) <= element(r[0].raw_buffer(), {0}));
    }
}

TEST_CASE("linear indices go beyond 2^32") {
    const size_t bytes = 2147483647ull * 2 + 8;
    void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return;
    Buffer<> x = Buffer<>::wrap(u8, memory, {3, 2}, {2147483647, 1});
    static_cast<uint8_t *>(memory)[2147483647ull * 2 + 1] = 42;
    Axis i("i", 3), j("j", 2);
    Tensor X = input("X", u8, {i, j}, {.strides = {2147483647, 1}});
    Buffer<uint8_t> y = interpret(Op("op", {X}, {compute("Y", {i, j}, X(i, j))}), x);
    CHECK(y(2, 1) == 42);
    CHECK(y(1, 1) == 0);
    munmap(memory, bytes);
}
