// The interpreter against plain loops: values, types, rounding, bounds of errors.
// Sanitized: --test-case-exclude=real*
#include "dsl/buffer_elements.h"
#include "dsl/interpret.h"
#include "dsl/print.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace kumiko;

TEST_CASE("matmul is the triple loop, in its order") {
    for (const auto &[M, N, K] :
         {std::array{3, 5, 7}, std::array{1, 40, 300}, std::array{33, 2, 65}, std::array{1, 1, 3000}}) {
        Axis i("i", M), j("j", N), k("k", K);
        Tensor A = input("A", f32, {i, k}), B = input("B", f32, {k, j});
        Op op("matmul", {A, B}, {compute("C", {i, j}, sum(A(i, k) * B(k, j), k))});
        Buffer<float> a = random({M, K}), b = random({K, N}, 2), c({M, N});
        for (int y = 0; y < M; y++) {
            for (int x = 0; x < N; x++) {
                float acc = 0;
                for (int z = 0; z < K; z++) {
                    const float product = a(y, z) * b(z, x);
                    acc += product;
                }
                c(y, x) = acc;
            }
        }
        CHECK(difference(interpret(op, a, b), c) == "");
    }
}

TEST_CASE("a convolution reads zeros around its input") {
    Axis n("n", 2), o("o", 3), y("y", 6), x("x", 5), c("c", 4), ky("ky", 3), kx("kx", 3), h("y", 6), w("x", 5);
    Tensor X = input("X", f32, {n, c, h, w}), W = input("W", f32, {o, c, ky, kx});
    Tensor P = zero_padded(X, {h, w});
    Tensor Y = compute("Y", {n, o, y, x}, sum(P(n, c, y + ky - 1, x + kx - 1) * W(o, c, ky, kx), {c, ky, kx}));
    Op op("conv", {X, W}, {Y});
    Buffer<float> in = random({2, 4, 6, 5}), weights = random({3, 4, 3, 3}, 2), out({2, 3, 6, 5});
    for (int a = 0; a < 2; a++)
        for (int b = 0; b < 3; b++)
            for (int p = 0; p < 6; p++)
                for (int q = 0; q < 5; q++) {
                    float acc = 0;
                    for (int d = 0; d < 4; d++)
                        for (int r = 0; r < 3; r++)
                            for (int s = 0; s < 3; s++) {
                                const int yy = p + r - 1, xx = q + s - 1;
                                const float v = yy >= 0 && yy < 6 && xx >= 0 && xx < 5 ? in(a, d, yy, xx) : 0.f;
                                const float product = v * weights(b, d, r, s);
                                acc += product;
                            }
                    out(a, b, p, q) = acc;
                }
    CHECK(difference(interpret(op, in, weights), out) == "");
}

TEST_CASE("softmax and several stages") {
    Axis i("i", 7), j("j", 33);
    Tensor X = input("X", f32, {i, j});
    Tensor m = compute("m", {i}, maximum(X(i, j), j));
    Tensor e = compute("e", {i, j}, exp(X(i, j) - m(i)));
    Tensor Y = compute("Y", {i, j}, e(i, j) / sum(e(i, j), j));
    CHECK_THROWS(Op("softmax", {X}, {Y})); // j ranges outside the sum too
    Axis k("k", 33);
    Tensor Z = compute("Y", {i, j}, e(i, j) / sum(e(i, k), k));
    Op op("softmax", {X}, {Z});
    Buffer<float> x = random({7, 33}), y = interpret(op, x);
    for (int r = 0; r < 7; r++) {
        double total = 0, top = 0;
        for (int c = 0; c < 33; c++) {
            total += static_cast<double>(y(r, c));
            top += std::exp(static_cast<double>(x(r, c)));
        }
        CHECK(total == doctest::Approx(1));
        CHECK(static_cast<double>(y(r, 5)) == doctest::Approx(std::exp(static_cast<double>(x(r, 5))) / top));
    }
}

TEST_CASE("argmax: ties take the lowest index, NaN never wins, an empty axis gives −1") {
    Size N("N");
    Axis i("i", 3), j("j", N);
    Tensor X = input("X", f32, {i, j});
    Op op("argmax", {X}, {compute("I", {i}, argmax(X(i, j), j))});
    Buffer<float> x({3, 4});
    const float nan = std::nanf("");
    const float values[] = {1, 3, 3, 2, nan, -1, nan, -1, nan, nan, nan, nan};
    std::copy(values, values + 12, x.data());
    Buffer<int32_t> best = interpret(op, x);
    CHECK(best(0) == 1);
    CHECK(best(1) == 1);
    CHECK(best(2) == -1);
    Buffer<int32_t> none = interpret(op, Buffer<float>({3, 0}));
    CHECK(none(2) == -1);
}

