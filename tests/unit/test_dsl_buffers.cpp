// Buffers: order of axes, strides, wrapping of arrays, conversion, comparison, and their errors.
#include "dsl/buffers.h"
#include "dsl/dense.h"
#include "dsl/npy.h"
#include "support/temporary_folder.h"
#include "tests/unit/refusal.h"

#include <doctest/doctest.h>

using namespace kumiko;

namespace {

Op matmul(const Expr &M, const Expr &N, const Expr &K, const InputOptions &a = {}) {
    Axis i("i", M), j("j", N), k("k", K);
    Tensor A = input("A", f32, {i, k}, a), B = input("B", f32, {k, j});
    return Op("matmul", {A, B}, {compute("C", {i, j}, sum(A(i, k) * B(k, j), k))});
}

} // namespace

TEST_CASE("a buffer counts axes outermost first, Halide's dimensions innermost first") {
    Buffer<float> b({2, 3, 4});
    CHECK(b.extents() == std::vector<int64_t>{2, 3, 4});
    CHECK(b.stride(0) == 12);
    CHECK(b.stride(2) == 1);
    CHECK(b.dim(0).extent() == 4);
    CHECK(b.dim(0).stride() == 1);
    b(1, 2, 3) = 5;
    CHECK(b.data()[23] == 5);
    CHECK(describe(b.raw_buffer()) == "f32[2, 3, 4]");
    CHECK(Buffer<float>({}).rank() == 0);
}

TEST_CASE("strides, wrapping and conversion") {
    std::vector<float> memory(20, 1);
    Buffer<float> w = Buffer<float>::wrap(memory.data(), {3, 4}, {6, 1});
    w(2, 3) = 9;
    CHECK(memory[15] == 9);
    CHECK(describe(w.raw_buffer()) == "f32[3, 4] with strides [6, 1]");
    Buffer<> any = w;
    Buffer<float> again = any;
    CHECK(again(2, 3) == 9);
    CHECK(refusal([&] { Buffer<int32_t> wrong = any; }) == "a buffer of f32 cannot be used as one of i32");
    Buffer<> s(bf16, {3, 4}, {8, 1});
    fill_unwritten(s);
    CHECK(std::isnan(element(s.raw_buffer(), {2, 3})));
}

TEST_CASE("a copy and a transposed view behave as ordinary buffers") {
    Buffer<float> b(f32, {2, 3}, {8, 1});
    for (int i = 0; i < 6; i++) b(i / 3, i % 3) = static_cast<float>(i);
    Buffer<float> c = b.copy();
    static_assert(std::is_same_v<decltype(b.copy()), Buffer<float>>);
    static_assert(std::is_same_v<decltype(Buffer<>(b).transposed(0, 1)), Buffer<>>);
    CHECK(c.stride(0) == 8);
    CHECK(c.data() != b.data());
    CHECK(difference(b, c) == "");
    b(1, 2) = 50;
    CHECK(c(1, 2) == 5);
    Buffer<float> t = b.transposed(0, 1);
    CHECK(t.extents() == std::vector<int64_t>{3, 2});
    CHECK(t.stride(0) == 1);
    CHECK(t(2, 1) == 50);
    CHECK(t.data() == b.data());
    Buffer<int> d({2, 3, 4});
    CHECK(d.transposed({2, 0, 1}).extents() == std::vector<int64_t>{4, 2, 3});
    CHECK(Buffer<float>({0, 3}).copy().extents() == std::vector<int64_t>{0, 3});
    CHECK(refusal([&] { b.transposed(0, 2); }) ==
          "axes {0, 2} cannot transpose f32[2, 3] with strides [8, 1]; its axes are 0 to 2 exclusive, each once");
    CHECK(refusal([&] {
              d.transposed({0, 0, 1});
          }) == "axes {0, 0, 1} cannot transpose i32[2, 3, 4]; its axes are 0 to 3 exclusive, each once");
}

TEST_CASE("random buffers repeat") {
    Buffer<float> a = random({5, 7}), b = random({5, 7}), c = random({5, 7}, 2);
    CHECK(equal_bits(a, b));
    CHECK(!equal_bits(a, c));
    CHECK(element(random_integers(u8, {4}, 3).raw_buffer(), {0}) >= 0);
}

