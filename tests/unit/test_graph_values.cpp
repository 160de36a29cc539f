// Values at the edges of operators: NaN, infinities, padding, large integers, empty tensors.
#include "dsl/types.h"
#include "graph/eval/evaluate.h"
#include "support/error.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace kumiko;
using graph::Model;

namespace {

std::vector<Buffer<>> results(const std::string &body, const std::string &inputs, const std::string &outputs,
                              const std::vector<Buffer<>> &arrays) {
    return graph::evaluate(Model::parse_text("<ir_version: 10, opset_import: [\"\" : 21]>\ng (" + inputs + ") => (" +
                                                 outputs + ") {" + body + "}",
                                             "m"),
                           arrays);
}

template<typename T>
Buffer<> row(const std::vector<T> &values) {
    Buffer<T> b({static_cast<int64_t>(values.size())});
    for (size_t n = 0; n < values.size(); n++) b(static_cast<int>(n)) = values[n];
    return b;
}

template<typename T>
std::vector<T> values(const Buffer<> &b) {
    const auto *data = static_cast<const T *>(b.data());
    return {data, data + b.number_of_elements()};
}

constexpr float no_number = NAN;

} // namespace

TEST_CASE("TopK takes NaN as the largest value") {
    const auto r = results("y, i = TopK(x, k)", "float[5] x, int64[1] k", "float[3] y, int64[3] i",
                           {row<float>({1, no_number, 3, no_number, 2}), row<int64_t>({3})});
    const std::vector<float> y = values<float>(r[0]);
    CHECK((std::isnan(y[0]) && std::isnan(y[1]) && y[2] == 3));
    CHECK(values<int64_t>(r[1]) == std::vector<int64_t>{1, 3, 2});
}

TEST_CASE("positions of MaxPool are never in the padding") {
    Buffer<float> x({1, 1, 2, 2});
    x.fill(-INFINITY);
    const auto r = results("y, i = MaxPool <kernel_shape = [2, 2], pads = [1, 1, 1, 1]> (x)", "float[1,1,2,2] x",
                           "float[1,1,3,3] y, int64[1,1,3,3] i", {x});
    CHECK(values<int64_t>(r[1]) == std::vector<int64_t>{0, 0, 1, 0, 0, 1, 2, 2, 3});
}

TEST_CASE("integers keep all bits, and wrap") {
    const int64_t big = (int64_t(1) << 60) + 1;
    CHECK(values<int64_t>(results("y = Range(a, b, c)", "int64 a, int64 b, int64 c", "int64[N] y",
                                  {[&] {
                                       Buffer<int64_t> b(std::vector<int64_t>{});
                                       b() = big;
                                       return Buffer<>(b);
                                   }(),
                                   [&] {
                                       Buffer<int64_t> b(std::vector<int64_t>{});
                                       b() = big + 3;
                                       return Buffer<>(b);
                                   }(),
                                   [] {
                                       Buffer<int64_t> b(std::vector<int64_t>{});
                                       b() = 1;
                                       return Buffer<>(b);
                                   }()})[0]) == std::vector<int64_t>{big, big + 1, big + 2});
    CHECK(values<int64_t>(results("y = Pow(x, e)", "int64[3] x, int64[3] e", "int64[3] y",
                                  {row<int64_t>({2, 2, -1}), row<int64_t>({62, 64, -1})})[0]) ==
          std::vector<int64_t>{int64_t(1) << 62, 0, -1});
    CHECK(values<int32_t>(results("y = ReduceProd <keepdims = 0> (x)", "int32[2] x", "int32 y",
                                  {row<int32_t>({1 << 20, 1 << 12})})[0]) == std::vector<int32_t>{0});
}

TEST_CASE("the rest of a large quotient is exact in f32") {
    CHECK(values<float>(results("y = Mod <fmod = 1> (x, z)", "float[2] x, float[2] z", "float[2] y",
                                {row<float>({-1e20f, 5.5f}), row<float>({7, INFINITY})})[0]) ==
          std::vector<float>{std::fmod(-1e20f, 7.f), 5.5f});
}

TEST_CASE("quantisation of zeros and of NaN") {
    const auto r = results("y, s, z = DynamicQuantizeLinear(x)", "float[2] x", "uint8[2] y, float s, uint8 z",
                           {row<float>({0, 0})});
    CHECK(values<uint8_t>(r[0]) == std::vector<uint8_t>{0, 0});
    CHECK(values<float>(r[1]) == std::vector<float>{1});
    CHECK(values<uint8_t>(results("s = Constant <value = float {1}> () y = QuantizeLinear(x, s)", "float[2] x",
                                  "uint8[2] y", {row<float>({no_number, 300})})[0]) == std::vector<uint8_t>{0, 255});
}

TEST_CASE("sums of f16 do not overflow on the way") {
    const auto r = results("y = Mean(x, x)", "float16[1] x", "float16[1] y", {row<float16_t>({float16_t(60000.f)})});
    CHECK(static_cast<float>(values<float16_t>(r[0])[0]) == 60000.f);
}

TEST_CASE("arguments that no operator takes") {
    const auto refused = [](const std::string &body) {
        try {
            results(body, "float[3] x", "float[N] y", {row<float>({1, 2, 3})});
        } catch (const UserError &e) {
            return std::string(e.what());
        }
        return std::string();
    };
    CHECK_EQ(refused("i = Constant <value = int64[1,1] {7}> () u = Constant <value = float[1] {1}> () "
                     "y = ScatterND(x, i, u)"),
             "node ScatterND of \"y\": the index 7 in \"i\" of 3 elements; legal are -3 to 2");
    CHECK_EQ(refused("s = Constant <value = int64[1] {4294967298}> () y = ConstantOfShape(s)"),
             "node ConstantOfShape of \"y\": an axis of 4294967298 elements; legal are 0 to 2147483647");
    CHECK_EQ(refused("z = Constant <value = float {1}> () y = ArgMax <axis = 0> (z)"),
             "node ArgMax of \"y\": axis 0 of a tensor without axes");
    CHECK_EQ(refused("p = Constant <value = int64[2] {1, 1}> () y = Pad <mode = \"mirror\"> (x, p)"),
             "node Pad of \"y\": mode is \"mirror\"; legal are constant, reflect, edge, wrap");
}