TEST_CASE("the general reduction folds in order") {
    Axis i("i", 2), j("j", 3), k("k", 4);
    Tensor X = input("X", i32, {i, j, k});
    Op op("horner", {X}, {compute("Y", {i}, reduce([](Expr a, Expr t) { return a * 3 + t; }, 1, X(i, j, k), {j, k}))});
    Buffer<> x = random_integers(i32, {2, 3, 4});
    Buffer<int32_t> y = interpret(op, x), typed = x;
    for (int a = 0; a < 2; a++) {
        int acc = 1;
        for (int b = 0; b < 3; b++)
            for (int c = 0; c < 4; c++) acc = acc * 3 + typed(a, b, c);
        CHECK(y(a) == acc);
    }
}

TEST_CASE("integers: overflow, wrapping, floor division") {
    Axis i("i", 6);
    Tensor A = input("A", i32, {i}), B = input("B", i32, {i});
    Buffer<int32_t> a({6}), b({6});
    const int av[] = {7, -7, 7, -7, 5, INT32_MAX}, bv[] = {2, 2, -2, -2, 0, 1};
    std::copy(av, av + 6, a.data());
    std::copy(bv, bv + 6, b.data());
    Buffer<int32_t> q = interpret(Op("q", {A, B}, {compute("Q", {i}, A(i) / B(i))}), a, b);
    Buffer<int32_t> r = interpret(Op("r", {A, B}, {compute("R", {i}, A(i) % B(i))}), a, b);
    const int qv[] = {3, -4, -3, 4, 0, INT32_MAX}, rv[] = {1, 1, 1, 1, 0, 0};
    for (int l = 0; l < 6; l++) {
        CHECK(q(l) == qv[l]);
        CHECK(r(l) == rv[l]);
    }
    std::string message;
    try {
        interpret(Op("s", {A, B}, {compute("S", {i}, A(i) + B(i))}), a, b);
    } catch (const UserError &e) {
        message = e.what();
    }
    CHECK(message == "stage \"S\": i32 overflow in 2147483647 + 1; cast to a wider type");
    Tensor C = input("C", u8, {i});
    Buffer<uint8_t> c({6});
    for (int l = 0; l < 6; l++) c(l) = static_cast<uint8_t>(250 + l);
    Buffer<uint8_t> w = interpret(Op("w", {C}, {compute("W", {i}, C(i) + cast<uint8_t>(7))}), c);
    CHECK(w(0) == 1);
    CHECK(w(5) == 6);
    Buffer<uint8_t> s = interpret(Op("w", {A}, {compute("W", {i}, cast<uint8_t>(cast<float>(A(i)) * 100.f))}), a);
    CHECK(s(0) == 255);
    CHECK(s(1) == 0);
}

TEST_CASE("f16 and bf16 round after every operation") {
    Axis i("i", 3), k("k", 5000);
    for (Type t : {f16, bf16}) {
        Tensor X = input("X", t, {k});
        Op op("sum", {X}, {compute("S", {i}, sum(X(k), k))});
        Buffer<> x(t, {5000});
        fill_random_integers(x, 1, 1, 1);
        // 1 more is lost
        CHECK(element(interpret(op, x)[0].raw_buffer(), {0}) == (t == f16 ? 2048 : 256));
        CHECK(element(interpret(op, {x}, {.in_double = true})[0].raw_buffer(), {2}) == 5000);
    }
}

