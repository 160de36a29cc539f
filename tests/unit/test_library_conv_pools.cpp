// Convolutions whose results are pooled, tile by tile in cache or afterwards: their recognition and
// their default schedules.
// Links: driver
// Sanitized: --test-case=*by*hand*,*bytes*
#include "driver/default_schedule.h"
#include "dsl/padding.h"
#include "ops/ops.h"
#include "ops/pool.h"
#include "schedules/library/table.h"
#include "tests/unit/check_runs.h"
#include "tests/unit/space_points.h"

using namespace kumiko;

namespace {

struct Pool {
    const char *kind;
    int window, stride, padding;
};

ops::Conv2dOptions with(ops::Conv2dOptions o, const Pool &p) {
    o.pool = p.kind, o.pool_window = p.window, o.pool_stride = p.stride, o.pool_padding = p.padding;
    return o;
}

ops::Conv2dOptions layer(ops::ImageLayout layout) {
    ops::Conv2dOptions o = ops::Conv2dOptions().padding(1);
    o.layout = layout, o.bias = true, o.activation = "relu";
    return o;
}

constexpr auto layouts = {ops::ImageLayout::NCHW, ops::ImageLayout::NHWC};

// Values are small integers; means of 4 are exact, those of 9 are rounded.
void check(const Schedule &s) {
    if (s.op().stage("Y").is_reduction() || s.op().to_string().find("0.25") != std::string::npos) return check_runs(s);
    INFO(s.nest());
    std::vector<Buffer<>> args;
    for (const Input &in : s.op().inputs()) {
        args.push_back(make_input(in, {}));
        fill_random(args.back(), args.size(), -1, 1);
    }
    const Bounded meant = interpret_with_bound(s.op(), args);
    args.push_back(make_output(s.op(), "Y", {}));
    fill_unwritten(args.back());
    compile(s)(args);
    check_within(args.back(), meant.values[0], meant.bounds[0]);
}

void check_space(const Op &op, const std::string &expected, int points) {
    INFO(op.to_string());
    const LibraryTemplate *t = library::find_template(op);
    REQUIRE(t);
    CHECK(t->name == expected);
    const auto space = t->make_space(op, Machine::host());
    for_points(*space, points, 5, check);
}

std::string nest_of(const Op &op) { return default_schedule(op, Machine::named("x86-64-avx2")).nest(); }

} // namespace

TEST_CASE("a convolution with a pool is the pool of the convolution") {
    for (const auto layout : layouts) {
        for (const Pool &p : {Pool{"max", 2, 2, 0}, {"max", 3, 2, 1}, {"max", 3, 1, 0}, {"average", 2, 2, 0}}) {
            const ops::Conv2dOptions plain = layer(layout);
            const bool average = std::string(p.kind) == "average";
            const Op conv = ops::conv2d(f64, 2, 3, 9, 8, 4, 3, 3, plain),
                     pooled = ops::conv2d(f64, 2, 3, 9, 8, 4, 3, 3, with(plain, p));
            const auto pool = (average ? ops::average_pool : ops::max_pool)(
                f64, 2, 4, 9, 8, p.window, p.window, {.layout = layout, .stride = p.stride, .padding = p.padding});
            std::vector<Buffer<>> in;
            for (const Input &i : conv.inputs()) {
                in.push_back(make_input(i, {}));
                fill_random(in.back(), in.size(), -1, 1);
            }
            const Results whole = interpret(conv, in);
            CHECK(difference(interpret(pooled, in)[0], interpret(pool, {whole[0]})[0]) == "");
        }
    }
    CHECK(refusal([] {
              ops::conv2d(f32, 1, 4, 8, 8, 4, 3, 3, with({}, {"least", 2, 2, 0}));
          }).starts_with("conv2d: the pool is \"least\"; legal is max, average, or none"));
    CHECK(refusal([] {
              ops::conv2d(f32, 1, 4, 8, 8, 4, 3, 3, with({}, {"max", 2, 2, 2}));
          }).starts_with("conv2d: a pool of windows of 2 with stride 2 and padding 2; legal are"));
    CHECK(refusal([] {
              ops::conv2d(f32, 1, 4, 8, 8, 4, 3, 3, with({}, {"average", 3, 2, 1}));
          }).starts_with("conv2d: an average pool with padding 1; legal is 0"));
    CHECK(refusal([] {
              ops::conv2d(f32, 1, 4, 8, 8, 4, 3, 3, with({}, {"max", 7, 1, 0}));
          }).starts_with("conv2d: a pool window of 7 is larger than its input with padding, 6"));
    CHECK(refusal([] {
              ops::conv2d(i8, 1, 4, 8, 8, 4, 3, 3, with({}, {"average", 2, 2, 0}));
          }).starts_with("conv2d: an average pool takes floats, not i32; legal is max"));
    CHECK(refusal([] {
              ops::winograd_conv2d(f32, 1, 4, 8, 8, 4, 2, with({}, {"max", 2, 2, 0}));
          }).starts_with("winograd_conv2d: there is a pool"));
}

