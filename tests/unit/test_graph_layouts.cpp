// Models whose images are stored with channels last.
// Links: graph/build
// Levels: no
#include "graph/build/compiled_model.h"
#include "graph/build/stages.h"
#include "tests/unit/graph_model.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <set>

using namespace kumiko;
using namespace kumiko::graph;

namespace {

// Whether the last axis of the op's first tensor has this many elements.
bool is_last(const std::vector<Axis> &axes, int channels) {
    return Halide::Internal::can_prove(axes.back().extent() == channels);
}

// Runs a program's kernels by the given estimate of seconds and compares with the nodes.
Program check(const Model &m, const OpSeconds &seconds) {
    const FixedGraph graph = fix_sizes(m);
    Program program = make_program(graph, {}, {}, seconds);
    std::vector<Kernel> kernels;
    for (const Op &op : program.kernels) kernels.push_back(compile(op));
    std::vector<Buffer<>> inputs, outputs;
    std::minstd_rand draw(1);
    for (const ProgramTensor &t : program.inputs) {
        inputs.emplace_back(t.type, t.extents);
        for (size_t i = 0; i < inputs.back().number_of_elements(); i++)
            static_cast<float *>(inputs.back().data())[i] = float(int(draw() % 17) - 8) / 8;
    }
    for (const ProgramTensor &t : program.outputs) outputs.emplace_back(t.type, t.extents);
    std::vector<float> arena(size_t(program.arena_bytes) / 4 + 16, NAN);
    const auto address = [&](const Location &l) -> uint8_t * {
        if (l.kind == Location::Kind::Input) return static_cast<uint8_t *>(inputs[l.index].data()) + l.within;
        if (l.kind == Location::Kind::Output) return static_cast<uint8_t *>(outputs[l.index].data()) + l.within;
        if (l.kind == Location::Kind::Constant) return static_cast<uint8_t *>(program.constants[l.index].data());
        return reinterpret_cast<uint8_t *>(arena.data()) + l.start();
    };
    for (const Step &step : program.steps) {
        std::vector<void *> tensors;
        for (const Location &l : step.arguments) tensors.push_back(address(l));
        if (step.kind == Step::Kind::Copy)
            std::memcpy(tensors[1], tensors[0], size_t(step.bytes));
        else
            REQUIRE_EQ(kernels[step.kernel].call_raw(tensors.data(), nullptr), 0);
    }
    const std::vector<Buffer<>> expected = evaluate(m, inputs);
    for (size_t o = 0; o < outputs.size(); o++) {
        CAPTURE(o);
        const auto *a = static_cast<const float *>(outputs[o].data());
        const auto *b = static_cast<const float *>(expected[o].data());
        float worst = 0, largest = 1;
        for (size_t i = 0; i < outputs[o].number_of_elements(); i++) {
            worst = std::max(worst, std::abs(a[i] - b[i]));
            largest = std::max(largest, std::abs(b[i]));
        }
        CHECK_LE(worst, 1e-5F * largest);
    }
    return program;
}

size_t moves(const Program &p) {
    return size_t(std::count_if(p.steps.begin(), p.steps.end(),
                                [](const Step &s) { return s.kind == Step::Kind::Call && s.group == no_group; }));
}
size_t values_with_channels_last(const Program &p) {
    size_t count = 0;
    for (const Step &s : p.steps) {
        for (const auto &[tensor, location] : s.made) count += tensor.channels_last;
    }
    return count;
}

constexpr const char *weights = "int64[4] s = {8, 8, 3, 3}, int64[4] d = {8, 1, 3, 3}, float[8] b = {1, 2, 3, 4, 5, 6, "
                                "7, 8}, float[8, 1, 1] c = {1, 2, 3, 4, 5, 6, 7, 8}";
constexpr const char *make = "w = ConstantOfShape<value = float[1] {0.25}>(s) "
                             "v = ConstantOfShape<value = float[1] {0.5}>(d) ";

// Ops whose last stored axis has 8 elements, the channels of these models, take no time.
double prefer_last(const Op &op) {
    const Stage &made = op.stage(op.outputs().at(0));
    return made.axes.size() >= 3 && is_last(made.axes, 8) && is_last(op.inputs().at(0).axes, 8) ? 0 : 1;
}

} // namespace

