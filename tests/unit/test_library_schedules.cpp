// The library's schedules with their defaults and at random points of their spaces: equal bits with
// the interpreter on integers, within the propagated bound for inexact ops. One file, because it is
// one list of templates with the same checks.
// Links: driver
// Sanitized: --test-case=*requantised*,*transposed
#include "driver/default_schedule.h"
#include "driver/kernel.h"
#include "dsl/interpret.h"
#include "dsl/padding.h"
#include "dsl/reduction.h"
#include "ops/ops.h"
#include "schedules/library/gemv.h"
#include "schedules/library/matmul.h"
#include "schedules/library/table.h"
#include "targets/lower/nest.h"
#include "tests/unit/space_points.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace kumiko;

namespace {

struct Run {
    std::vector<Buffer<>> inputs, outputs;
};

Run run(const Schedule &s, const Sizes &sizes) {
    const Op &op = s.op();
    const Kernel k = compile(s);
    Run r;
    uint64_t seed = 1;
    std::vector<Buffer<>> all;
    for (const Input &in : op.inputs()) {
        r.inputs.push_back(make_input(in, sizes));
        fill_random_integers(r.inputs.back(), seed++, -3, 3);
        const std::string &packed = k.nest().tensors[all.size()].packed_from;
        all.push_back(packed.empty() ? r.inputs.back() : k.pack(packed, r.inputs.back(), sizes));
    }
    for (const std::string &o : op.outputs()) {
        r.outputs.push_back(make_output(op, o, sizes));
        fill_unwritten(r.outputs.back());
        all.push_back(r.outputs.back());
    }
    k(all);
    return r;
}

void check_schedule(const Schedule &s, const Sizes &sizes, bool exact) {
    CAPTURE(s.to_cpp());
    const Run r = run(s, sizes);
    if (exact) {
        InterpretOptions options;
        options.sizes = sizes;
        const Results expected = interpret(s.op(), r.inputs, options);
        for (size_t o = 0; o < expected.size(); o++) CHECK_EQ(difference(r.outputs[o], expected[o]), "");
    } else {
        const Bounded expected = interpret_with_bound(s.op(), r.inputs, sizes);
        for (size_t o = 0; o < expected.values.size(); o++) {
            CHECK_NOTHROW(check_within(r.outputs[o], expected.values[o], expected.bounds[o]));
        }
    }
}

void check_op(const Op &op, const std::string &expected_template, bool exact = true, const Sizes &sizes = {},
              int points = 2) {
    CAPTURE(op.to_string());
    const Machine host = Machine::host();
    const LibraryTemplate *t = nullptr;
    for (const LibraryTemplate &one : library::templates()) {
        if (one.name == expected_template && one.matches(op)) t = &one;
    }
    REQUIRE(t);
    const auto space = t->make_space(op, host);
    for_points(*space, points, 7, [&](const Schedule &s) { check_schedule(s, sizes, exact); });
}

} // namespace

TEST_CASE("products of matrices of every size and storage") {
    for (int n : {3, 16, 37, 64}) check_op(ops::matmul(f32, n, n + 1, n + 2), "matmul");
    check_op(ops::matmul(f64, 33, 20, 17), "matmul");
    check_op(ops::matmul(f32, 130, 70, 300), "matmul");
    for (bool ta : {false, true}) {
        for (bool tb : {false, true}) {
            ops::MatmulOptions o;
            o.transpose_a = ta;
            o.transpose_b = tb;
            o.bias = true;
            o.activation = "relu";
            check_op(ops::matmul(f32, 29, 40, 50, o), "matmul");
        }
    }
    ops::MatmulOptions batched;
    batched.batch = 3;
    check_op(ops::matmul(f32, 20, 18, 24, batched), "matmul");
    check_op(ops::matmul(i8, 20, 18, 24), "matmul");
}

TEST_CASE("products with a pre-packed second operand") {
    const auto ahead = [](const Op &op, const Sizes &sizes = {}) {
        const auto space = library::find_template(op)->make_space(op, Machine::host());
        Json point = space->to_json(space->default_point());
        point["pack_b"] = "ahead";
        CHECK(!space->reason_against(space->from_json(point)).empty());
        const Schedule s = space->schedule(space->from_json(point));
        CHECK(compile(s).nest().tensors[1].packed_from == "B");
        check_schedule(s, sizes, true);
    };
    ops::MatmulOptions o;
    o.bias = true, o.activation = "relu";
    for (bool transposed : {false, true}) {
        o.transpose_b = transposed;
        ahead(ops::matmul(f32, 29, 40, 50, o));
        ahead(ops::matmul(f32, 200, 70, 600, o));
    }
    ahead(ops::matmul(f32, Size("M"), 70, 33), {{"M", 21}});
    ahead(ops::matmul(u8, 33, 40, 50, {.b_type = i8}));
    ahead(ops::matmul(i8, 14, 19, 21));
    ahead(ops::matmul(f32, 20, 18, 24, {.batch = 3}));
}

