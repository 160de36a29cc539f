// The op factories: formulas, shapes and types of all ops, and the registry.
#include "dsl/interpret.h"
#include "ops/ops.h"
#include "ops/registry.h"
#include "support/error.h"
#include "tests/unit/op_reference.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace kumiko;

namespace {

// A convolution written as loops, over arrays without the axis of groups. Functions compute the
// indices, so that one loop nest handles both layouts.
void check_conv(const ops::Conv2dOptions &o, int C, int H, int W, int O, int K) {
    const Op op = ops::conv2d(f64, 2, C, H, W, O, K, K, o);
    const std::vector<Buffer<>> in = random_inputs(op);
    const Buffer<> y = interpret(op, in);
    const bool nhwc = o.layout == ops::ImageLayout::NHWC;
    const int OH = (H + o.pad_top + o.pad_bottom - o.dilation_y * (K - 1) - 1) / o.stride_y + 1;
    const int OW = (W + o.pad_left + o.pad_right - o.dilation_x * (K - 1) - 1) / o.stride_x + 1;
    const int Cg = C / o.groups, Og = O / o.groups;
    const auto *xs = reinterpret_cast<const double *>(in[0].raw_buffer()->host),
               *ws = reinterpret_cast<const double *>(in[1].raw_buffer()->host),
               *ys = reinterpret_cast<const double *>(y.raw_buffer()->host);
    const auto image = [&](const double *p, int n, int c, int yy, int xx, int cs, int hs, int wss) {
        return nhwc ? p[((n * hs + yy) * wss + xx) * cs + c] : p[((n * cs + c) * hs + yy) * wss + xx];
    };
    double worst = 0;
    for (int n = 0; n < 2; n++)
        for (int oc = 0; oc < O; oc++)
            for (int p = 0; p < OH; p++)
                for (int q = 0; q < OW; q++) {
                    double acc = 0;
                    for (int c = 0; c < Cg; c++)
                        for (int r = 0; r < K; r++)
                            for (int s = 0; s < K; s++) {
                                const int yy = p * o.stride_y + r * o.dilation_y - o.pad_top,
                                          xx = q * o.stride_x + s * o.dilation_x - o.pad_left;
                                if (yy < 0 || yy >= H || xx < 0 || xx >= W) continue;
                                const double w =
                                    nhwc ? ws[((r * K + s) * Cg + c) * O + oc] : ws[((oc * Cg + c) * K + r) * K + s];
                                acc += image(xs, n, oc / Og * Cg + c, yy, xx, C, H, W) * w;
                            }
                    if (o.bias) acc += reinterpret_cast<const double *>(in[2].raw_buffer()->host)[oc];
                    if (o.activation == "relu") acc = std::max(acc, 0.0);
                    worst = std::max(worst, std::abs(acc - image(ys, n, oc, p, q, O, OH, OW)));
                }
    CHECK(worst < 1e-12);
}

} // namespace

TEST_CASE("convolutions in both layouts") {
    for (auto layout : {ops::ImageLayout::NCHW, ops::ImageLayout::NHWC}) {
        ops::Conv2dOptions o;
        o.layout = layout;
        check_conv(o, 3, 7, 8, 4, 3);
        check_conv(o.padding(1), 3, 7, 8, 4, 3);
        check_conv(o.stride(2), 4, 9, 7, 2, 3);
        check_conv(o.dilation(2), 2, 9, 9, 3, 3);
        o.pad_bottom = 2;
        o.bias = true;
        o.activation = "relu";
        check_conv(o, 2, 9, 9, 3, 3);
        o.groups = 2;
        check_conv(o, 4, 6, 6, 6, 3);
        o.groups = 4;
        check_conv(o, 4, 6, 6, 4, 3); // depthwise
        check_conv(ops::Conv2dOptions{.layout = layout}, 5, 4, 4, 6, 1);
    }
}