TEST_CASE("operators of images compute with channels last") {
    const std::string body =
        std::string(make) +
        "a = Conv<pads = [1, 1, 1, 1]>(x, w, b) "
        "e = Conv<group = 8, pads = [1, 1, 1, 1], strides = [2, 2]>(a, v) f = Relu(e) g = Mul(f, c) "
        "h = MaxPool<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(g) "
        "i = AveragePool<kernel_shape = [2, 2], pads = [0, 0, 1, 1]>(h) j = Add(i, g) "
        "k = Concat<axis = 2>(j, i) l = Concat<axis = 1>(k, k) "
        "m, n = Split<axis = 1, num_outputs = 2>(l) o = Resize<mode = \"nearest\">(n, , r) "
        "q = Conv(o, w) y = GlobalAveragePool(q) z = Transpose<perm = [0, 2, 3, 1]>(m) t = Sigmoid(m)";
    const Model m = model("(float[2, 8, 9, 7] x) => (float[2, 8, 1, 1] y, float[2, 10, 4, 8] z, float[2, 8, 10, 4] t)",
                          body, std::string(weights) + ", float[4] r = {1, 1, 2, 2}");
    CHECK_EQ(values_with_channels_last(check(m, nullptr)), 0);
    const Program p = check(m, prefer_last);
    CHECK_GT(values_with_channels_last(p), 5);
    CHECK_GT(moves(p), 0);
}

TEST_CASE("sequences and volumes, too") {
    check(model("(float[1, 8, 20] x) => (float[1, 8, 20] y)",
                "w = ConstantOfShape<value = float[1] {0.25}>(s) a = Conv<pads = [1, 1]>(x, w) b = Relu(a) "
                "c = Concat<axis = 2>(b, b) d = Conv<pads = [1, 1], strides = [2]>(c, w) y = Sigmoid(d)",
                "int64[3] s = {8, 8, 3}"),
          prefer_last);
    check(model("(float[1, 8, 4, 5, 6] x) => (float[1, 8, 4, 5, 6] y)",
                "w = ConstantOfShape<value = float[1] {0.25}>(s) a = Conv<pads = [1, 1, 1, 1, 1, 1]>(x, w) "
                "b = MaxPool<kernel_shape = [1, 1, 1]>(a) y = Conv<pads = [1, 1, 1, 1, 1, 1]>(b, w)",
                "int64[5] s = {8, 8, 3, 3, 3}"),
          prefer_last);
}

TEST_CASE("a Concat along rows is free with channels last, and along channels in ONNX's order") {
    // Windows pay with channels last, and all other kernels cost the same.
    const OpSeconds windows_prefer_last = [](const Op &op) -> double {
        const Stage &made = op.stage(op.outputs().at(0));
        const bool window =
            std::any_of(op.stages().begin(), op.stages().end(), [](const Stage &s) { return s.is_reduction(); });
        return !window ? 1 : is_last(made.axes, 8) || is_last(made.axes, 16) ? 0 : 10;
    };
    const auto concats = [&](int axis, const OpSeconds &seconds) {
        const Program p = check(model(axis == 1 ? "(float[1, 8, 6, 6] x) => (float[1, 16, 5, 5] y)"
                                                : "(float[1, 8, 6, 6] x) => (float[1, 8, 11, 5] y)",
                                      std::string(make) +
                                          "a = Conv<pads = [1, 1, 1, 1]>(x, w) "
                                          "e = Conv<pads = [1, 1, 1, 1]>(a, w) f = Concat<axis = " +
                                          std::to_string(axis) + ">(a, e) y = MaxPool<kernel_shape = [2, 2]>(f)",
                                      weights),
                                seconds);
        return std::count_if(p.steps.begin(), p.steps.end(),
                             [](const Step &s) { return s.kind == Step::Kind::Call && s.operators[0] == "Concat"; });
    };
    CHECK_EQ(concats(1, nullptr), 0);
    CHECK_EQ(concats(2, nullptr), 1);
    CHECK_EQ(concats(1, windows_prefer_last), 1);
    CHECK_EQ(concats(2, windows_prefer_last), 0);
}

TEST_CASE("one layer alone keeps ONNX's order if copies cost more than they gain") {
    const Model m = model("(float[1, 8, 9, 9] x) => (float[1, 8, 9, 9] y)",
                          std::string(make) + "y = Conv<pads = [1, 1, 1, 1]>(x, w)", weights);
    CHECK_EQ(values_with_channels_last(check(m, [](const Op &) { return 1; })), 0);
    CHECK_EQ(moves(check(m, [](const Op &) { return 1; })), 0);
}

TEST_CASE("layers that are equal in their layout share a kernel, and the planned stage shows layouts") {
    const Model m = model("(float[1, 8, 9, 9] x) => (float[1, 8, 9, 9] y)",
                          std::string(make) + "a = Conv<pads = [1, 1, 1, 1]>(x, w) e = Conv<pads = [1, 1, 1, 1]>(a, w) "
                                              "f = Conv<pads = [1, 1, 1, 1]>(e, w) y = Relu(f)",
                          weights);
    const Program p = check(m, prefer_last);
    CHECK_GE(values_with_channels_last(p), 2); // a and e
    std::set<size_t> of_layers;
    for (const Step &s : p.steps) {
        if (s.nodes[0] == "a" || s.nodes[0] == "e") of_layers.insert(s.kernel);
    }
    CHECK_LE(of_layers.size(), 2);
    const Model planned = planned_model(fix_sizes(m), {}, prefer_last);
    planned.check();
    CHECK(planned.text().find("Conv") != std::string::npos);
}
