// Programs for all sizes in ranges, against the programs and the evaluator of single sizes.
// Links: graph/build
// Levels: no
#include "graph/build/open_program.h"
#include "tests/unit/graph_model.h"
#include "tests/unit/refusal.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <random>

using namespace kumiko;
using namespace kumiko::graph;

namespace {

Buffer<> random_input(const ProgramTensor &t, uint32_t seed) {
    Buffer<> b(t.type, t.extents);
    std::minstd_rand draw(seed + 1);
    for (size_t i = 0; i < b.number_of_elements(); i++) {
        const int value = int(draw() % 17) - 8;
        if (t.type == f32) static_cast<float *>(b.data())[i] = float(value) / 4;
        if (t.type == i64) static_cast<int64_t *>(b.data())[i] = std::abs(value);
    }
    return b;
}

Model model(const std::string &text) {
    return Model::parse_text("<ir_version: 10, opset_import: [\"\" : 20]> g " + text, "m");
}

// Compares the open program at these sizes with the evaluator.
void check(const std::string &text, const std::vector<OpenSize> &sizes,
           const std::vector<std::map<std::string, int64_t>> &at) {
    const Model m = model(text);
    const OpenProgram open = make_open_program(m, {}, sizes);
    for (const auto &values : at) {
        CAPTURE(values.begin()->second);
        const CompiledModel compiled = CompiledModel::compile(open.at(values));
        std::vector<Buffer<>> inputs;
        for (const ProgramTensor &t : compiled.program().inputs)
            inputs.push_back(random_input(t, uint32_t(inputs.size())));
        const std::vector<Buffer<>> expected = evaluate(m, inputs), results = compiled.run(inputs);
        REQUIRE_EQ(results.size(), expected.size());
        for (size_t o = 0; o < results.size(); o++) {
            REQUIRE_EQ(results[o].extents(), expected[o].extents());
            for (size_t i = 0; i < results[o].number_of_elements(); i++) {
                const float a = static_cast<float *>(results[o].data())[i],
                            b = static_cast<float *>(expected[o].data())[i];
                CHECK_MESSAGE(std::abs(a - b) <= 1e-5f * (1 + std::abs(b)), i << ": " << a << " and " << b);
            }
        }
    }
}

} // namespace

TEST_CASE("products and reductions of an open batch") {
    check("(float[b,6] x) => (float[b,4] y) <float[6,4] w = {1,2,3,4,5,6,7,8,9,10,11,12,-1,-2,-3,-4,-5,-6,-7,-8,-9,-10,"
          "-11,-12}> { t = MatMul(x, w) y = Softmax <axis = 1> (t) }",
          {{"b", 1, 64}}, {{{"b", 1}}, {{"b", 2}}, {{"b", 17}}, {{"b", 64}}});
}

TEST_CASE("sizes without names, of several inputs, are different sizes") {
    // "x:0" and "x_0" are the same identifier in C.
    const Model m = model("(float[?,3] x, float[x_0,3] z) => (float[n,3] y) { y = Concat <axis = 0> (x, z) }");
    const OpenProgram open = make_open_program(m, {}, {{"x:0", 1, 50}, {"x_0", 1, 50}});
    CHECK_NE(open.symbols[0].name(), open.symbols[1].name());
    CHECK_EQ(open.at({{"x:0", 2}, {"x_0", 40}}).outputs.at(0).extents, Extents{42, 3});
}

TEST_CASE("small sizes that are special are refused") {
    const auto refused = [](const std::string &begin, const std::string &end, int64_t least) {
        return refusal([&] {
            make_open_program(model("(float[s,4] x) => (float[1,4] y) { a = Constant <value = int64[1] {" + begin +
                                    "}> () e = Constant <value = int64[1] {" + end +
                                    "}> () z = Constant <value = int64[1] {0}> () t = Slice(x, a, e, z) "
                                    "y = ReduceSum(t, z) }"),
                              {}, {{"s", least, 64}});
        });
    };
    CHECK_EQ(refused("0", "3", 3), "no error");
    CHECK_EQ(refused("0", "3", 2), "m: a number of axis 0 of \"t\" is 2 for s=2, where larger sizes would have 3; "
                                   "supported are ranges that begin with a larger size");
    CHECK_EQ(refused("-3", "64", 3), "no error");
    CHECK_NE(refused("-3", "64", 1).find("is 1 for s=1, where larger sizes would have 3"), std::string::npos);
}

TEST_CASE("integers of 64 bits that follow from sizes may exceed 32 bits") {
    const Model m = model("(int64[s] x) => (int64[s] y) { n = Shape(x) q = Mul(n, n) y = Mul(x, q) }");
    const OpenProgram open = make_open_program(m, {}, {{"s", 1, 65536}});
    Buffer<> x(i64, {65536});
    for (int n = 0; n < 65536; n++) static_cast<int64_t *>(x.data())[n] = n;
    const Buffer<> y = CompiledModel::compile(open.at({{"s", 65536}})).run({x}).at(0);
    CHECK_EQ(static_cast<const int64_t *>(y.data())[3], int64_t(3) << 32);
}