TEST_CASE("matmul in all its forms") {
    const int M = 5, N = 6, K = 7, batches = 3;
    for (int form = 0; form < 32; form++) {
        ops::MatmulOptions o;
        o.transpose_a = form & 1;
        o.transpose_b = form & 2;
        if (form & 4) o.batch = batches;
        o.shared_b = (form & 4) && (form & 8);
        o.bias = o.residual = form & 16;
        if (form & 16) o.activation = "relu";
        if (!(form & 4)) o.ldb = 11;
        const Op op = ops::matmul(f64, M, N, K, o);
        const std::vector<Buffer<>> in = random_inputs(op);
        const Buffer<> c = interpret(op, in);
        for (int b = 0; b < (form & 4 ? batches : 1); b++)
            for (int i = 0; i < M; i++)
                for (int j = 0; j < N; j++) {
                    const auto index = [&](bool batch, int y, int x) {
                        return batch ? std::vector<int64_t>{b, y, x} : std::vector<int64_t>{y, x};
                    };
                    double acc = 0;
                    for (int k = 0; k < K; k++) {
                        acc += at(in[0], o.transpose_a ? index(form & 4, k, i) : index(form & 4, i, k)) *
                               at(in[1], o.transpose_b ? index((form & 4) && !o.shared_b, j, k)
                                                       : index((form & 4) && !o.shared_b, k, j));
                    }
                    if (form & 16) acc = std::max(0.0, acc + at(in[2], {j}) + at(in[3], index(form & 4, i, j)));
                    CHECK(at(c, index(form & 4, i, j)) == doctest::Approx(acc).epsilon(1e-12));
                }
    }
}

TEST_CASE("matmul states its types") {
    const Op half = ops::matmul(bf16, 4, 4, 4);
    CHECK(half.stage("C.sum").type == f32);
    CHECK(half.stage("C").type == bf16);
    const Op quantised = ops::matmul(u8, 4, 4, 4, {.b_type = i8});
    CHECK(quantised.inputs()[1].type == i8);
    CHECK(quantised.stage("C").type == i32);
    CHECK(quantised.stages().size() == 1);
    CHECK(ops::matmul(f32, 4, 4, 4).to_string() == "matmul(A, B) -> C\n"
                                                   "  A: f32[i: 4, k: 4]\n"
                                                   "  B: f32[k: 4, j: 4]\n"
                                                   "  C: f32[i: 4, j: 4]\n"
                                                   "    C(i, j) = sum over k: A(i, k) * B(k, j)\n");
    const Op strided = ops::gemm_strided(f32, Size("M"), Size("N"), Size("K"));
    Buffer<> a(f32, {3, 4}, {9, 1}), b(f32, {4, 5}, {8, 1});
    fill_random(a, 1, -1, 1);
    fill_random(b, 2, -1, 1);
    CHECK(Buffer<>(interpret(strided, {a, b})).extents() == std::vector<int64_t>{3, 5});
}

TEST_CASE("rows") {
    const Op softmax = ops::softmax(f32, 5, 40);
    Buffer<float> x = random({5, 40}), y = interpret(softmax, x);
    double total = 0;
    for (int j = 0; j < 40; j++) total += static_cast<double>(y(3, j));
    CHECK(total == doctest::Approx(1));
    const Op norm = ops::layer_norm(f64, 3, 50);
    const std::vector<Buffer<>> in = random_inputs(norm);
    const Buffer<> z = interpret(norm, in);
    double mean = 0, square = 0;
    for (int j = 0; j < 50; j++) {
        const double v = (at(z, {1, j}) - at(in[2], {j})) / at(in[1], {j});
        mean += v / 50;
        square += v * v / 50;
    }
    CHECK(std::abs(mean) < 1e-9);
    CHECK(square == doctest::Approx(1).epsilon(1e-3));
    CHECK(at(interpret(ops::rms_norm(bf16, 3, 50), random_inputs(ops::rms_norm(bf16, 3, 50))), {0, 0}) != 0);
}