TEST_CASE("sizes come from extents and stated strides") {
    Size M("M"), K("K"), lda("lda");
    Op op = matmul(M, 8, K, {.strides = {lda, 1}});
    Buffer<> a(f32, {3, 5}, {9, 1}), b(f32, {5, 8}), c(f32, {3, 8});
    const Sizes sizes = solve_sizes(op, {a.raw_buffer(), b.raw_buffer()});
    CHECK(sizes == Sizes{{"M", 3}, {"K", 5}, {"lda", 9}});
    check_input(op, op.inputs()[0], a.raw_buffer(), sizes);
    check_output(op, "C", c.raw_buffer(), sizes);
    Buffer<> b6(f32, {6, 8});
    CHECK(refusal([&] {
              solve_sizes(op, {a.raw_buffer(), b6.raw_buffer()});
          }) == "op \"matmul\": size K is 5 by axis k of A but 6 by axis k of B");
    CHECK(refusal([&] {
              solve_sizes(op, {nullptr, b.raw_buffer()});
          }) == "op \"matmul\": no buffer determines the size M; pass it by name");
}

TEST_CASE("buffers that do not fit are refused") {
    Op op = matmul(4, 8, 6);
    const Input &A = op.inputs()[0];
    const auto refused = [&](const Buffer<> &b) { return refusal([&] { check_input(op, A, b.raw_buffer(), {}); }); };
    CHECK(refused(Buffer<>(f32, {4, 6})) == "no error");
    CHECK(refused(Buffer<>(f64, {4, 6})) == "op \"matmul\": tensor A is f32 but its buffer is f64");
    CHECK(refused(Buffer<>(f32, {24})) == "op \"matmul\": tensor A has 2 axes but its buffer has 1");
    CHECK(refused(Buffer<>(f32, {4, 7})) == "op \"matmul\": tensor A has extent 6 along axis k but its buffer has 7");
    CHECK(refused(Buffer<>(f32, {4, 6}, {1, 4})) ==
          "op \"matmul\": tensor A is row-major, with strides [6, 1] but its buffer has [1, 4]");
    CHECK(refused(Buffer<>()) == "op \"matmul\": tensor A was given no buffer");
    Op strided = matmul(4, 8, 6, {.strides = {10, 1}});
    CHECK(refusal([&] {
              check_input(strided, strided.inputs()[0], Buffer<>(f32, {4, 6}).raw_buffer(), {});
          }) == "op \"matmul\": tensor A states strides [10, 1] but its buffer has [6, 1]");
}

TEST_CASE("comparison of buffers, exact and with a tolerance") {
    Buffer<float> a({2, 2}), b({2, 2});
    for (int i = 0; i < 4; i++) a.data()[i] = b.data()[i] = static_cast<float>(i);
    check_close(a, b);
    CHECK(difference(a, b).empty());
    b(1, 0) = 2.5f;
    b(1, 1) = 5.f;
    CHECK(refusal([&] { check_close(a, b); }) == "2 of 4 elements differ; the first at [1, 0]: 2 where 2.5 is "
                                                 "expected; the largest at [1, 1]: 3 where 5 is expected");
    CHECK(refusal([&] { check_close(a, Buffer<float>({2, 3})); }) == "the shapes differ: f32[2, 2] and f32[2, 3]");
    b(1, 0) = 2;
    b(1, 1) = 3;
    b(0, 0) = -0.0f;
    CHECK(!equal_bits(a, b));
    Buffer<double> bound({2, 2});
    for (int i = 0; i < 4; i++) bound.data()[i] = 0.1;
    check_within(a, b, bound);
}

TEST_CASE("a transposed array is saved in the order of its indices") {
    Buffer<float> b({2, 3});
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 3; j++) b(i, j) = float(10 * i + j);
    const Buffer<> view = Buffer<>(b).transposed(0, 1);
    CHECK(is_dense(b));
    CHECK(!is_dense(view));
    CHECK_EQ(dense(Buffer<>(b)).data(), static_cast<void *>(b.data()));
    const TemporaryFolder folder;
    const std::string file = (folder.path() / "x.npy").string();
    save_npy(file, view);
    for (const Buffer<> &made : {dense(view), load_npy(file)}) {
        REQUIRE_EQ(made.extents(), std::vector<int64_t>{3, 2});
        const auto *elements = static_cast<const float *>(made.data());
        for (int n = 0; n < 6; n++) CHECK_EQ(elements[n], float(n % 2 * 10 + n / 2));
    }
}
