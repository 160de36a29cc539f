// Convolutions on the chip's matrix units: windows share the elements of a tile, zeros around the
// image are padding.
// Links: schedules/library ops
// Sanitized: --test-case=1x1,*every*second*,*f32*,errors*
#include "dsl/interpret.h"
#include "ops/ops.h"
#include "schedules/library/chip_conv.h"
#include "schedules/library/table.h"
#include "support/error.h"
#include "targets/chip/compile.h"

#include <doctest/doctest.h>

using namespace kumiko;

namespace {

// Output channels are the matrix's rows, input channels its columns, pixels its vectors; MABs
// divide rows of the image.
Schedule conv_schedule(const Op &op, const sim::Config &config, bool padded) {
    Schedule s(op, chip_machine(config));
    const std::string stage = op.stages()[padded ? 1 : 0].name, image = padded ? "X.padded" : "X.packed";
    for (const char *tensor : {"X", "W"}) { // in the order in which the units take them
        std::vector<std::string> axes;
        for (const Axis &a : op.find_input(tensor)->axes) axes.push_back(a.name());
        s.prepack(tensor, axes);
    }
    StageHandle C = s.stage(stage);
    C.split("o", 16, {"ob", "oi"});
    C.split("c", 16, {"cb", "ci"});
    C.split("x", 8, {"xt", "xv"});
    C.split("y", 2, {"yb", "yv"});
    C.split("yb", config.mabs, {"yt", "mab"});
    C.split("ob", config.l1bs, {"ot", "l1b"});
    C.reorder({"mab", "l1b", "n", "yt", "xt", "ot", "cb", "ky", "kx", "yv", "xv", "oi", "ci"});
    C.bind("mab", "MAB").bind("l1b", "L1B");
    s.place_in(image, "LM", stage, "xt");
    s.place_in("W.packed", "L1BM", stage, "kx").double_buffer();
    s.accumulate_in(stage, "GRF0", "ot");
    C.write_back("ot");
    C.tensorize("oi", "mfma.f16");
    const std::string last = op.stages().back().name;
    if (last != stage) C.finish_in(last);
    return s;
}

void equal_to_formula(const ChipProgram &p) {
    const Op &op = p.op();
    CAPTURE(op.to_string());
    std::vector<Buffer<>> arrays;
    uint64_t seed = 1;
    for (const Input &in : op.inputs()) {
        arrays.push_back(make_input(in, {}));
        fill_random_integers(arrays.back(), seed++, -4, 4);
    }
    const Buffer<> expected = interpret(op, arrays).front();
    arrays.push_back(make_output(op, op.outputs().front(), {}));
    fill_unwritten(arrays.back());
    p.run(arrays);
    CHECK(difference(arrays.back(), expected) == "");
}

void check(int N, int C, int H, int W, int O, int K, const ops::Conv2dOptions &options) {
    const sim::Config config = sim::Config::load("small");
    const Op op = ops::conv2d(f16, N, C, H, W, O, K, K, options);
    equal_to_formula(compile_chip(conv_schedule(op, config, op.stages().front().kind == Stage::Kind::Padding), config));
}

// With the library's schedule.
ChipProgram by_library(const Op &op, const std::string &machine) {
    const sim::Config config = sim::Config::load(machine);
    const Machine m = chip_machine(config);
    const auto space = library::find_template(op, m)->make_space(op, m);
    return compile_chip(space->schedule(space->default_point()), config);
}

void on_all(const Op &op) {
    for (const char *machine : {"small", "medium", "full"}) equal_to_formula(by_library(op, machine));
}

} // namespace

TEST_CASE("1x1") { check(2, 32, 6, 8, 48, 1, {}); }
TEST_CASE("3x3, without a border") { check(1, 20, 8, 12, 32, 3, {}); }
TEST_CASE("3x3, with zeros around") { check(2, 16, 8, 8, 32, 3, ops::Conv2dOptions().padding(1)); }
TEST_CASE("3x3, every second") { check(1, 16, 13, 17, 16, 3, ops::Conv2dOptions().padding(1).stride(2)); }
TEST_CASE("3x3, dilated") { check(1, 16, 9, 9, 16, 3, ops::Conv2dOptions().padding(2).dilation(2)); }

TEST_CASE("by the library: windows of all sizes") {
    for (const int k : {1, 3, 5, 7})
        on_all(ops::conv2d(f16, 2, 20, 9, 11, 24, k, k, ops::Conv2dOptions().padding(k / 2)));
    on_all(ops::conv2d(f16, 1, 32, 10, 13, 16, 3, 5));
}