TEST_CASE("pooled convolutions of any size are what the formula says") {
    for (const auto layout : layouts) {
        for (const Pool &p : {Pool{"max", 2, 2, 0},
                              {"average", 2, 2, 0},
                              {"max", 3, 2, 0},
                              {"max", 3, 2, 1},
                              {"average", 3, 2, 0},
                              {"max", 2, 3, 0}}) {
            const ops::Conv2dOptions o = with(layer(layout), p);
            check_space(ops::conv2d(f32, 1, 5, 12, 17, 24, 3, 3, o), "conv_filters", 3);
            check_space(ops::conv2d(f32, 2, 3, 37, 40, 16, 5, 5, ops::Conv2dOptions(o).stride(2)), "conv_filters", 2);
            check_space(ops::conv2d(f32, 1, 80, 16, 16, 20, 1, 1, ops::Conv2dOptions(o).padding(0)), "conv_filters", 2);
            check_space(ops::conv2d(f32, 1, 5, 12, 17, 4, 3, 3, o), "conv", 2);
        }
        ops::Conv2dOptions plain =
            with(ops::Conv2dOptions(), {"max", 2, 2, 0}); // no stage between the sum and the pool
        plain.layout = layout;
        check_space(ops::conv2d(f32, 1, 5, 12, 17, 24, 3, 3, plain), "conv_filters", 2);
        ops::Conv2dOptions grouped = with(layer(layout), {"max", 2, 2, 0});
        grouped.groups = 2;
        check_space(ops::conv2d(f32, 2, 6, 12, 12, 32, 3, 3, grouped),
                    layout == ops::ImageLayout::NCHW ? "conv_filters" : "conv", 3);
    }
    check_space(ops::depthwise_conv2d(f32, 1, 6, 18, 21, 3, 3, with(layer(ops::ImageLayout::NCHW), {"max", 2, 2, 0})),
                "depthwise", 3);
}

TEST_CASE("pooled convolutions of bytes") {
    for (const auto layout : layouts) {
        for (const Type image : {i8, u8}) {
            ops::Conv2dOptions o = with(layer(layout), {"max", 2, 2, 0});
            o.w_type = i8;
            check_space(ops::conv2d(image, 1, 12, 12, 17, 24, 3, 3, o), "conv_filters", 3);
            o.output = u8, o.requantise = true;
            check_space(ops::conv2d(image, 1, 12, 12, 17, 24, 3, 3, o), "conv_filters", 3);
        }
    }
}

TEST_CASE("pooled convolutions of run-time sizes") {
    const ops::Conv2dOptions o = with(layer(ops::ImageLayout::NCHW), {"max", 2, 2, 0});
    const Op op = ops::conv2d(f32, 1, 5, Size("H"), Size("W"), 24, 3, 3, o);
    check_runs(default_schedule(op, Machine::host()), {{"H", 13}, {"W", 21}});
}

TEST_CASE("the rows that a pool needs are computed in its loop where windows do not overlap") {
    const ops::Conv2dOptions o = layer(ops::ImageLayout::NCHW);
    const std::string tiled = nest_of(ops::conv2d(f32, 1, 64, 56, 56, 64, 3, 3, with(o, {"max", 2, 2, 0})));
    CHECK(tiled.find("compute conv.sum, the part that one y.o needs") != std::string::npos);
    CHECK(tiled.find("at the end: conv(…) = …") != std::string::npos);
    CHECK(tiled.find("accumulate Y in registers") != std::string::npos);
    CHECK(tiled.find("copy W.L2 of W in L2") < tiled.find("compute conv.sum"));
    ops::Conv2dOptions bytes = with(o, {"max", 2, 2, 0});
    bytes.w_type = i8, bytes.output = u8, bytes.requantise = true;
    const std::string narrow = nest_of(ops::conv2d(u8, 1, 64, 56, 56, 64, 3, 3, bytes));
    CHECK(narrow.find("needs\n") != std::string::npos);
    // rows of 28: half a vector of bytes
    CHECK(narrow.find("vectorized x.i in 0..16") != std::string::npos);
    const std::string after = nest_of(ops::conv2d(f32, 1, 64, 56, 56, 64, 3, 3, with(o, {"max", 3, 2, 1})));
    CHECK(after.find("compute conv.sum\n") != std::string::npos);
    const std::string pool = after.substr(after.find("compute Y\n"));
    CHECK(pool.find("parallel o") != std::string::npos);
    CHECK(pool.find("vectorized x.i") != std::string::npos);
}

TEST_CASE("a user's pool, with other names of axes") {
    Axis n("n", 1), c("c", 6), h("h", 14), w("w", 18), f("f", 16), r("r", 3), s("s", 3), i("i", 7), j("j", 9),
        a("a", 2), b("b", 2);
    Tensor X = input("X", f32, {n, c, h, w}), K = input("K", f32, {f, c, r, s}), add = input("add", f32, {f});
    const Tensor P = zero_padded(X, {h, w});
    const Tensor T =
        compute("T", {n, f, h, w}, max(sum(P(n, c, h + r - 1, w + s - 1) * K(f, c, r, s), {c, r, s}) + add(f), 0.0f));
    const Op op("layer", {X, K, add}, {compute("out", {n, f, i, j}, maximum(T(n, f, i * 2 + a, j * 2 + b), {a, b}))});
    CHECK(nest_of(op).find("compute T.sum, the part that one i.o needs") != std::string::npos);
    check_runs(default_schedule(op, Machine::host()));
}
