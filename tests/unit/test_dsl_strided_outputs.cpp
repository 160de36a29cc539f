// Outputs whose arrays have stated strides: through the interpreter, LLVM and Halide.
// Links: driver
#include "driver/kernel.h"
#include "dsl/interpret.h"
#include "ops/matmul.h"
#include "support/error.h"

#include <doctest/doctest.h>

using namespace kumiko;

namespace {

// Runs the op on arrays with gaps, and compares with the interpreter; gaps must not be written.
void check_gaps(const Schedule &s, const Sizes &sizes, bool through_halide = false) {
    const Op &op = s.op();
    const Kernel k = compile(s, Target::host(), {.through_halide = through_halide});
    std::vector<Buffer<>> args, expected;
    for (const Input &in : op.inputs()) {
        args.push_back(make_input(in, sizes));
        fill_random_integers(args.back(), args.size(), -4, 4);
    }
    expected = args;
    expected.push_back(make_output(op, "C", sizes));
    interpret(op, expected, {.sizes = sizes});

    Buffer<> c = make_output(op, "C", sizes);
    const size_t bytes = c.size_in_bytes();
    memset(c.data(), 0x5a, bytes);
    args.push_back(c);
    k(args);
    CHECK(equal_bits(c, expected.back()));
    const int64_t rows = c.extent(0), columns = c.extent(1), pitch = c.stride(0);
    const auto *raw = reinterpret_cast<const uint8_t *>(c.data());
    for (int64_t i = 0; i + 1 < rows; i++) {
        for (int64_t at = 4 * (i * pitch + columns); at < 4 * (i + 1) * pitch; at++) REQUIRE(raw[at] == 0x5a);
    }
}

} // namespace

TEST_CASE("an output with rows apart") {
    const Op op = ops::gemm_strided(f32, Size("M"), Size("N"), Size("K"));
    CHECK(op.sizes() == std::vector<std::string>{"M", "K", "lda", "N", "ldb", "ldc"});
    CHECK(op.to_string().find("C: f32[i: M, j: N], strides [ldc, 1]") != std::string::npos);
    CHECK(op.hash() !=
          ops::matmul(f32, Size("M"), Size("N"), Size("K"), {.lda = Size("lda"), .ldb = Size("ldb")}).hash());
    Schedule s(op);
    auto C = s.stage("C");
    auto [io, ii] = C.split("i", 4);
    auto [jo, ji] = C.split("j", 16);
    C.reorder({io, jo, "k", ii, ji}).vectorize(ji, 8).accumulate_in("registers", jo);
    for (const auto &[m, n] : std::vector<std::pair<int, int>>{{4, 16}, {7, 19}, {1, 3}, {9, 40}}) {
        const Sizes sizes = {{"M", m}, {"N", n}, {"K", 5}, {"lda", 6}, {"ldb", n + 2}, {"ldc", n + 3}};
        check_gaps(s, sizes);
        check_gaps(s, sizes, true);
        check_gaps(Schedule(op), sizes);
    }
    // The array says how far apart rows are.
    const Kernel k = compile(s);
    Buffer<> a(f32, {3, 5}), b(f32, {5, 4}), c(f32, {3, 4}, {11, 1});
    fill_random_integers(a, 1, -4, 4);
    fill_random_integers(b, 2, -4, 4);
    k(std::vector<Buffer<>>{a, b, c});
    CHECK(equal_bits(c, Buffer<>(interpret(op, std::vector<Buffer<>>{a, b})[0])));
}

TEST_CASE("fixed strides are checked") {
    const Op op = ops::matmul(f32, 3, 4, 5, {.ldc = 10});
    const Kernel k = compile(Schedule(op));
    Buffer<> a(f32, {3, 5}), b(f32, {5, 4}), wrong(f32, {3, 4}), right(f32, {3, 4}, {10, 1});
    CHECK_THROWS_WITH_AS(k(std::vector<Buffer<>>{a, b, wrong}),
                         "op \"matmul\": tensor C states strides [10, 1] but its buffer has [4, 1]", UserError);
    CHECK_NOTHROW(k(std::vector<Buffer<>>{a, b, right}));
}

TEST_CASE("only outputs have strides of their own") {
    Axis i("i", 4);
    Tensor X = input("X", f32, {i});
    Tensor inner = compute("inner", {i}, X(i) + 1.f, {.strides = {2}});
    CHECK_THROWS_WITH(Op("bad", {X}, {compute("Y", {i}, inner(i) * 2.f)}),
                      doctest::Contains("tensor \"inner\" states strides but is no output of op \"bad\""));
    CHECK_THROWS_WITH(compute("Y", {i}, Expr(X(i)), {.strides = {1, 2}}),
                      doctest::Contains("tensor \"Y\" has 1 axes but 2 strides; state one per axis"));
}

TEST_CASE("a pre-packed tensor has no strides") {
    const Op op = ops::gemm_strided(f32, 5, 16, 3);
    Schedule s(op);
    s.prepack("B", {"j", "k"});
    const Kernel k = compile(s);
    Buffer<> a(f32, {5, 3}, {4, 1}), b(f32, {3, 16}, {20, 1}), c(f32, {5, 16}, {17, 1});
    fill_random_integers(a, 1, -4, 4);
    fill_random_integers(b, 2, -4, 4);
    k(std::vector<Buffer<>>{a, k.pack("B", b), c});
    CHECK(equal_bits(c, Buffer<>(interpret(op, std::vector<Buffer<>>{a, b})[0])));
}