TEST_CASE("two products that one stage joins") {
    Axis i("i", 20), j("j", 70), k("k", 30);
    Tensor X = input("X", Float(32), {i, k}), U = input("U", Float(32), {k, j}), V = input("V", Float(32), {k, j});
    Tensor A = compute("A", {i, j}, sum(X(i, k) * U(k, j), k)), B = compute("B", {i, j}, sum(X(i, k) * V(k, j), k));
    check_op(Op("joined", {X, U, V}, {compute("G", {i, j}, A(i, j) * max(B(i, j), 0.f))}), "elementwise");
}

TEST_CASE("sums of bytes that are requantised at their end") {
    for (Type to : {i8, u8}) {
        ops::MatmulOptions o{
            .bias = true, .activation = "relu", .b_type = i8, .output = to, .requantise = true, .zero_point = 7};
        check_op(ops::matmul(u8, 33, 40, 50, o), "matmul", true, {}, 4);
        check_op(ops::matmul(u8, 5, 7, 3, o), "matmul");
        check_op(ops::matmul(u8, 1, 40, 70, o), "gemv");
    }
}

TEST_CASE("products with a few columns, as dot products") {
    for (const auto &[m, n, k] : {std::tuple(1, 2, 1000), {2, 3, 700}, {5, 2, 333}, {37, 4, 260}, {3, 6, 1001}})
        check_op(ops::matmul(f32, m, n, k), "dots");
    check_op(ops::matmul(f64, 9, 2, 200), "dots");
    ops::MatmulOptions o;
    o.bias = true, o.activation = "relu", o.batch = 2;
    check_op(ops::matmul(f32, 7, 3, 300, o), "dots");
    o.transpose_b = true;
    check_op(ops::matmul(f32, 7, 3, 300, o), "dots");
    check_op(ops::matmul(f32, 0, 2, 300), "dots");
    check_op(ops::matmul(f32, 3, 3, 20000), "dots"); // columns that exceed L1
    for (const auto &[m, n, k] :
         // also with a last block in registers
         {std::tuple(38, 4, 260), {70, 1, 17}, {70, 1, 64}, {71, 1, 640}}) {
        const Op op = ops::matmul(f32, m, n, k);
        const auto space = library::find_template(op)->make_space(op, Machine::host());
        CHECK(compile(space->schedule(space->default_point())).warnings().empty());
    }
    CHECK_EQ(library::find_template(ops::matmul(f32, 64, 8, 512))->name, "matmul");
    CHECK_EQ(library::find_template(ops::matmul(f32, Size("M"), 2, 512))->name, "matmul");
}

TEST_CASE("products of a matrix with a vector") {
    for (bool transposed : {false, true}) {
        ops::MatmulOptions o;
        o.transpose_b = transposed;
        for (int n : {1, 7, 40, 130}) check_op(ops::matmul(f32, 1, n, 2 * n + 1, o), "gemv");
        check_op(ops::matmul(f32, 70, 1, 33, o), "gemv"); // the vector is B
        check_op(ops::matmul(f32, 1, 1, 300, o), "gemv"); // either
        for (int k : {15, 16, 17, 24, 31, 32, 63, 64}) check_op(ops::matmul(f32, 1, 9, k, o), "gemv");
        o.bias = true;
        o.activation = "relu";
        check_op(ops::matmul(f32, 1, 100, 300, o), "gemv");
        o.batch = 3;
        check_op(ops::matmul(f64, 1, 20, 50, o), "gemv");
    }
    check_op(ops::matmul(i8, 1, 20, 50), "gemv");
    for (int k : {1, 2, 3, 5, 8, 13}) { // rows shorter than a vector
        check_op(ops::matmul(f32, 70, 1, k), "gemv");
        check_op(ops::matmul(f32, 3, 1, k), "gemv");
        for (int m : {0, 37}) check_op(ops::matmul(f32, Size("M"), 1, k), "gemv", true, {{"M", m}});
    }
    Axis i("i", 33), k("k", 75);
    Tensor A = input("A", f32, {i, k}), T = input("T", f32, {k, i}), x = input("x", f32, {k});
    check_op(Op("mv", {A, x}, {compute("y", {i}, sum(A(i, k) * x(k), k))}), "gemv");
    check_op(Op("vm", {x, T}, {compute("y", {i}, sum(x(k) * T(k, i), k))}), "gemv");
    CHECK_THROWS_WITH_AS(library::gemv(ops::softmax(f32, 3, 4)),
                         doctest::Contains("is neither a product of a matrix with a vector nor of two matrices"),
                         UserError);
    CHECK_THROWS_WITH_AS(library::matmul(ops::softmax(f32, 3, 4)), doctest::Contains("is not a product of matrices"),
                         UserError);
}