TEST_CASE("f64 and wide integers become 16-bit floats by one rounding") {
    // One step beyond the midpoint between 1 and the next number: float would drop the step, and 1
    // is the even neighbour.
    Axis i("i", 4);
    Tensor X = input("X", f64, {i}), N = input("N", i64, {i}), U = input("U", u64, {i});
    for (Type t : {f16, bf16}) {
        const double place = t == f16 ? 0x1p-10 : 0x1p-7; // the last place of 1
        const int64_t one = int64_t{1} << 62, middle = one + static_cast<int64_t>(0x1p62 * place / 2);
        Buffer<double> x({4});
        Buffer<int64_t> n({4});
        Buffer<uint64_t> u({4});
        const double step[] = {-1, 0, 1, 2};
        for (int l = 0; l < 4; l++) {
            x(l) = 1 + place / 2 + step[l] * 0x1p-40;
            n(l) = (middle + static_cast<int64_t>(step[l])) * (l == 3 ? -1 : 1);
            u(l) = static_cast<uint64_t>(middle + static_cast<int64_t>(step[l])) << 1;
        }
        const auto f64s = interpret(Op("f", {X}, {compute("Y", {i}, cast(t, X(i)))}), x)[0];
        const double expected[] = {1, 1, 1 + place, 1 + place};
        for (int l = 0; l < 4; l++) {
            CHECK(element(f64s.raw_buffer(), {l}) == expected[l]);
        }
        if (t == f16) continue; // these integers are beyond f16
        const auto i64s = interpret(Op("i", {N}, {compute("Y", {i}, cast(t, N(i)))}), n)[0];
        const auto u64s = interpret(Op("u", {U}, {compute("Y", {i}, cast(t, U(i)))}), u)[0];
        for (int l = 0; l < 4; l++) {
            CHECK(element(i64s.raw_buffer(), {l}) == 0x1p62 * expected[l] * (l == 3 ? -1 : 1));
            CHECK(element(u64s.raw_buffer(), {l}) == 0x1p63 * expected[l]);
        }
    }
    // Subnormal f16: 2^-24 is the smallest; a step beyond its half rounds up, the half itself to 0.
    // And the largest.
    Buffer<double> edge({4});
    edge(0) = 0x1p-25, edge(1) = 0x1p-25 * (1 + 0x1p-30), edge(2) = 65520 * (1 - 0x1p-40), edge(3) = -65520;
    const auto y = interpret(Op("e", {X}, {compute("Y", {i}, cast(f16, X(i)))}), edge)[0];
    CHECK(element(y.raw_buffer(), {0}) == 0);
    CHECK(element(y.raw_buffer(), {1}) == 0x1p-24);
    CHECK(element(y.raw_buffer(), {2}) == 65504);
    CHECK(element(y.raw_buffer(), {3}) == -INFINITY);
    // Elements that are filled in or written by tests round the same way.
    Buffer<> filled(bf16, {1});
    fill_random(filled, 1, 1 + 0x1p-8 + 0x1p-40, 1 + 0x1p-8 + 0x1p-40);
    CHECK(element(filled.raw_buffer(), {0}) == 1 + 0x1p-7);
}

TEST_CASE("a cast of a number is that of the same number read") {
    Axis i("i", 14);
    for (const Type f : {f16, bf16, f32, f64}) {
        Tensor V = input("V", f, {i});
        std::vector<Expr> numbers;
        for (const double v : {-0.0, 0.5, -0.75, 2.5, -3.0, 127.9, 128.0, -129.0, 300.0, 40000.0, 1e30, -1e30,
                               double(INFINITY), double(NAN)})
            numbers.push_back(Halide::Internal::make_const(f, v));
        const Buffer<> values = interpret(Op("v", {}, {compute("V", {i}, Halide::mux(Expr(i), numbers))}))[0];
        for (const Type t : {boolean, i8, i16, i32, i64, u8, u16, u32, u64}) {
            CAPTURE(f);
            CAPTURE(t);
            std::vector<Expr> casts;
            for (const Expr &v : numbers) {
                casts.push_back(cast(t, Element(v)));
                CHECK(Halide::Internal::is_const(casts.back()));
                CHECK(!casts.back().as<Halide::Internal::Cast>());
            }
            const Buffer<> folded = interpret(Op("n", {}, {compute("Y", {i}, Halide::mux(Expr(i), casts))}))[0];
            CHECK(difference(folded, interpret(Op("r", {V}, {compute("Y", {i}, cast(t, V(i)))}), values)[0]) == "");
        }
    }
    using Halide::Internal::make_const;
    const int64_t wide = (int64_t{1} << 62) + (int64_t{1} << 38) + 1, narrow = (1 << 30) + (1 << 22) + 1;
    const std::vector<std::pair<Type, std::vector<Expr>>> rounding = {
        {f64, {make_const(f64, 1 + 0x1p-11 + 0x1p-40), make_const(f64, 1 + 0x1p-8 + 0x1p-40), make_const(f64, 1e300)}},
        {i64, {make_const(i64, wide), make_const(i64, -wide), make_const(i64, narrow)}},
        {u64, {make_const(u64, uint64_t(wide) * 2 + 1), make_const(u64, narrow), make_const(u64, 7)}}};
    for (const auto &[from, numbers] : rounding) {
        Axis j("j", 3);
        Tensor V = input("V", from, {j});
        const Buffer<> values = interpret(Op("v", {}, {compute("V", {j}, Halide::mux(Expr(j), numbers))}))[0];
        for (const Type t : {f16, bf16, f32, f64}) {
            CAPTURE(from);
            CAPTURE(t);
            std::vector<Expr> casts;
            for (const Expr &v : numbers) casts.push_back(cast(t, Element(v)));
            CHECK(Halide::Internal::is_const(casts[0]));
            const Buffer<> folded = interpret(Op("n", {}, {compute("Y", {j}, Halide::mux(Expr(j), casts))}))[0];
            CHECK(difference(folded, interpret(Op("r", {V}, {compute("Y", {j}, cast(t, V(j)))}), values)[0]) == "");
        }
    }
    CHECK(to_string(cast(u8, 300.f)) == to_string(cast<uint8_t>(1e9)));
    CHECK(to_string(cast(u8, 300.f)) == to_string(u8.max()));
    CHECK(to_string(cast<uint64_t>(-3.f)) == to_string(u64.min()));
    CHECK(to_string(cast<bool>(2)) == to_string(Halide::Internal::const_true()));
}