TEST_CASE("states of open sizes are refused") {
    CompileModelOptions options;
    options.states = {{"h", "hn"}};
    CHECK_EQ(refusal([&] {
                 make_open_program(model("(float[s] x, float[s] h) => (float[s] y, float[s] hn) "
                                         "{ hn = Add(x, h) y = Exp(hn) }"),
                                   options, {{"s", 1, 16}});
             }),
             "m: the state \"h\" depends on a size; supported are states of fixed shapes");
}

TEST_CASE("means divide by open sizes") {
    check("(float[b,s] x) => (float[b,1] y) { a = Constant <value = int64[1] {1}> () y = ReduceMean(x, a) }",
          {{"b", 1, 9}, {"s", 1, 100}}, {{{"b", 1}, {"s", 1}}, {{"b", 9}, {"s", 100}}, {{"b", 3}, {"s", 7}}});
}

TEST_CASE("views, parts, constants and checked indices of open sizes") {
    // Attention, with a table of positions of which each run reads the first rows.
    check("(float[b,s,8] x) => (float[b,s,8] y) <float[12,8] table = {" +
              [] {
                  std::string numbers;
                  for (int n = 0; n < 96; n++) numbers += fmt::format("{}{}", n ? "," : "", n % 7 - 3);
                  return numbers;
              }() +
              "}> { shape = Shape(x) one = Constant <value = int64[1] {1}> () two = Constant <value = int64[1] {2}> () "
              "zero = Constant <value = int64[1] {0}> () n = Slice(shape, one, two) rows = Slice(table, zero, n, zero) "
              "p = Add(x, rows) t = Transpose <perm = [0, 2, 1]> (p) a = MatMul(p, t) w = Softmax(a) r = MatMul(w, p) "
              "y = Add(r, x) }",
          {{"b", 1, 6}, {"s", 1, 12}}, {{{"b", 1}, {"s", 1}}, {{"b", 6}, {"s", 12}}, {{"b", 2}, {"s", 5}}});
    check("(float[b,s] x, int64[b,1] i) => (float[b,1] y) { y = GatherElements <axis = 1> (x, i) }",
          {{"b", 1, 9}, {"s", 9, 50}}, {{{"b", 3}, {"s", 9}}, {{"b", 9}, {"s", 50}}});
}

TEST_CASE("windows of sizes with a step") {
    check("(float[n,2,h,h] x) => (float[n,3,k,k] y) <float[3,2,3,3] w = {" +
              [] {
                  std::string numbers;
                  for (int n = 0; n < 54; n++) numbers += fmt::format("{}{}", n ? "," : "", n % 5 - 2);
                  return numbers;
              }() +
              "}> { c = Conv <strides = [2, 2], pads = [1, 1, 1, 1]> (x, w) y = MaxPool <kernel_shape = [2, 2], "
              "strides = [2, 2]> (c) }",
          {{"n", 1, 3}, {"h", 4, 64, 4}}, {{{"n", 1}, {"h", 4}}, {{"n", 3}, {"h", 64}}, {{"n", 2}, {"h", 20}}});
}

TEST_CASE("sizes that make no polynomials, and wrong ranges, are refused") {
    const auto refused = [](const std::string &text, const std::vector<OpenSize> &sizes) {
        return refusal([&] { make_open_program(model(text), {}, sizes); });
    };
    const std::string pool =
        "(float[1,1,h] x) => (float[1,1,k] y) { y = MaxPool <kernel_shape = [2], strides = [2]> (x) }";
    CHECK_NE(
        refused(pool, {{"h", 2, 64}}).find("which is no polynomial of the sizes; a step of a size may make it one"),
        std::string::npos);
    CHECK_EQ(refused(pool, {{"h", 2, 64, 2}}), "no error");
    CHECK_EQ(refused(pool, {{"h", 64, 2}}),
             "size h: 64..2:1 is no range; legal are 0 <= LO <= HI <= 2147483647, and a STEP from 1 on");
    CHECK_NE(refused(pool, {{"h", 2, 64, 2}, {"g", 1, 5}}).find("\"g\""), std::string::npos);
    CHECK_NE(
        refused("(float[s] x) => (float[s] y) { n = Shape(x) k = Cast <to = 1> (n) c = Pow(k, k) d = Cast <to = 1> (c) "
                "y = Mul(x, d) }",
                {{"s", 1, 9}})
            .find("which is no polynomial of them"),
        std::string::npos);
    const OpenProgram open = make_open_program(model(pool), {}, {{"h", 2, 64, 2}});
    CHECK_EQ(refusal([&] { open.at({{"h", 5}}); }), "m: size h is 5; legal are 2 to 64 in steps of 2");
    CHECK_EQ(refusal([&] { open.at({{"h", 66}}); }), "m: size h is 66; legal are 2 to 64 in steps of 2");
    CHECK_EQ(refusal([&] { open.at({}); }), "m: size h has no value");
}