TEST_CASE("story 8: any number of rows, with schedules of their own for some") {
    Size M("M");
    for (bool transposed : {false, true}) {
        ops::MatmulOptions o;
        o.transpose_b = transposed;
        const Op op = ops::matmul(f32, M, 96, 70, o);
        Schedule s = library::matmul(op);
        s.specialize(M % 14 == 0).specialize(M == 1, library::gemv(op));
        for (int m : {0, 1, 2, 13, 14, 15, 28}) check_schedule(s, {{"M", m}}, true);
    }
}

TEST_CASE("products whose sizes are known only at run time") {
    Size M("M"), N("N"), K("K");
    const Op rows = ops::matmul(f32, M, 48, 40);
    for (int m : {0, 1, 5, 6, 31, 64}) check_op(rows, "matmul", true, {{"M", m}}, 0);
    const Op all = ops::matmul(f32, M, N, K);
    for (int m : {1, 13, 40}) check_op(all, "matmul", true, {{"M", m}, {"N", m + 3}, {"K", 2 * m}}, 0);
}

TEST_CASE("convolutions: windows, strides, dilation, groups, layouts") {
    for (const auto layout : {ops::ImageLayout::NCHW, ops::ImageLayout::NHWC}) {
        ops::Conv2dOptions o;
        o.layout = layout;
        check_op(ops::conv2d(f32, 1, 5, 9, 11, 7, 3, 3, ops::Conv2dOptions(o).padding(1)), "conv");
        check_op(ops::conv2d(f32, 2, 4, 12, 13, 8, 1, 1, o), "conv");
        check_op(ops::conv2d(f32, 1, 3, 14, 15, 8, 5, 3, ops::Conv2dOptions(o).stride(2).padding(2)), "conv");
        check_op(ops::conv2d(f32, 1, 3, 14, 15, 8, 3, 3, ops::Conv2dOptions(o).dilation(2)), "conv");
        check_op(ops::depthwise_conv2d(f32, 1, 6, 10, 18, 3, 3, ops::Conv2dOptions(o).padding(1)), "conv");
        ops::Conv2dOptions grouped = o;
        grouped.groups = 2;
        grouped.bias = true;
        grouped.activation = "relu";
        check_op(ops::conv2d(f32, 1, 4, 9, 9, 6, 3, 3, grouped.padding(1)), "conv");
    }
}

