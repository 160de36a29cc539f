// Concat, Split and Slice as parts of one array in models.
// Links: graph/build
// Levels: no
#include "graph/build/check_program.h"
#include "graph/build/compiled_model.h"
#include "support/error.h"
#include "tests/unit/graph_model.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

using namespace kumiko;
using namespace kumiko::graph;

namespace {

// Runs the model, compares it with its nodes, and returns its program.
Program check(const Model &m) {
    const CompiledModel compiled = CompiledModel::compile(m);
    std::vector<Buffer<>> inputs;
    std::minstd_rand draw(1);
    for (const ProgramTensor &t : compiled.program().inputs) {
        Buffer<> b(t.type, t.extents);
        for (size_t i = 0; i < b.number_of_elements(); i++) static_cast<float *>(b.data())[i] = float(draw() % 17) - 8;
        inputs.push_back(b);
    }
    const std::vector<Buffer<>> expected = evaluate(m, inputs), results = compiled.run(inputs);
    for (size_t o = 0; o < results.size(); o++) {
        CAPTURE(o);
        REQUIRE_EQ(results[o].extents(), expected[o].extents());
        const auto *a = static_cast<const float *>(results[o].data()),
                   *b = static_cast<const float *>(expected[o].data());
        for (size_t i = 0; i < results[o].number_of_elements(); i++)
            CHECK_LE(std::abs(a[i] - b[i]), 1e-4F * (1 + std::abs(b[i])));
    }
    return compiled.program();
}

size_t count(const Program &program, Step::Kind kind) {
    return size_t(
        std::count_if(program.steps.begin(), program.steps.end(), [&](const Step &s) { return s.kind == kind; }));
}

constexpr const char *axes = "float[4, 4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7}";

} // namespace

TEST_CASE("the inputs of a Concat are computed in their places") {
    const Program p =
        check(model("(float[2, 4] a, float[3, 4] b) => (float[5, 4] y)",
                    "c = MatMul(a, w) d = MatMul(b, w) e = Concat<axis = 0>(c, d) y = MatMul(e, w)", axes));
    CHECK_EQ(count(p, Step::Kind::Call), 3);
    CHECK_EQ(count(p, Step::Kind::Copy), 0);
    CHECK_EQ(p.arena_bytes, 128); // 80 bytes
    const Location &c = p.steps[0].arguments.back(), &d = p.steps[1].arguments.back();
    CHECK_EQ(std::abs(c.offset - d.offset), p.steps[0].made[0].first.extents[0] == 2 ? 32 : 48);
}

TEST_CASE("a Concat along an inner axis is a kernel, unless the axes before it have one element") {
    CHECK_EQ(check(model("(float[2, 4] a, float[2, 4] b) => (float[2, 8] y)",
                         "c = MatMul(a, w) d = MatMul(b, w) y = Concat<axis = 1>(c, d)", axes))
                 .steps.size(),
             3);
    CHECK_EQ(check(model("(float[1, 4] a, float[1, 4] b) => (float[1, 8] y)",
                         "c = MatMul(a, w) d = MatMul(b, w) y = Concat<axis = 1>(c, d)", axes))
                 .steps.size(),
             2);
}

TEST_CASE("inputs of the graph, constants, repeated inputs and outputs are copied to a Concat") {
    const Program p = check(model("(float[2, 4] a) => (float[2, 4] c, float[14, 4] y)",
                                  "c = MatMul(a, w) d = Softmax(c) y = Concat<axis = 0>(c, w, d, a, d, c)", axes));
    CHECK_EQ(count(p, Step::Kind::Call), 2);
    CHECK_EQ(count(p, Step::Kind::Copy), 5); // all but the first d
}

TEST_CASE("joined values are joined again, and parts of them are read") {
    const Program p =
        check(model("(float[2, 4] a) => (float[6, 4] y, float[2, 4] z)",
                    "b = Softmax<axis = 0>(a) c = Softmax<axis = 1>(a) d = Concat<axis = 0>(b, c) e = MatMul(d, w) "
                    "f = Softmax<axis = 0>(e) g = Concat<axis = 0>(e, a) y = MatMul(g, w) h, i = Split<axis = 0, "
                    "num_outputs = 2>(f) "
                    "z = MatMul(i, w) ",
                    axes));
    CHECK_EQ(count(p, Step::Kind::Copy), 1); // a
}

TEST_CASE("a Split or Slice of the outermost axis is read in place") {
    const Program p = check(model("(float[6, 4] a) => (float[2, 4] y, float[1, 4] z)",
                                  "b = Softmax(a) c, d = Split<axis = 0>(b, s) e = MatMul(d, w) "
                                  "y = Softmax<axis = 0>(e) f = Slice(b, g, h) z = Softmax<axis = 1>(f)",
                                  std::string(axes) + ", int64[2] s = {4, 2}, int64[1] g = {-3}, int64[1] h = {-2}"));
    CHECK_EQ(count(p, Step::Kind::Call), 4);
    CHECK_EQ(p.steps.size(), 4);
    const Program inputs = check(model("(float[6, 4] a) => (float[2, 4] y, float[4, 4] c)",
                                       "c, d = Split<axis = 0>(a, s) y = Softmax(d)", "int64[2] s = {4, 2}"));
    CHECK_EQ(count(inputs, Step::Kind::Call), 1);
    CHECK_EQ(count(inputs, Step::Kind::Copy), 1); // of c
    // With steps, or along an inner axis, nothing is contiguous.
    CHECK_EQ(check(model("(float[6, 4] a) => (float[3, 4] y)", "b = Softmax(a) c = Slice(b, s, e, d, t) y = Softmax(c)",
                         "int64[1] s = {0}, int64[1] e = {6}, int64[1] d = {0}, int64[1] t = {2}"))
                 .steps.size(),
             3);
    CHECK_EQ(check(model("(float[6, 4] a) => (float[6, 3] y)", "b = Softmax(a) c = Slice(b, s, e, d) y = Softmax(c)",
                         "int64[1] s = {1}, int64[1] e = {4}, int64[1] d = {1}"))
                 .steps.size(),
             3);
}

TEST_CASE("the check of programs finds memory that is overwritten too early or never written") {
    const Program p = check(model("(float[2, 4] a) => (float[2, 4] y)",
                                  "b = MatMul(a, w) c = Softmax(b) d = MatMul(c, w) y = Add(d, b)", axes));
    check_program(p);
    bool found = false;
    for (size_t s = 0; s < p.steps.size(); s++) {
        for (size_t n = 0; n < p.steps[s].arguments.size(); n++) {
            if (p.steps[s].arguments[n].kind != Location::Kind::Arena) continue;
            for (const int64_t by : {-4, 4}) {
                Program wrong = p;
                wrong.steps[s].arguments[n].offset += by;
                found = true;
                CHECK_THROWS_AS(check_program(wrong), InternalError);
            }
        }
    }
    CHECK(found);
}