TEST_CASE("a quotient that overflows is named by its own operands") {
    Axis i("i", 3);
    Tensor X = input("X", i32, {i}), D = input("D", i32, {i});
    Buffer<int32_t> x({3}), d({3});
    x(0) = x(1) = x(2) = INT32_MIN;
    d(0) = 5, d(1) = 2, d(2) = -1;
    try {
        interpret(Op("q", {X, D}, {compute("Y", {i}, X(i) / D(i))}), x, d);
        FAIL("no error");
    } catch (const UserError &e) {
        CHECK(std::string(e.what()) == "stage \"Y\": i32 overflow in -2147483648 / -1; cast to a wider type");
    }
}

TEST_CASE("a read outside of the bounds is an error with its position") {
    Axis i("i", 4), j("j", 5), open("i", Size("N"));
    Tensor X = input("X", f32, {i}), any = input("X", f32, {open});
    std::string message;
    try {
        interpret(Op("shift", {any}, {compute("Y", {j}, any(j))}), random({4}));
    } catch (const UserError &e) {
        message = e.what();
    }
    CHECK(message == "op \"shift\" requires 4 < N (stage Y reads X at j of axis i)");
    Tensor I = input("I", i32, {j});
    Op gather("gather", {X, I}, {compute("Y", {j}, X(clamp(I(j), 0, 3)))});
    Buffer<int32_t> index({5});
    for (int l = 0; l < 5; l++) index(l) = 3 - l % 4;
    index(2) = -1;
    Buffer<float> x = random({4}), y = interpret(gather, x, index);
    CHECK(y(1) == x(2));
    CHECK(y(2) == x(0));
    CHECK(y(4) == x(3));
    // The proof assumes sizes of at least 1: an empty tensor has no element to clamp to.
    Axis n("n", Size("N"));
    Tensor Z = input("Z", f32, {n});
    Op empty("empty", {Z, I}, {compute("Y", {j}, Z(clamp(I(j), 0, Size("N") - 1)))});
    CHECK(Buffer<float>(interpret(empty, x, index))(1) == x(2));
    CHECK_THROWS_AS(interpret(empty, Buffer<float>({0}), index), UserError);
}

TEST_CASE("clamped, strided and dynamic reads") {
    Size N("N");
    Axis i("i", N), t("t", 3);
    Tensor X = input("X", f32, {i});
    Tensor C = clamped(X);
    Op op("blur", {X}, {compute("Y", {i}, sum(C(i + t - 1), t))});
    Buffer<float> x = random({10}), y = interpret(op, x);
    CHECK(y(0) == x(0) + x(0) + x(1));
    CHECK(y(9) == x(8) + x(9) + x(9));
    Axis h("h", 5);
    Tensor F = input("F", f32, {Axis("i", 10)});
    Buffer<float> s = interpret(Op("stride", {F}, {compute("Y", {h}, F(9 - 2 * h))}), x);
    CHECK(s(1) == x(7));
}

TEST_CASE("bounds hold for float32 in another order") {
    Axis i("i", 9), k("k", 500);
    Tensor X = input("X", f32, {i, k});
    Tensor S = compute("S", {i}, sum(exp(X(i, k)), k));
    Tensor Y = compute("Y", {i, Axis("l", 1)}, sqrt(S(i)) / 3.f);
    Op op("op", {X}, {Y});
    Buffer<float> x = random({9, 500}), y({9, 1});
    for (int r = 0; r < 9; r++) {
        float acc = 0;
        for (int c = 499; c >= 0; c--) acc += std::exp(x(r, c));
        y(r, 0) = std::sqrt(acc) / 3.f;
    }
    const Bounded b = interpret_with_bound(op, {x});
    check_within(y, b.values, b.bounds);
    check_within(interpret(op, x), b.values, b.bounds);
    CHECK(element(b.bounds[0].raw_buffer(), {0, 0}) < 1e-3);
    CHECK(element(b.bounds[0].raw_buffer(), {0, 0}) > 1e-7);
}