TEST_CASE("convolutions in vectors of filters") {
    ops::Conv2dOptions o;
    o.bias = true, o.activation = "relu";
    check_op(ops::conv2d(f32, 1, 5, 12, 11, 24, 3, 3, ops::Conv2dOptions(o).padding(1)), "conv_filters", true, {}, 6);
    check_op(ops::conv2d(f32, 2, 3, 14, 15, 9, 5, 3, ops::Conv2dOptions(o).stride(2).padding(2)), "conv_filters");
    check_op(ops::conv2d(f32, 1, 40, 14, 13, 144, 1, 1, ops::Conv2dOptions(o).stride(2)), "conv_filters", true, {}, 6);
    // few pixels, long sums
    check_op(ops::conv2d(f32, 2, 300, 5, 7, 130, 1, 1, o), "conv_filters", true, {}, 6);
    check_op(ops::conv2d(f64, 1, 4, 14, 15, 17, 3, 3, ops::Conv2dOptions().dilation(2)), "conv_filters");
    ops::Conv2dOptions grouped = o;
    grouped.groups = 2;
    check_op(ops::conv2d(f32, 2, 8, 9, 9, 16, 3, 3, grouped.padding(1)), "conv_filters");
    check_op(ops::conv1d(f32, 2, 12, 60, 16, 3), "conv_filters");
    check_op(ops::conv3d(f32, 1, 3, 4, 6, 11, 8, 2, 3, 3), "conv_filters");
    check_op(ops::conv2d(i8, 1, 5, 14, 11, 8, 3, 3), "conv_filters");
    check_op(ops::conv2d(i8, 1, 6, 14, 11, 24, 3, 3, ops::Conv2dOptions().padding(1)), "conv_filters", true, {}, 8);
    check_op(ops::conv2d(i8, 2, 40, 14, 13, 144, 1, 1), "conv_filters", true, {}, 6);
    for (int c : {33, 65, 66, 67}) // a remainder of the channels; planes that are stored by rows
        check_op(ops::conv2d(f32, 1, c, 20, 20, 40, 1, 1, ops::Conv2dOptions(o).stride(2)), "conv_filters");
    check_op(ops::conv2d(f32, 1, 66, 14, 14, 64, 1, 1), "conv_filters");
    Axis n("n", 1), f("f", 64), y("y", 15), x("x", 15), ky("ky", 6), kx("kx", 6);
    // no channels
    Tensor X = input("X", i8, {n, Axis("yi", 20), Axis("xi", 20)}), W = input("W", i8, {f, ky, kx});
    check_op(Op("windows", {X, W},
                {compute("Y", {n, f, y, x}, sum(cast(i32, X(n, y + ky, x + kx)) * cast(i32, W(f, ky, kx)), {ky, kx}))}),
             "conv_filters", true, {}, 4);
    check_op(ops::conv2d(bf16, 1, 6, 9, 11, 24, 3, 3, ops::Conv2dOptions().padding(1)), "conv_filters", false, {}, 6);
    check_op(ops::conv2d(f32, 1, 5, Size("H"), Size("W"), 16, 3, 3), "conv_filters", true, {{"H", 9}, {"W", 14}});
    const Op packed = ops::conv2d(f32, 1, 5, 12, 11, 20, 3, 3, ops::Conv2dOptions(o).padding(1));
    const auto space = library::find_template(packed)->make_space(packed, Machine::host());
    Json ahead = space->to_json(space->default_point());
    ahead["weights"] = "ahead";
    // a search does not change a kernel's signature
    CHECK(!space->reason_against(space->from_json(ahead)).empty());
    check_schedule(space->schedule(space->from_json(ahead)), {}, true);
    ops::Conv2dOptions last = o;
    last.layout = ops::ImageLayout::NHWC;
    check_op(ops::conv2d(f32, 1, 5, 12, 11, 24, 3, 3, ops::Conv2dOptions(last).padding(1)), "conv_filters", true, {},
             8);
    check_op(ops::conv2d(f32, 2, 3, 14, 15, 9, 5, 3, ops::Conv2dOptions(last).stride(2).padding(2)), "conv_filters");
    check_op(ops::conv2d(f32, 1, 40, 14, 13, 144, 1, 1, ops::Conv2dOptions(last).stride(2)), "conv_filters", true, {},
             6);
    check_op(ops::conv2d(f32, 2, 300, 5, 7, 130, 1, 1, last), "conv_filters", true, {}, 6);
    // one result of each filter
    check_op(ops::conv2d(f32, 1, 5, 3, 3, 16, 3, 3, last), "conv_filters");
    check_op(ops::conv1d(f32, 2, 12, 60, 16, 3, {.layout = ops::ImageLayout::NHWC}), "conv_filters");
    check_op(ops::conv3d(f32, 1, 3, 4, 6, 11, 8, 2, 3, 3, {.layout = ops::ImageLayout::NHWC}), "conv_filters");
    for (int c : {4, 5, 6}) { // whole pairs of channels, and a rest
        ops::Conv2dOptions bytes;
        bytes.layout = ops::ImageLayout::NHWC;
        check_op(ops::conv2d(i8, 1, c, 14, 11, 24, 3, 3, ops::Conv2dOptions(bytes).padding(1)), "conv_filters", true,
                 {}, 6);
        check_op(ops::conv2d(i8, 2, 10 * c, 7, 9, 20, 1, 1, bytes), "conv_filters", true, {}, 4);
    }
    check_op(ops::conv2d(f32, 1, 5, Size("H"), Size("W"), 16, 3, 3, last), "conv_filters", true, {{"H", 9}, {"W", 14}});
    CHECK_EQ(library::find_template(ops::conv2d(f32, 1, 64, 14, 14, 24, 1, 1, last))->name, "conv_filters");
    ops::Conv2dOptions last_grouped = last; // groups are an axis of both operands
    last_grouped.groups = 2;
    CHECK_EQ(library::find_template(ops::conv2d(f32, 1, 8, 9, 9, 16, 3, 3, last_grouped))->name, "conv");
    CHECK_EQ(library::find_template(ops::conv2d(f32, 1, 5, 14, 14, 24, 3, 3))->name, "conv_filters");
    // few filters
    CHECK_EQ(library::find_template(ops::conv2d(f32, 1, 5, 9, 11, 7, 3, 3))->name, "conv");
    // few results
    CHECK_EQ(library::find_template(ops::conv2d(f32, 1, 5, 8, 8, 24, 3, 3))->name, "conv");
    // short sums
    CHECK_EQ(library::find_template(ops::conv2d(f32, 1, 3, 14, 14, 24, 3, 3))->name, "conv");
    // rows are one run
    CHECK_EQ(library::find_template(ops::conv2d(f32, 1, 5, 9, 11, 24, 1, 1))->name, "conv");
}