TEST_CASE("pooling, norms by given moments, and moved elements") {
    const Op pool = ops::max_pool(f32, 1, 2, 5, 5, 3, 3, {.stride = 2, .padding = 1});
    Buffer<float> x = random({1, 2, 5, 5}), y = interpret(pool, x);
    CHECK(Buffer<>(y).extents() == std::vector<int64_t>{1, 2, 3, 3});
    CHECK(y(0, 1, 0, 0) == std::max({x(0, 1, 0, 0), x(0, 1, 0, 1), x(0, 1, 1, 0), x(0, 1, 1, 1)}));
    const Op mean = ops::average_pool(f32, 1, 2, 4, 4, 2, 2, {.stride = 2});
    Buffer<float> a = random({1, 2, 4, 4}), b = interpret(mean, a);
    CHECK(b(0, 1, 1, 0) == doctest::Approx((a(0, 1, 2, 0) + a(0, 1, 2, 1) + a(0, 1, 3, 0) + a(0, 1, 3, 1)) / 4));
    CHECK_THROWS_WITH_AS(ops::max_pool(f32, 1, 1, 8, 8, 2, 2, {.padding = 2}),
                         doctest::Contains("a padding from 0 to the window less 1"), UserError);
    CHECK_THROWS_WITH_AS(ops::average_pool(f32, 1, 1, 2, 8, 3, 3), doctest::Contains("is larger than the image"),
                         UserError);
    CHECK_THROWS_WITH_AS(ops::average_pool(i32, 1, 1, 8, 8, 2, 2), doctest::Contains("takes floats"), UserError);
    const Op turn = ops::transpose(f32, 3, 4);
    Buffer<float> t = random({3, 4}), u = interpret(turn, t);
    CHECK(u(3, 1) == t(1, 3));
    const Op norm = ops::batch_norm(f64, 2, 3, 2, 2);
    std::vector<Buffer<>> in = random_inputs(norm);
    fill_random(in[2], 5, 0.5, 2);
    const double expected =
        (at(in[0], {1, 2, 0, 1}) - at(in[1], {2})) / std::sqrt(at(in[2], {2}) + 1e-5) * at(in[3], {2}) + at(in[4], {2});
    CHECK(at(interpret(norm, in), {1, 2, 0, 1}) == doctest::Approx(expected));
    const Op rows = ops::gather(f32, 3, 5, 4);
    Buffer<float> table = random({5, 4});
    const Buffer<> index(i32, {3});
    auto *numbers = reinterpret_cast<int32_t *>(index.data());
    // The second index is out of bounds, and is clamped to the first row.
    numbers[0] = 4, numbers[1] = -7, numbers[2] = 2;
    Buffer<float> g = interpret(rows, {table, index}).front();
    CHECK(g(0, 1) == table(4, 1));
    CHECK(g(1, 3) == table(0, 3));
    CHECK(g(2, 0) == table(2, 0));
}

TEST_CASE("reductions along any axes") {
    const Op mean = ops::reduction("mean", f64, {3, 4, 5}, {0, -1});
    const std::vector<Buffer<>> in = random_inputs(mean);
    const Buffer<> y = interpret(mean, in);
    double acc = 0;
    for (int a = 0; a < 3; a++)
        for (int c = 0; c < 5; c++) acc += at(in[0], {a, 2, c}) / 15;
    CHECK(y.extents() == std::vector<int64_t>{4});
    CHECK(at(y, {2}) == doctest::Approx(acc));
    for (const std::string &kind : ops::reduction_kinds()) {
        for (Type t : {f32, bf16, i8, u64}) {
            const Op op = ops::reduction(kind, t, {6, 7}, {});
            CHECK(Buffer<>(interpret(op, random_inputs(op))).rank() == 0);
        }
    }
}

TEST_CASE("every function of every float type is near its value in double") {
    for (Type t : {f16, bf16, f32, f64}) {
        for (const auto &f : ops::unary_functions()) {
            const Op op = ops::unary(f.name, t, 200);
            Buffer<> x = random_buffer(t, {200}, 1, 0.1, 3);
            const Bounded b = interpret_with_bound(op, {x});
            const Buffer<> y = interpret(op, x);
            CHECK(y.type() == halide_type_t(t));
            INFO(f.name, " ", type_name(t));
            CHECK_NOTHROW(check_within(y, b.values, b.bounds));
            CHECK(at(b.bounds, {7}) < (t == bf16 ? 1.5 : t == f16 ? 0.2 : 1e-3));
        }
    }
    for (const auto &f : ops::binary_functions()) {
        const Op op = ops::binary(f.name, f32, 50);
        CHECK_NOTHROW(interpret(op, random_inputs(op)));
        const Op rows = ops::binary_rows(f.name, f64, 3, 50);
        CHECK_NOTHROW(interpret(rows, random_inputs(rows)));
    }
}

TEST_CASE("the registry makes every op from its parameters") {
    for (const ops::Operator &o : ops::registry()) {
        Json parameters = Json::object();
        for (const ops::Parameter &p : o.parameters) {
            if (!p.required()) continue;
            const bool order = p.name == std::string("order"); // of two axes
            parameters[p.name] = order ? Json("1,0") : p.kind == ops::Parameter::Kind::Sizes ? Json("4,6") : Json("8");
        }
        INFO(o.name);
        const Op op = ops::make(o.name, parameters);
        CHECK_NOTHROW(interpret(op, random_inputs(op)));
        CHECK(!o.summary.empty());
        // Symbolic sizes too, where a parameter is a size.
        Json symbolic = parameters;
        for (const ops::Parameter &p : o.parameters) {
            if (p.required() && p.kind == ops::Parameter::Kind::Size) symbolic[p.name] = "size_" + p.name;
        }
        CHECK_NOTHROW(ops::make(o.name, symbolic));
    }
    CHECK(
        ops::make("matmul", {{"m", "M"}, {"n", 768}, {"k", 3072}, {"bias", "true"}, {"activation", "gelu"}}).sizes() ==
        std::vector<std::string>{"M"});
}
