// Convolutions on the chip's matrix units: windows share the elements of a tile, zeros around the image are padding.
// Links: ops
#include "dsl/interpret.h"
#include "ops/ops.h"
#include "targets/chip/compile.h"

#include <doctest/doctest.h>

using namespace kumiko;

namespace {

// Output channels are the matrix's rows, input channels its columns, pixels its vectors; MABs take rows of the image.
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

void check(int N, int C, int H, int W, int O, int K, const ops::Conv2dOptions &options) {
    const sim::Config config = sim::Config::load("small");
    const Op op = ops::conv2d(f16, N, C, H, W, O, K, K, options);
    CAPTURE(op.to_string());
    const bool padded = op.stages().front().kind == Stage::Kind::Padding;
    const ChipProgram p = compile_chip(conv_schedule(op, config, padded), config);
    std::vector<Buffer<>> arrays;
    uint64_t seed = 1;
    for (const Input &in : op.inputs()) {
        arrays.push_back(make_input(in, {}));
        fill_random_integers(arrays.back(), seed++, -4, 4);
    }
    const Buffer<> expected = interpret(op, arrays).front();
    arrays.push_back(make_output(op, op.outputs().front(), {}));
    fill_unwritten(arrays.back());
    const sim::Run run = p.run(arrays);
    CHECK(difference(arrays.back(), expected) == "");
    MESSAGE(run.cycles() << " cycles, of the bound " << run.efficiency());
}

} // namespace

TEST_CASE("1x1") { check(2, 32, 6, 8, 48, 1, {}); }
TEST_CASE("3x3, without a border") { check(1, 20, 8, 12, 32, 3, {}); }
TEST_CASE("3x3, with zeros around") { check(2, 16, 8, 8, 32, 3, ops::Conv2dOptions().padding(1)); }
TEST_CASE("3x3, every second") { check(1, 16, 13, 17, 16, 3, ops::Conv2dOptions().padding(1).stride(2)); }
TEST_CASE("3x3, dilated") { check(1, 16, 9, 9, 16, 3, ops::Conv2dOptions().padding(2).dilation(2)); }