TEST_CASE("depthwise convolutions in vectors along rows") {
    for (const int stride : {1, 2, 3}) {
        for (const int side : {5, 7, 14, 19, 33}) {
            const Op op =
                ops::depthwise_conv2d(f32, 1, 6, side, side + 1, 3, 3, ops::Conv2dOptions().stride(stride).padding(1));
            CHECK_EQ(library::find_template(op)->name, "depthwise");
            check_op(op, "depthwise");
        }
    }
    ops::Conv2dOptions fused;
    fused.bias = true, fused.activation = "relu";
    check_op(ops::depthwise_conv2d(f32, 2, 5, 16, 40, 5, 5, fused.padding(2).stride(2)), "depthwise", true, {}, 6);
    check_op(ops::depthwise_conv2d(f64, 1, 3, 15, 17, 3, 3, ops::Conv2dOptions().stride(2)), "depthwise");
    check_op(ops::depthwise_conv2d(i8, 1, 3, 15, 37, 3, 3, ops::Conv2dOptions().padding(1).stride(2)), "depthwise");
    check_op(ops::depthwise_conv2d(f32, 1, 3, 15, 17, 3, 3, ops::Conv2dOptions().padding(2).dilation(2)), "depthwise");
    // Columns of one element: vectors run along the rows.
    for (const int padding : {0, 4}) {
        const Axis c("c", 6), y("y", 25), x("x", 1), ky("ky", 9), kx("kx", 1), h("h", 33 - 2 * padding), w("w", 1);
        const Tensor X = input("X", f32, {c, h, w}), W = input("W", f32, {c, ky, kx});
        const Tensor image = padding ? zero_padded(X, {h}) : X;
        const Op columns("columns", {X, W},
                         {compute("Y", {c, y, x}, sum(image(c, y + ky - padding, x + kx) * W(c, ky, kx), {ky, kx}))});
        check_op(columns, "depthwise");
        const std::string nest = default_schedule(columns, Machine::host()).nest();
        CAPTURE(nest);
        CHECK(nest.find("vectorized y.i") != std::string::npos);
    }
    const Op any =
        ops::depthwise_conv2d(f32, 1, Size("C"), Size("H"), Size("W"), 3, 3, ops::Conv2dOptions().padding(1));
    for (const int w : {2, 9, 30}) check_op(any, "depthwise", true, {{"C", 3}, {"H", 11}, {"W", w}});
}

TEST_CASE("depthwise convolutions in vectors of channels") {
    const auto last = [](ops::Conv2dOptions o) {
        o.layout = ops::ImageLayout::NHWC;
        return o;
    };
    for (const int stride : {1, 2, 3}) {
        for (const int side : {2, 5, 7, 14, 19, 33}) {
            for (const int channels : {3, 16, 40}) {
                const Op op = ops::depthwise_conv2d(f32, 1, channels, side, side + 1, 3, 3,
                                                    last(ops::Conv2dOptions().stride(stride).padding(1)));
                CHECK_EQ(library::find_template(op)->name, "depthwise_last");
                check_op(op, "depthwise_last", true, {}, 2);
            }
        }
    }
    ops::Conv2dOptions fused;
    fused.bias = true, fused.activation = "relu";
    check_op(ops::depthwise_conv2d(f32, 2, 35, 16, 40, 5, 5, last(fused.padding(2).stride(2))), "depthwise_last", true,
             {}, 6);
    check_op(ops::depthwise_conv2d(f64, 1, 24, 15, 17, 3, 3, last(ops::Conv2dOptions().stride(2))), "depthwise_last");
    check_op(ops::depthwise_conv2d(i8, 1, 70, 15, 37, 3, 3, last(ops::Conv2dOptions().padding(1).stride(2))),
             "depthwise_last");
    check_op(ops::depthwise_conv2d(f32, 1, 48, 15, 17, 3, 3, last(ops::Conv2dOptions().padding(2).dilation(2))),
             "depthwise_last");
    const Op any =
        ops::depthwise_conv2d(f32, 1, Size("C"), Size("H"), Size("W"), 3, 3, last(ops::Conv2dOptions().padding(1)));
    for (const int c : {2, 20, 48}) check_op(any, "depthwise_last", true, {{"C", c}, {"H", 11}, {"W", 9}});
}