TEST_CASE("no value range is derived for a fold that may overflow in some order") {
    Axis i("i", 3), k("k", 4);
    const double inf = std::numeric_limits<double>::infinity();
    for (const Type type : {f32, f16, bf16}) {
        const double most = type == f16 ? 65504 : 3e38;
        Tensor X = input("X", type, {i, k});
        const Op total("total", {X}, {compute("Y", {i}, sum(X(i, k), k))}),
            all("all", {X}, {compute("Y", {i}, product(X(i, k), k))});
        Buffer<> x(type, {3, 4}), y(type, {3});
        const auto row = [](const Buffer<> &b, int64_t r, const std::vector<double> &values) {
            auto *to = static_cast<uint8_t *>(static_cast<void *>(b.raw_buffer()->host));
            for (size_t c = 0; c < values.size(); c++)
                write_element(b.type(), to + (r * 4 + int64_t(c)) * Type(b.type()).bytes(), values[c]);
        };
        row(x, 0, {most, -most, most, -most}); // two partial results overflow, or none
        row(x, 1, {most, most, most, most});
        row(x, 2, {1, 2, 3, 4});
        Bounded b = interpret_with_bound(total, {x});
        row(y, 0, {inf, inf, 10});
        CHECK_NOTHROW(check_within(y, b.values, b.bounds));
        row(y, 0, {-inf, inf, 11});
        CHECK_THROWS(check_within(y, b.values, b.bounds));
        CHECK(element(b.bounds[0].raw_buffer(), {2}) < 1);
        row(x, 0, {most, 1 / most, most, 1 / most});
        row(x, 1, {most, most, most, most});
        b = interpret_with_bound(all, {x});
        row(y, 0, {inf, inf, 24});
        CHECK_NOTHROW(check_within(y, b.values, b.bounds));
        row(y, 0, {1, inf, 32});
        CHECK_THROWS(check_within(y, b.values, b.bounds));
    }
}

// Large shapes take other paths than small ones. The plain loops compute one element in `step`.
TEST_CASE("real layers equal plain loops at a sample of their elements") {
    const int step = 97;
    for (const auto &[channels, size] : {std::pair{64, 56}, std::pair{512, 7}}) {
        Axis n("n", 1), o("o", channels), y("y", size), x("x", size), c("c", channels), ky("ky", 3), kx("kx", 3);
        Tensor X = input("X", f32, {n, c, y, x}), W = input("W", f32, {o, c, ky, kx});
        Tensor P = zero_padded(X, {y, x});
        Op op("conv", {X, W},
              {compute("Y", {n, o, y, x}, sum(P(n, c, y + ky - 1, x + kx - 1) * W(o, c, ky, kx), {c, ky, kx}))});
        const Buffer<float> image = random({1, channels, size, size}), weights = random({channels, channels, 3, 3}, 2);
        const Buffer<float> result = interpret(op, image, weights);
        for (int at = 0; at < channels * size * size; at += step) {
            const int filter = at / (size * size), row = at / size % size, column = at % size;
            float total = 0;
            for (int in = 0; in < channels; in++) {
                for (int r = 0; r < 3; r++) {
                    for (int s = 0; s < 3; s++) {
                        const int from = row + r - 1, beside = column + s - 1;
                        const bool inside = from >= 0 && from < size && beside >= 0 && beside < size;
                        const float product = (inside ? image(0, in, from, beside) : 0.f) * weights(filter, in, r, s);
                        total += product;
                    }
                }
            }
            REQUIRE(result(0, filter, row, column) == total);
        }
    }
    const int size = 512;
    Axis i("i", size), j("j", size), k("k", size);
    for (Type t : {f32, i8}) {
        Tensor A = input("A", t, {i, k}), B = input("B", t, {k, j});
        const Type acc = t == i8 ? i32 : f32;
        Op op("matmul", {A, B}, {compute("C", {i, j}, sum(cast(acc, A(i, k)) * cast(acc, B(k, j)), k))});
        const Buffer<> a = random_integers(t, {size, size}), b = random_integers(t, {size, size}, 2);
        const Buffer<> c = interpret(op, {a, b}).front();
        for (int64_t at = 0; at < int64_t(size) * size; at += step) {
            double total = 0; // exact: the products are small integers
            for (int64_t s = 0; s < size; s++)
                total += element(a.raw_buffer(), {at / size, s}) * element(b.raw_buffer(), {s, at % size});
            REQUIRE(element(c.raw_buffer(), {at / size, at % size}) == total);
        }
    }
}
