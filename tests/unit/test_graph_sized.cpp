// Values whose size depends on data in programs: a bound, and the size as a further result.
// Links: graph/build
// Levels: no
#include "graph/build/compiled_model.h"
#include "tests/unit/control_flow_models.h"
#include "tests/unit/refusal.h"

#include <doctest/doctest.h>

#include <cstring>

using namespace kumiko;
using namespace kumiko::graph;
using namespace kumiko::control_flow;

namespace {

// Without elements, Buffer::size_in_bytes() may not be 0.
size_t bytes_of(const Buffer<> &b) { return b.number_of_elements() * size_t(b.type().bytes()); }

// Runs the model as a program and node by node, on several inputs; shapes and bits agree.
Program check(const Model &m, const CompileModelOptions &options = {}) {
    const CompiledModel compiled = CompiledModel::compile(m, options);
    CAPTURE(m.graph().nodes.at(0).op);
    for (uint32_t seed = 0; seed < 8; seed++) {
        CAPTURE(seed);
        std::vector<Buffer<>> inputs;
        for (const ProgramTensor &t : compiled.program().inputs)
            inputs.push_back(input_of(t.type, t.extents, seed + uint32_t(inputs.size())));
        const std::vector<Buffer<>> made = compiled.run(inputs), expected = evaluate(m, inputs);
        REQUIRE_EQ(made.size(), expected.size());
        for (size_t o = 0; o < made.size(); o++) {
            CAPTURE(o);
            REQUIRE_EQ(made[o].extents(), expected[o].extents());
            CHECK_EQ(std::memcmp(made[o].data(), expected[o].copy().data(), bytes_of(made[o])), 0);
        }
    }
    return compiled.program();
}

} // namespace

TEST_CASE("selections have the largest size, and the actual one as an output") {
    const Program p = check(model("(float[3, 4] x) => (int64[2, n] y)", "y = NonZero(x)"));
    REQUIRE_EQ(p.outputs.size(), 2);
    CHECK_EQ(p.outputs[0].extents, Extents{2, 12});
    CHECK_EQ(p.outputs[1].name, "y_size");
    CHECK_EQ(p.sized.at(0).axis, 1);
    // The name of the size is that of no other value.
    const Program named = check(
        model("(float[3, 4] x, float[2] y_size) => (int64[2, n] y, float[2] z)", "y = NonZero(x) z = Neg(y_size)"));
    CHECK_EQ(named.outputs.at(2).name, "y_size_");
    check(model("(float[3, 4] x, bool[3] c) => (float[n, 4] y)", "y = Compress<axis = 0>(x, c)"));
    check(model("(float[3, 4] x, bool[5] c) => (float[3, n] y)", "y = Compress<axis = -1>(x, c)"));
    check(model("(int64[7] x, bool[5] c) => (int64[n] y)", "y = Compress(x, c)"));
    for (const std::string sorted : {"0", "1"}) {
        check(model("(float[9] x) => (float[n] y, int64[n] i, int64[9] v, int64[n] c)",
                    "y, i, v, c = Unique<sorted = " + sorted + ">(x)"));
        check(model("(int64[2, 6] x) => (int64[2, n] y, int64[n] c)",
                    "y, , , c = Unique<axis = 1, sorted = " + sorted + ">(x)"));
    }
    check(model("(float[2, 6, 4] b, float[2, 3, 6] s, float least) => (int64[n, 3] y)",
                "y = NonMaxSuppression(b, s, most, overlap, least)", "int64 most = {2}, float overlap = {0.5}"));
    check(model("(float[1, 6, 4] b, float[1, 2, 6] s, int64 most) => (int64[n, 3] y)",
                "y = NonMaxSuppression<center_point_box = 1>(b, s, most)"));
}

TEST_CASE("inputs of NonMaxSuppression have one element of the stated type") {
    const auto refused = [](const std::string &most, const std::string &overlap) {
        return refusal([&] {
            CompiledModel::compile(model("(float[1, 6, 4] b, float[1, 2, 6] s) => (int64[n, 3] y)",
                                         "y = NonMaxSuppression(b, s, most, overlap)", most + ", " + overlap));
        });
    };
    CHECK_EQ(refused("int32[1] most = {2}", "float[1] overlap = {0.5}"),
             "node NonMaxSuppression of \"y\": its input 2, \"most\", is i32[1]; legal is one element of i64");
    CHECK_EQ(refused("int64[2] most = {2, 3}", "float[1] overlap = {0.5}"),
             "node NonMaxSuppression of \"y\": its input 2, \"most\", is i64[2]; legal is one element of i64");
    CHECK_EQ(refused("int64[1] most = {2}", "double overlap = {0.5}"),
             "node NonMaxSuppression of \"y\": its input 3, \"overlap\", is f64[]; legal is one element of f32");
}

TEST_CASE("elementwise operators take values whose first extent depends on data") {
    const Program p = check(model("(float[5, 4] x, bool[5] c) => (float[n, 4] y, float[n, 4] z)",
                                  "s = Compress<axis = 0>(x, c) t = Neg(s) y = Sub(t, k) z = Max(y, s)",
                                  "float[4] k = {1, 2, 3, 4}"));
    CHECK_EQ(p.outputs.size(), 3);
    CHECK_EQ(
        refusal([&] {
            CompiledModel::compile(model("(float[5, 4] x, bool[5] c) => (float[4] y)",
                                         "s = Compress<axis = 0>(x, c) y = ReduceMax<keepdims = 0>(s, zero)",
                                         "int64[1] zero = {0}"));
        }),
        "node ReduceMax of \"y\": it reads \"s\", whose extent along axis 0 depends on data; supported are outputs "
        "of the model, and elementwise operators of axis 0");
}

TEST_CASE("rows of a loop whose count is data have a stated bound") {
    const Model m = model("(float[3] x, int64 n, bool c) => (float[3] y, float[a, 3] r)",
                          "y, r = Loop <body = l (int64 i, bool g, float[3] s) => (bool g, float[3] t, float[3] q) "
                          "{ t = Neg(s) f = Cast<to = 1>(i) q = Sub(t, f) }> (n, c, x)");
    check(m, {.bound = 4});
    CHECK_EQ(refusal([&] { CompiledModel::compile(m); }),
             "node Loop of \"y\": data decide the number of its iterations, and so the size of \"r\"; state the most "
             "iterations, as --bound y=100");
    check(model("(float[3] x) => (float[3] y, float[a, 3] r)",
                "y, r = Loop <body = l (int64 i, bool g, float[3] s) => (bool o, float[3] t, float[3] q) "
                "{ t = Sub(s, one) q = Neg(t) m = ReduceMax<keepdims = 0>(t) o = Greater(m, low) }> (five, , x)",
                "int64 five = {5}, float one = {1}, float low = {-3}"));
}