TEST_CASE("matrices of a few rows or columns, transposed") {
    for (const Type t : {Float(32), Int(8), Float(64)}) {
        for (const int few : {2, 3}) {
            for (const int many : {5, 8, 100}) {
                check_op(ops::transpose(t, few, many), "transpose");
                check_op(ops::transpose(t, many, few), "transpose");
            }
        }
    }
    check_op(ops::transpose(Bool(), 70, 37), "transpose");
    check_op(ops::transpose(Bool(), 3, 100), "transpose");
    check_op(ops::transpose(f32, Size("M"), 3), "transpose", true, {{"M", 37}});
    check_op(ops::transpose(f32, 2, Size("N")), "transpose", true, {{"N", 5}});
}

TEST_CASE("convolutions over sequences and volumes, and transposed ones") {
    for (const auto layout : {ops::ImageLayout::NCHW, ops::ImageLayout::NHWC}) {
        ops::ConvOptions o;
        o.layout = layout;
        check_op(ops::conv1d(f32, 2, 5, 40, 7, 3, o), "conv");
        check_op(ops::conv3d(f32, 1, 3, 4, 6, 11, 5, 2, 3, 3, o), "conv");
        o.stride = {2}, o.padding = {1}, o.bias = true, o.activation = "relu";
        check_op(ops::conv1d(f32, 1, 6, 33, 9, 5, o), "conv");
        check_op(ops::conv3d(f32, 2, 3, 5, 7, 9, 4, 3, 3, 3, o), "conv");
        o.groups = 2;
        check_op(ops::conv1d(f32, 1, 4, 20, 6, 3, o), "conv");
        check_op(ops::conv3d(f32, 1, 4, 5, 5, 6, 6, 3, 1, 2, o), "conv");
        ops::ConvTransposeOptions t;
        t.layout = layout;
        check_op(ops::conv_transpose2d(f32, 1, 4, 5, 9, 6, 3, 3, t), "conv");
        t.stride_y = t.stride_x = 2, t.padding_y = t.padding_x = 1, t.bias = true;
        check_op(ops::conv_transpose2d(f32, 2, 5, 6, 10, 7, 4, 4, t), "conv");
        t.output_padding_y = 1;
        // Some phases have one tap less.
        check_op(ops::conv_transpose2d(f32, 1, 3, 7, 12, 5, 3, 3, t), "conv");
    }
}

TEST_CASE("rows: softmax, norms, reductions") {
    for (int n : {1, 7, 64, 100}) {
        check_op(ops::softmax(f32, 9, n), "rows", false);
        check_op(ops::reduction("sum", f32, {5, n}, {1}), "rows");
        check_op(ops::reduction("max", f32, {5, n}, {1}), "rows");
    }
    check_op(ops::layer_norm(f32, 9, 96), "rows", false);
    check_op(ops::rms_norm(f32, 33, 40), "rows", false);
    check_op(ops::reduction("mean", f32, {3, 5, 40}, {2}), "rows", false);
    for (const bool channels_last : {false, true}) {
        check_op(ops::group_norm(f32, 2, 12, 5, 7, 3, 1e-3, channels_last), "rows", false);
        check_op(ops::group_norm(f32, 1, 32, 6, 6, 2, 1e-3, channels_last), "rows", false);
        const Op any = ops::group_norm(f32, 2, 12, Size("H"), Size("W"), 3, 1e-3, channels_last);
        check_op(any, "rows", false, {{"H", 5}, {"W", 19}}, 0);
    }
    check_op(ops::reduction("sum", f32, {5, 6, 20}, {1, 2}), "rows"); // rows of several axes
    check_op(ops::reduction("max", i32, {3, 5, 20}, {0, 2}), "rows");
    // rows that are apart
    for (int n : {7, 40, 64}) check_op(ops::reduction("sum", f32, {20, 6, n}, {0, 2}), "rows");
    // Rows of half a vector.
    check_op(ops::group_norm(f32, 1, 64, 14, 14, 8, 1e-3, true), "rows", false);
    for (int n : {4, 10, 12, 20, 24, 30, 31}) { // a few vectors, or less than one
        check_op(ops::softmax(f32, 9, n), "rows", false);
        check_op(ops::reduction("sum", f32, {9, n}, {1}), "rows");
        check_op(ops::layer_norm(f64, 5, n), "rows", false);
    }
    for (int n : {17, 40, 100, 300}) {
        for (const char *kind : {"argmax", "argmin"}) check_op(ops::reduction(kind, f32, {5, n}, {1}), "rows");
        check_op(ops::reduction("argmax", i8, {3, 4, n}, {0, 2}), "rows");
    }
}

