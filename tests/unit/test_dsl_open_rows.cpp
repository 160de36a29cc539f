// Ops whose arrays may have gaps between their rows.
#include "dsl/inout.h"
#include "dsl/interpret.h"
#include "dsl/op.h"

#include <doctest/doctest.h>

using namespace kumiko;

namespace {

Op product(const std::string &size = "K") {
    Axis i("i", Size("M")), j("j", Size("N")), k("k", Size(size));
    Tensor A = input("A", f32, {i, k}), B = input("B", f32, {k, j}, {.strides = {1, Size("K1")}}),
           b = input("b", f32, {j});
    return Op("product", {A, B, b}, {compute("C", {i, j}, sum(A(i, k) * B(k, j), k) + b(j))});
}

} // namespace

TEST_CASE("rows of arrays that state no strides may be apart; all else is as it was") {
    const Op op = product(), open = op.with_open_rows();
    CHECK(open.sizes() == std::vector<std::string>{"M", "K", "N", "K1", "ldA", "ldC"});
    CHECK(op.sizes() == std::vector<std::string>{"M", "K", "N", "K1"});
    CHECK(open.hash() != op.hash());
    CHECK(open.to_string().find("A: f32[i: M, k: K], strides [ldA, 1]") != std::string::npos);
    CHECK(open.to_string().find("C: f32[i: M, j: N], strides [ldC, 1]") != std::string::npos);
    CHECK(open.to_string().find("b: f32[j: N]\n") != std::string::npos);

    const Sizes sizes = {{"M", 3}, {"N", 4}, {"K", 2}, {"K1", 5}, {"ldA", 7}, {"ldC", 6}},
                plain = {{"M", 3}, {"N", 4}, {"K", 2}, {"K1", 5}};
    std::vector<Buffer<>> in, dense;
    for (size_t t = 0; t < 3; t++) {
        in.push_back(make_input(open.inputs()[t], sizes));
        dense.push_back(make_input(op.inputs()[t], plain));
    }
    CHECK(in[0].stride(0) == 7);
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 2; k++)
            static_cast<float *>(in[0].data())[7 * i + k] = static_cast<float *>(dense[0].data())[2 * i + k] =
                i + 2.f * k;
    }
    for (int j = 0; j < 4; j++) {
        for (int k = 0; k < 2; k++)
            static_cast<float *>(in[1].data())[5 * j + k] = static_cast<float *>(dense[1].data())[5 * j + k] =
                j - 3.f * k;
        static_cast<float *>(in[2].data())[j] = static_cast<float *>(dense[2].data())[j] = 10.f * j;
    }
    const Buffer<> got = interpret(open, in, {.sizes = sizes})[0], want = interpret(op, dense, {.sizes = plain})[0];
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 4; j++)
            CHECK(static_cast<const float *>(got.data())[got.stride(0) * i + j] ==
                  static_cast<const float *>(want.data())[want.stride(0) * i + j]);
    }
}

TEST_CASE("outer axes step over whole rows, and a name that is taken is not taken again") {
    Axis n("n", Size("N")), i("i", 5), j("ldX", 6);
    Tensor X = input("X", f32, {n, i, j});
    const Op open = Op("twice", {X}, {compute("Y", {n, i, j}, X(n, i, j) * 2.f)}).with_open_rows();
    CHECK(open.sizes() == std::vector<std::string>{"N", "ldX_", "ldY"});
    CHECK_MESSAGE(open.to_string().find("strides [ldX_ * 5, ldX_, 1]") != std::string::npos, open.to_string());
}

TEST_CASE("a tensor that is updated has the same rows before and after") {
    Axis i("i", Size("M")), j("j", Size("N"));
    Tensor X = inout("X", f32, {i, j});
    const Op open = Op("grow", {X}, {update(X, X(i, j) + 1.f)}).with_open_rows();
    CHECK(open.sizes() == std::vector<std::string>{"M", "N", "ldX"});
    CHECK(Halide::Internal::equal(open.inputs()[0].strides[0], open.stages()[0].array_strides()[0]));
    CHECK(open.inputs()[0].inout);
}
