// Models as programs of kernels with planned memory, run in this process.
// Links: graph/build
// Levels: no
#include "graph/build/compiled_model.h"
#include "runtime/kumiko_runtime.h"
#include "tests/unit/graph_model.h"
#include "tests/unit/refusal.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

using namespace kumiko;
using namespace kumiko::graph;

namespace {

Buffer<> random_input(const ProgramTensor &t, uint32_t seed) {
    Buffer<> b(t.type, t.extents);
    std::minstd_rand draw(seed + 1);
    const size_t n = b.number_of_elements();
    for (size_t i = 0; i < n; i++) {
        const int value = int(draw() % 17) - 8;
        if (t.type == f32) static_cast<float *>(b.data())[i] = float(value) / 4;
        if (t.type == i64) static_cast<int64_t *>(b.data())[i] = value & 1;
    }
    return b;
}

// Runs the model as a program, fused or not, packed or not, and node by node; the results agree.
Program check(const Model &m, const CompileModelOptions &given = {}) {
    CompiledModel last = CompiledModel::compile(m, given);
    std::vector<Buffer<>> inputs;
    for (const ProgramTensor &t : last.program().inputs) inputs.push_back(random_input(t, uint32_t(inputs.size())));
    const std::vector<Buffer<>> expected = evaluate(m, inputs);
    for (const bool fuse : {false, true}) {
        for (const bool pack : {false, true}) {
            CompileModelOptions options = given;
            options.groups.fuse = fuse, options.pack = pack;
            if (fuse && !pack) options.rules.reset();
            last = CompiledModel::compile(m, options);
            const std::vector<Buffer<>> results = last.run(inputs);
            REQUIRE_EQ(results.size(), expected.size());
            for (size_t o = 0; o < results.size(); o++) {
                CAPTURE(o);
                REQUIRE_EQ(results[o].extents(), expected[o].extents());
                for (size_t i = 0; i < results[o].number_of_elements(); i++) {
                    if (Type(results[o].type()) != f32) {
                        CHECK_EQ(std::memcmp(results[o].data(), expected[o].data(), results[o].size_in_bytes()), 0);
                        break;
                    }
                    const float a = static_cast<float *>(results[o].data())[i],
                                b = static_cast<float *>(expected[o].data())[i];
                    CHECK_MESSAGE(((std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= 1e-5f * (1 + std::abs(b))),
                                  i << ": " << a << " and " << b);
                }
            }
        }
    }
    return last.program();
}

std::string zeros(size_t n) {
    std::string all = "0.5";
    for (size_t i = 1; i < n; i++) all += i % 3 ? ", -0.25" : ", 1";
    return all;
}

} // namespace

TEST_CASE("a chain of layers runs as one kernel each, with the smallest arena") {
    const Program p = check(model(
        "(float[1, 4, 6, 6] x) => (float[1, 3] y)",
        "c = Conv<pads = [1, 1, 1, 1]>(x, w) r = Relu(c) d = Conv<pads = [1, 1, 1, 1]>(r, w) s = Sigmoid(d) "
        "m = Mul(d, s) g = GlobalAveragePool(m) f = Flatten(g) p = MatMul(f, v) y = Add(p, b)",
        "float[4, 4, 3, 3] w = {" + zeros(144) + "}, float[4, 3] v = {" + zeros(12) + "}, float[3] b = {1, 2, 3}"));
    CHECK_EQ(p.steps.size(), 4);
    CHECK_EQ(p.kernels.size(), 4);
    CHECK_EQ(p.arena_bytes, 2 * 4 * 6 * 6 * 4 + 0);
    CHECK_EQ(p.arena_bytes, p.arena_bound);
}

TEST_CASE("equal layers share a kernel") {
    const Program p =
        check(model("(float[4, 8] x) => (float[4, 8] y)", "a = MatMul(x, w) b = Relu(a) c = MatMul(b, v) y = Relu(c)",
                    "float[8, 8] w = {" + zeros(64) + "}, float[8, 8] v = {" + zeros(64) + "}"));
    CHECK_EQ(p.steps.size(), 2);
    CHECK_EQ(p.kernels.size(), 1);
}

TEST_CASE("outputs may be inputs, constants, equal, views, or read by other nodes") {
    const Program p = check(model("(float[2, 3] x) => (float[2, 3] x, float[6] v, float[2, 3] e, float[2, 3] f, "
                                  "float[2] k, float[2, 3] n)",
                                  "v = Reshape(x, six) e = Exp(x) f = Identity(e) n = Neg(e)",
                                  "float[2] k = {1, 2}, int64[1] six = {6}"));
    size_t copies = 0;
    for (const Step &s : p.steps) copies += s.kind == Step::Kind::Copy;
    CHECK_EQ(copies, 4); // x, v, f, k
    CHECK_EQ(p.arena_bytes, 0);
}

TEST_CASE("inputs and outputs of nodes may be missing together") {
    check(model("(float[3, 2, 2] x) => (float[1, 2, 2] y)",
                ", h = RNN<hidden_size = 2>(x, w, r) , y = RNN<hidden_size = 2>(h, w, r, , , h)",
                "float[1, 2, 2] w = {1, 0.5, -1, 0.25}, float[1, 2, 2] r = {0.5, -0.5, 0.25, 1}"));
    // A missing input is not a missing output of a later node.
    check(model("(float[3, 2, 2] x) => (float[1, 2, 2] y, float[1, 2, 2] z)",
                ", h = RNN<hidden_size = 2>(x, w, r, , , i) , y = RNN<hidden_size = 2>(h, w, r, , , h) "
                "z = Resize(y, , one)",
                "float[1, 2, 2] w = {1, 0.5, -1, 0.25}, float[1, 2, 2] r = {0.5, -0.5, 0.25, 1}, "
                "float[1, 2, 2] i = {1, 2, 3, 4}, float[3] one = {1, 1, 1}"));
}

TEST_CASE("tensors without elements, without axes, and NaN pass") {
    check(model("(float[0, 3] x, float s) => (float[3] y, float[0, 3] z)",
                "y0 = ReduceSum<keepdims = 0>(x, axes) y = Add(y0, s) z = Exp(x)", "int64[1] axes = {0}"));
    const Model m = model("(float[3] x) => (float[3] y)", "y = Relu(x)");
    const CompiledModel compiled = CompiledModel::compile(m);
    Buffer<float> x({3});
    x(0) = NAN, x(1) = -1, x(2) = std::numeric_limits<float>::infinity();
    const Buffer<float> y(compiled.run({x})[0]);
    CHECK(std::isnan(y(0)));
    CHECK_EQ(y(1), 0);
    CHECK_EQ(y(2), x(2));
}

TEST_CASE("a kernel of more than 32 arrays") {
    std::string inputs, names;
    for (int n = 0; n < 40; n++) {
        inputs += (n ? ", float[2] x" : "float[2] x") + std::to_string(n);
        names += (n ? ", x" : "x") + std::to_string(n);
    }
    check(model("(" + inputs + ") => (float[80] y)", "y = Concat<axis = 0>(" + names + ")"));
    // As a node is run by its own kernel.
    const Model m = model("(" + inputs + ") => (float[2] y)", "y = Sum(" + names + ")");
    std::vector<Buffer<>> arrays;
    for (int n = 0; n < 40; n++) {
        Buffer<float> x({2});
        x.fill(float(n));
        arrays.push_back(x);
    }
    CHECK_EQ(Buffer<float>(evaluate(m, arrays, {.run = run_by_kernels()})[0])(1), 780);
}

TEST_CASE("inputs whose bytes overflow int64 are refused") {
    const Model m = model("(float[n, n, n] x) => (float[n, n, n] y)", "y = Neg(x)");
    CHECK_EQ(refusal([&] {
                 fix_sizes(m, {.sizes = {{"n", 2147483647}}});
             }),
             "m: input x: float[n,n,n] has the extents [2147483647,2147483647,2147483647]; legal are up to 2^40 bytes");
}

TEST_CASE("indices that data decide are checked before they are used") {
    const Model m = model("(float[3, 2] x, int64[2] i) => (float[2, 2] y)", "y = Gather(x, i)");
    check(m);
    const CompiledModel compiled = CompiledModel::compile(m);
    Buffer<float> x({3, 2});
    x.fill(1);
    Buffer<int64_t> i({2});
    i(0) = -3, i(1) = 2;
    compiled.run({x, i});
    i(1) = 3;
    CHECK_EQ(
        refusal([&] {
            compiled.run({x, i});
        }),
        "m: a kernel failed with code 10: node Gather of \"y\": an index in \"i\" is out of range; legal are -3 to 2");
}

TEST_CASE("indices that are expanded or read twice are checked once, as they were before") {
    const Model m = model("(float[3, 8] x, float[2, 8] u, int64[2, 1] i) => (float[3, 8] y)",
                          "e = Expand(i, s) a = ScatterElements<axis = 0>(x, e, u) "
                          "y = ScatterElements<axis = 0>(a, e, u)",
                          "int64[2] s = {2, 8}");
    const Program p = check(m);
    std::vector<int64_t> counts;
    for (const Step &s : p.steps) {
        if (s.kind == Step::Kind::Check) counts.push_back(s.count);
    }
    CHECK_EQ(counts, std::vector<int64_t>{2});
    Buffer<float> x({3, 8}), u({2, 8});
    x.fill(1), u.fill(2);
    Buffer<int64_t> i({2, 1});
    i(0, 0) = 1, i(1, 0) = -4;
    CHECK_EQ(refusal([&] {
                 CompiledModel::compile(m).run({x, u, i});
             }),
             "m: a kernel failed with code 10: node ScatterElements of \"a\": an index in \"e\" is out of range; "
             "legal are -3 to 2");
}

TEST_CASE("arrays that are not those of the program are refused") {
    const CompiledModel compiled =
        CompiledModel::compile(model("(float[n, 2] x) => (float[n, 2] y)", "y = Neg(x)"), {.sizes = {{"n", 3}}});
    CHECK_EQ(refusal([&] { compiled.run({Buffer<float>({2, 2})}); }), "m: input \"x\" is f32[3,2]; given is f32[2,2]");
    CHECK_EQ(refusal([&] { compiled.run({Buffer<double>({3, 2})}); }), "m: input \"x\" is f32[3,2]; given is f64[3,2]");
    CHECK_EQ(refusal([&] { compiled.run({}); }), "m takes 1 inputs, and 0 are given");
}

TEST_CASE("random chains and joins of pointwise nodes, sums and moves") {
    std::minstd_rand draw(7);
    for (int round = 0; round < 25; round++) {
        // Values of [4, 6]; each node reads earlier ones.
        std::vector<std::string> values = {"x0", "x1"};
        std::string body;
        const int nodes = 3 + int(draw() % 12);
        const auto any = [&] { return values[draw() % values.size()]; };
        for (int n = 0; n < nodes; n++) {
            const std::string made = "v" + std::to_string(n);
            switch (draw() % 8) {
            case 0:
                body += made + " = Add(" + any() + ", " + any() + ") ";
                break;
            case 1:
                body += made + " = Mul(" + any() + ", " + any() + ") ";
                break;
            case 2:
                body += made + " = Relu(" + any() + ") ";
                break;
            case 3:
                body += made + " = MatMul(" + any() + ", w) ";
                break;
            case 4:
                body += made + " = Softmax(" + any() + ") ";
                break;
            case 5:
                body += made + "t = Transpose(" + any() + ") " + made + " = Reshape(" + made + "t, shape) ";
                break;
            case 6:
                body += made + "m = ReduceMean(" + any() + ", axes) " + made + " = Sub(" + any() + ", " + made + "m) ";
                break;
            default:
                body += made + " = Sigmoid(" + any() + ") ";
            }
            values.push_back(made);
        }
        CAPTURE(body);
        const std::string last = values.back(), other = any();
        body += "y = Tanh(" + last + ") z = Identity(" + other + ")";
        check(model("(float[4, 6] x0, float[4, 6] x1) => (float[4, 6] y, float[4, 6] z)", body,
                    "float[6, 6] w = {" + zeros(36) + "}, int64[2] shape = {4, 6}, int64[1] axes = {1}"));
    }
}

TEST_CASE("models with Winograd's algorithm agree with direct sums, in tiles, borders and epilogues of all kinds") {
    std::minstd_rand draw(20261201);
    const auto between = [&](int low, int high) { return low + int(draw() % uint32_t(high - low + 1)); };
    int faster = 0;
    for (int n = 0; n < 12; n++) {
        const int batch = between(1, 2), channels = between(16, 20), filters = between(16, 36),
                  height = between(14, 24), width = between(14, 24), stride = between(1, 2), pad = between(0, 1);
        const auto results = [&](int size) { return (size + 2 * pad - 3) / stride + 1; };
        const std::string in = fmt::format("float[{}, {}, {}, {}]", batch, channels, height, width),
                          out = fmt::format("float[{}, {}, {}, {}]", batch, filters, results(height), results(width));
        const std::string epilogue =
            std::vector<std::string>{"y = Identity(c)", "y = Relu(c)", "s = Sigmoid(c) y = Mul(c, s)",
                                     "a = Add(c, r) y = Relu(a)", "s = Sigmoid(c) m = Mul(c, s) y = Add(m, r)"}[n % 5];
        const std::string conv = fmt::format("c = Conv<pads = [{0}, {0}, {0}, {0}], strides = [{1}, {1}]>(x, w{2}) ",
                                             pad, stride, n % 2 ? ", b" : "");
        std::string weights, bias;
        for (int i = 0; i < filters * channels * 9; i++)
            weights += fmt::format("{}{}", i ? ", " : "", between(-8, 8) / 8.0);
        for (int i = 0; i < filters; i++) bias += fmt::format("{}{}", i ? ", " : "", between(-4, 4));
        const Model m = model(fmt::format("({} x, {} r) => ({} y)", in, out, out), conv + epilogue,
                              fmt::format("float[{}, {}, 3, 3] w = {{{}}}, float[{}] b = {{{}}}", filters, channels,
                                          weights, filters, bias));
        CAPTURE(in);
        CAPTURE(out);
        CAPTURE(conv + epilogue);
        std::vector<Buffer<>> inputs, expected;
        for (const Rounding rounding : {Rounding::Close, Rounding::Fast}) {
            for (const bool pack : {false, true}) {
                CompileModelOptions options;
                options.rules->rounding = rounding, options.pack = pack;
                options.layouts = false; // which may add kernels
                const CompiledModel compiled = CompiledModel::compile(m, options);
                if (inputs.empty()) {
                    for (const ProgramTensor &t : compiled.program().inputs)
                        inputs.push_back(random_input(t, uint32_t(inputs.size())));
                    expected = compiled.run(inputs);
                }
                CHECK_EQ(compiled.program().kernels.size(), 1);
                if (rounding == Rounding::Fast && !pack) faster += compiled.program().kernels[0].stages().size() > 5;
                CHECK_NOTHROW(check_close(compiled.run(inputs)[0], expected[0], {1e-4, 2e-3}));
            }
        }
    }
    CHECK_GT(faster, 6);
}