TEST_CASE("attention") {
    check_op(ops::attention(f32, 1, 2, 20, 20, 8), "attention", false);
    check_op(ops::attention(f32, 2, 3, 37, 29, 12, {.causal = true}), "attention", false);
    check_op(ops::attention(f32, 1, 4, 16, 33, 16, {.groups = 2, .values = 20}), "attention", false);
    check_op(ops::attention(f32, 1, 4, 1, 50, 24, {.causal = true, .groups = 2}), "attention", false);
    check_op(ops::attention(f64, 1, 1, 3, 7, 5), "attention", false);
    check_op(ops::attention(bf16, 1, 1, 18, 7, 6), "attention", false);
    const Op any = ops::attention(f32, 1, 2, Size("S"), Size("T"), 16);
    for (const int n : {1, 7, 16, 40, 64, 130}) check_op(any, "attention", false, {{"S", n}, {"T", n + 3}}, 0);
    const Op causal = ops::attention(f32, 1, 2, Size("S"), Size("T"), 16, {.causal = true});
    for (const int n : {3, 17, 70}) check_op(causal, "attention", false, {{"S", n}, {"T", n + 9}}, 0);
}

TEST_CASE("stages without a template of their own") {
    check_op(ops::unary("gelu", f32, 1000), "elementwise", false);
    check_op(ops::binary("add", f32, 1003), "elementwise");
    check_op(ops::reduction("sum", f32, {40, 37}, {0}), "reduce");
    check_op(ops::reduction("argmax", f32, {12, 37}, {1}), "rows");
    check_op(ops::reduction("sum", i32, {4, 5, 6}, {0, 1, 2}), "reduce");
    for (const char *kind : {"sum", "max", "argmin"}) {
        check_op(ops::reduction(kind, f32, {1, 40}, {0}), "reduce");
        check_op(ops::reduction(kind, f32, {3, 150, 300}, {1}), "reduce");
        check_op(ops::reduction(kind, i16, {5, 6, 7, 90}, {0, 2}), "reduce");
        check_op(ops::reduction(kind, f32, {700}, {0}), "reduce");
        check_op(ops::reduction(kind, f32, {Size("N"), 50}, {1}), "rows", true, {{"N", 0}});
    }
    for (const int n : {0, 1, 40})
        check_op(ops::reduction("sum", f32, {3, Size("N"), 5, Size("N")}, {1, 3}), "rows", true, {{"N", n}});
    for (const int n : {3, 16, 50, 2049, 5000}) // means follow their sums, block by block
        check_op(ops::reduction("mean", f32, {30, n}, {0}), "reduce", false, {}, 4);
    check_op(ops::reduction("mean", f32, {4, 9, 77}, {1}), "reduce", false);
    // sums that are read at other indices than their own
    Axis row("i", 70), column("j", 70), step("k", 5);
    Tensor X = input("X", f32, {step, row, column}), S = compute("S", {row, column}, sum(X(step, row, column), step));
    check_op(Op("differences", {X}, {compute("D", {row, column}, S(row, column) - S(column, row))}), "reduce");
    // Sums that a stencil reads through an inlined clamped tensor do not have the stencil as their
    // epilogue.
    Axis line("i", 64), place("j", 39), tap("k", 4);
    Tensor L = input("L", f32, {line, place}), W = input("W", f32, {line, tap}), around = zero_padded(L);
    Tensor F = compute("F", {line, place}, sum(around(line, place + tap - 2) * W(line, tap), tap)), near = clamped(F);
    check_op(Op("smooth", {L, W}, {compute("D", {line, place}, near(line, place - 1) + near(line, place + 1))}),
             "elementwise");
    check_op(ops::reduction("mean", f64, {4, 9, Size("N")}, {1}), "reduce", false, {{"N", 37}});
    for (const int n : {1, 7, 40})
        check_op(ops::reduction("mean", f32, {9, Size("N")}, {0}), "reduce", false, {{"N", n}});
    check_op(ops::permute(i8, {20, 3, 50}, {2, 1, 0}), "transpose");
    const Op any = ops::transpose(f32, Size("M"), Size("N"));
    for (const auto &[m, n] : {std::pair(0, 5), {3, 5}, {3, 70}, {70, 3}, {16, 8}, {37, 50}, {200, 130}})
        check_op(any, "transpose", true, {{"M", m}, {"N", n}});
    check_op(ops::permute(i8, {20, Size("B"), 50}, {2, 1, 0}), "transpose", true, {{"B", 3}});
    check_op(ops::permute(f32, {Size("A"), 3, 50}, {2, 0, 1}), "transpose", true, {{"A", 21}});
    check_op(ops::pad(f32, {7, 40}, {1, 3}, {2, 1}, 2.5), "elementwise");
    check_op(ops::slice(f32, {50, 90}, {20, 40}, {49, 1}, {-2, 2}), "elementwise");
    check_op(ops::concat(f32, {5}, {30, 17, 40}, 1), "elementwise");
    check_op(ops::concat(i8, {40}, {3, 1, 2}, 0), "elementwise");
    check_op(ops::one_hot(f32, 9, 40), "elementwise");
    check_op(ops::quantise(f32, u8, 100, {0.25, 7, 3}), "elementwise", false);
    check_op(ops::requantise(i8, 1000, {0.25, 7, {}}), "elementwise", false);
    check_op(ops::dequantise(u8, f32, 1000, {0.25, 7, {}}), "elementwise", false);
    for (const auto layout : {ops::ImageLayout::NCHW, ops::ImageLayout::NHWC}) {
        check_op(ops::resize_nearest(f32, 2, 20, 7, 9, 12, 30, {layout}), "elementwise");
        check_op(ops::resize_bilinear(f32, 2, 20, 7, 9, 12, 30, {layout}), "elementwise", false);
        check_op(ops::resize_bilinear(f32, 1, 3, 12, 40, 5, 17, {layout}), "elementwise", false);
    }
    Size N("N");
    for (int n : {0, 1, 15, 100}) check_op(ops::binary("mul", f32, N), "elementwise", true, {{"N", n}}, 1);
}