TEST_CASE("by the library: strides, dilation, few channels") {
    on_all(ops::conv2d(f16, 1, 3, 33, 31, 16, 7, 7, ops::Conv2dOptions().padding(3).stride(2)));
    on_all(ops::conv2d(f16, 1, 17, 12, 12, 5, 1, 1, ops::Conv2dOptions().stride(3)));
    on_all(ops::conv2d(f16, 1, 16, 20, 20, 16, 5, 5, ops::Conv2dOptions().padding(8).dilation(4)));
    on_all(ops::conv2d(f16, 1, 1, 3, 3, 1, 3, 3));
}

TEST_CASE("by the library: both layouts, groups, ends") {
    ops::Conv2dOptions o = ops::Conv2dOptions().padding(1);
    for (const ops::ImageLayout layout : {ops::ImageLayout::NCHW, ops::ImageLayout::NHWC}) {
        o.layout = layout;
        o.groups = 2;
        o.bias = o.residual = true;
        o.activation = "relu";
        on_all(ops::conv2d(f16, 1, 36, 9, 10, 24, 3, 3, o));
        o.groups = 1;
        on_all(ops::conv2d(f16, 2, 16, 7, 7, 40, 3, 3, o));
    }
}

TEST_CASE("by the library: each channel for itself") {
    ops::Conv2dOptions o = ops::Conv2dOptions().padding(1);
    on_all(ops::depthwise_conv2d(f16, 2, 40, 9, 11, 3, 3, o));
    o.layout = ops::ImageLayout::NHWC;
    o.bias = o.residual = true;
    on_all(ops::depthwise_conv2d(f16, 1, 70, 14, 9, 5, 5, o.stride(2)));
    o.activation = "relu";
    on_all(ops::depthwise_conv2d(f16, 1, 3, 20, 20, 7, 7, o.stride(1).dilation(2)));
}

TEST_CASE("by the library: each channel for itself, windows that LM does not hold") {
    for (const Type t : {f16, f32}) {
        // row by row
        on_all(ops::depthwise_conv2d(t, 1, 20, 24, 25, 21, 21, ops::Conv2dOptions().padding(3)));
        ops::Conv2dOptions o;
        o.bias = o.residual = true;
        on_all(ops::depthwise_conv2d(t, 1, 3, 7, 300, 2, 291, o)); // tap by tap
    }
}

TEST_CASE("by the library: f32") {
    for (const ops::ImageLayout layout : {ops::ImageLayout::NCHW, ops::ImageLayout::NHWC}) {
        ops::Conv2dOptions o = ops::Conv2dOptions().padding(1);
        o.layout = layout;
        on_all(ops::conv2d(f32, 2, 20, 9, 11, 24, 3, 3, o));
        on_all(ops::depthwise_conv2d(f32, 2, 40, 9, 11, 3, 3, o));
        o.bias = o.residual = true;
        o.activation = "relu";
        on_all(ops::depthwise_conv2d(f32, 1, 7, 14, 9, 5, 5, o.stride(2)));
        o.groups = 2;
        on_all(ops::conv2d(f32, 1, 36, 9, 10, 24, 3, 3, o));
    }
    on_all(ops::conv2d(f32, 1, 3, 33, 31, 16, 7, 7, ops::Conv2dOptions().padding(3).stride(2)));
    on_all(ops::conv2d(f32, 1, 17, 12, 12, 5, 1, 1));
    on_all(ops::conv2d(f32, 1, 1, 3, 3, 1, 3, 3));
}

TEST_CASE("one matrix at a time, for windows that fill what there is") {
    const Op op = ops::conv2d(f16, 1, 40, 15, 15, 20, 7, 7, ops::Conv2dOptions().dilation(2));
    const sim::Config config = sim::Config::load("small");
    const Machine m = chip_machine(config);
    library::ChipConvParameters p = library::chip_conv_parameters(op, m);
    for (const char *copy : {"row", "tap"}) {
        p.depth.set(1, "depth");
        p.image.set(copy, "image");
        p.weights.set("tap", "weights");
        equal_to_formula(compile_chip(library::schedule_chip_conv(op, m, p), config));
    }
}

TEST_CASE("errors name a legal alternative") {
    const Machine m = chip_machine(sim::Config::load("small"));
    const Op op = ops::conv2d(f16, 1, 16, 40, 40, 16, 3, 3);
    library::ChipConvParameters p = library::chip_conv_parameters(op, m);
    p.rows = Tile(38);
    p.columns = Tile(38);
    CHECK_THROWS_WITH_AS(compile_chip(library::schedule_chip_conv(op, m, p)), doctest::Contains("smaller tiles"),
                         UserError);
}