TEST_CASE("quantised numbers have the formula's bits, halves and all") {
    const Op requantised = ops::requantise(u8, 2000, {0.0125, 128, {}});
    for (const Op &op : {ops::quantise(f32, i8, 2000, {0.1, -3, {}}), ops::quantise(f32, u8, 2000, {0.25, 100, {}}),
                         ops::quantise(f16, i8, 2000, {0.3, 0, {}}), requantised}) {
        CAPTURE(op.to_string());
        Buffer<> x = make_input(op.inputs()[0], {}), y = make_output(op, "Y", {});
        x.type() == halide_type_t(i32) ? fill_random_integers(x, 1, -20000, 20000) : fill_random(x, 1, -40, 40);
        if (x.type() == halide_type_t(f32)) { // halves, and what saturates
            auto *values = reinterpret_cast<float *>(x.data());
            for (int i = 0; i < 400; i++) values[i] = static_cast<float>(i - 200) * 0.125f;
            values[400] = 1e20f, values[401] = -INFINITY, values[402] = NAN;
        }
        const auto space = library::find_template(op)->make_space(op, Machine::host());
        compile(space->schedule(space->default_point()))(std::vector<Buffer<>>{x, y});
        CHECK_EQ(difference(y, interpret(op, x)), "");
    }
}

TEST_CASE("default schedules fit the machines that are compiled for") {
    for (const std::string &name : Machine::names()) {
        const Machine machine = Machine::named(name);
        const auto fits = [&](const Op &op) {
            INFO(op.to_string());
            const auto space = library::find_template(op)->make_space(op, machine);
            CHECK_NOTHROW(space->schedule(space->default_point()));
        };
        for (const int n : {1, 20, 300, 3000}) {
            for (const Type type : {Float(16), Float(32), Float(64)}) {
                fits(ops::attention(type, 1, 4, n, n, 64, {.groups = 2}));
                fits(ops::attention(type, 1, 1, n, 50, n));
                fits(ops::group_norm(type, 1, 64, n, 3, 4));
                fits(ops::group_norm(type, 1, 64, n, 3, 4, 1e-5, true));
                fits(ops::cumulative_sum(type, {3, n}, -1));
                fits(ops::cumulative_sum(type, {n, n}, 0));
                fits(ops::conv1d(type, 1, n, 100, 7, 3));
                fits(ops::conv_transpose2d(type, 1, n, 9, 14, 7, 3, 3, {.stride_y = 2, .stride_x = 2}));
            }
        }
        for (const Type type : {Float(32), Float(64), Int(32)}) {
            INFO(name, " ", type_name(type));
            for (const int n : {20, 1000, 3000}) CHECK_NOTHROW(library::matmul(ops::matmul(type, n, n, n), machine));
            CHECK_NOTHROW(library::matmul(ops::matmul(type, Size("M"), Size("N"), Size("K")), machine));
            CHECK_NOTHROW(library::matmul(ops::matmul(type, Size("M"), 3000, 3000), machine));
        }
    }
}
