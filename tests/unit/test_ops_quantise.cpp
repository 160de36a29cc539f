// Ops on 8-bit numbers, compared with loops.
#include "tests/unit/op_reference.h"

#include <limits>

using namespace kumiko;

namespace {

double saturated(double x, bool is_signed) {
    if (std::isnan(x)) return 0;
    return is_signed ? std::clamp(x, -128.0, 127.0) : std::clamp(x, 0.0, 255.0);
}

const std::vector<float> values = {0,      0.5f,  1.5f,    2.5f,    -0.5f,    -1.5f,     -2.5f, 126.5f,
                                   127.5f, 200,   -127.5f, -128.5f, -1000,    254.5f,    300,   1e30f,
                                   -1e30f, 0.49f, 3.1f,    -3.1f,   INFINITY, -INFINITY, NAN};

} // namespace

TEST_CASE("quantise rounds halves to even and saturates") {
    for (const Type to : {i8, u8}) {
        for (const int zero_point : {0, 3, 127}) {
            for (const float scale : {1.0f, 0.25f, 0.1f, 3.0f}) {
                const Op op = ops::quantise(f32, to, static_cast<int>(values.size()), {scale, zero_point, {}});
                Buffer<float> x({static_cast<int64_t>(values.size())});
                for (size_t i = 0; i < values.size(); i++) x(static_cast<int>(i)) = values[i];
                check_elements(op, {x}, {static_cast<int64_t>(values.size())}, [&](const Index &i) {
                    const float whole = std::nearbyintf(values[i[0]] / scale);
                    return saturated(static_cast<double>(whole + static_cast<float>(zero_point)), to.is_int());
                });
            }
        }
    }
}

TEST_CASE("quantise by columns, from every float type") {
    for (const Type from : {f16, bf16, f32, f64}) {
        const Op op = ops::quantise(from, i8, 7, {1, -5, 3});
        std::vector<Buffer<>> in = random_inputs(op);
        fill_random(in[1], 9, 0.01, 0.02);
        check_elements(op, in, {3, 7}, [&](const Index &i) {
            const double x = at(in[0], i), s = at(in[1], {i[1]});
            const double q = from == f64 ? x / s : static_cast<double>(static_cast<float>(x) / static_cast<float>(s));
            return saturated(std::nearbyint(q) - 5, true);
        });
    }
}

TEST_CASE("dequantise") {
    for (const Type from : {i8, u8, i32}) {
        const Op op = ops::dequantise(from, f64, 9, {0.3, 7, {}});
        const std::vector<Buffer<>> in = random_inputs(op);
        check_elements(op, in, {9}, [&](const Index &i) { return (at(in[0], i) - 7) * 0.3; });
        const Op columns = ops::dequantise(from, f32, 5, {1, 0, 4});
        const std::vector<Buffer<>> two = random_inputs(columns);
        check_elements(columns, two, {4, 5}, [&](const Index &i) {
            return static_cast<double>(static_cast<float>(at(two[0], i)) * static_cast<float>(at(two[1], {i[1]})));
        });
    }
    const Op narrow = ops::dequantise(u8, bf16, 6, {0.5, 128, {}});
    const std::vector<Buffer<>> in = random_inputs(narrow);
    check_elements(narrow, in, {6}, [&](const Index &i) { return (at(in[0], i) - 128) * 0.5; });
}

TEST_CASE("requantise") {
    for (const Type to : {i8, u8}) {
        const Op op = ops::requantise(to, 33, {0.01, 4, {}});
        std::vector<Buffer<>> in = random_inputs(op);
        fill_random_integers(in[0], 3, -40000, 40000);
        check_elements(op, in, {33}, [&](const Index &i) {
            const float whole = std::nearbyintf(static_cast<float>(at(in[0], i)) * 0.01f);
            return saturated(static_cast<double>(whole) + 4, to.is_int());
        });
        const Op columns = ops::requantise(to, 6, {1, 0, 5});
        std::vector<Buffer<>> two = random_inputs(columns);
        fill_random_integers(two[0], 3, -3000, 3000);
        check_elements(columns, two, {5, 6}, [&](const Index &i) {
            const float product = static_cast<float>(at(two[0], i)) * static_cast<float>(at(two[1], {i[1]}));
            return saturated(static_cast<double>(std::nearbyintf(product)), to.is_int());
        });
    }
}

TEST_CASE("matmul requantises its sums: bias, scale, activation, rounding, zero point") {
    for (const Type to : {i8, u8}) {
        const ops::MatmulOptions o{
            .bias = true, .activation = "relu", .b_type = i8, .output = to, .requantise = true, .zero_point = 3};
        const Op op = ops::matmul(u8, 4, 6, 9, o);
        std::vector<Buffer<>> in = random_inputs(op);
        fill_random(in[3], 9, 0.5, 40); // beyond what 8 bits hold, too
        check_elements(op, in, {4, 6}, [&](const Index &i) {
            double sum = at(in[2], {i[1]});
            for (int64_t k = 0; k < 9; k++) sum += at(in[0], {i[0], k}) * at(in[1], {k, i[1]});
            const float scaled = std::max(static_cast<float>(sum) * static_cast<float>(at(in[3], {i[1]})), 0.0f);
            return saturated(static_cast<double>(std::nearbyintf(scaled) + 3), to.is_int());
        });
    }
    CHECK_THROWS_WITH(ops::matmul(u8, 4, 4, 4, {.b_type = i8, .output = i32, .requantise = true}),
                      doctest::Contains("matmul requantises to i8 or u8 (its output), not i32"));
    CHECK_THROWS_WITH(ops::matmul(u8, 4, 4, 4, {.residual = true, .b_type = i8, .output = u8, .requantise = true}),
                      doctest::Contains("takes no residual"));
    CHECK_THROWS_WITH(ops::matmul(u8, 4, 4, 4, {.b_type = i8, .zero_point = 3}),
                      doctest::Contains("zero_point is set without requantise"));
    CHECK_THROWS_WITH(ops::matmul(f32, 4, 4, 4, {.output = u8, .requantise = true}),
                      doctest::Contains("matmul requantises sums of i32, not f32"));
    CHECK_THROWS_WITH(ops::matmul(u8, 4, 4, 4, {.b_type = i8, .output = u8, .requantise = true, .zero_point = 300}),
                      doctest::Contains("the zero point is 300; legal is a value of u8, 0 to 255"));
}

namespace {

// A convolution of a 5 × 6 image with 4 channels by 3 × 3 windows, with zeros around.
void check_conv(const Op &op, bool last, int groups, bool depthwise, Type to) {
    CAPTURE(op.to_string());
    std::vector<Buffer<>> in = random_inputs(op);
    fill_random_integers(in[0], 3, 0, 255);
    fill_random_integers(in[1], 4, -128, 127);
    fill_random(in[3], 9, 0.001, 0.01); // beyond what 8 bits hold, too
    const int64_t C = 4, O = depthwise ? 4 : 6, Cg = C / groups, Og = O / groups;
    const auto image = [&](const Buffer<> &b, int64_t channels, int64_t c, int64_t y, int64_t x) -> double {
        if (y < 0 || y >= 5 || x < 0 || x >= 6) return 0;
        return at_position(b, last ? (y * 6 + x) * channels + c : (c * 5 + y) * 6 + x);
    };
    const Buffer<> Y = interpret(op, in);
    CHECK(Y.type() == to);
    for (int64_t o = 0; o < O; o++)
        for (int64_t y = 0; y < 5; y++)
            for (int64_t x = 0; x < 6; x++) {
                double sum = at_position(in[2], o);
                for (int64_t c = 0; c < Cg; c++)
                    for (int64_t k = 0; k < 9; k++)
                        sum += image(in[0], C, o / Og * Cg + c, y + k / 3 - 1, x + k % 3 - 1) *
                               at_position(in[1], last ? (k * Cg + c) * O + o : (o * Cg + c) * 9 + k);
                const float scaled =
                    std::max(static_cast<float>(sum) * static_cast<float>(at_position(in[3], o)), 0.0f);
                CHECK(image(Y, O, o, y, x) == saturated(static_cast<double>(std::nearbyintf(scaled) + 3), to.is_int()));
            }
}

} // namespace

TEST_CASE("convolutions requantise their sums: bias, scale, activation, rounding, zero point") {
    for (const Type to : {i8, u8}) {
        for (const bool last : {false, true}) {
            ops::Conv2dOptions o = ops::Conv2dOptions().padding(1);
            o.layout = last ? ops::ImageLayout::NHWC : ops::ImageLayout::NCHW;
            o.bias = o.requantise = true;
            o.activation = "relu", o.w_type = i8, o.output = to, o.zero_point = 3;
            check_conv(ops::conv2d(u8, 1, 4, 5, 6, 6, 3, 3, o), last, 1, false, to);
            check_conv(ops::depthwise_conv2d(u8, 1, 4, 5, 6, 3, 3, o), last, 4, true, to);
            o.groups = 2;
            check_conv(ops::conv2d(u8, 1, 4, 5, 6, 6, 3, 3, o), last, 2, false, to);
        }
    }
    ops::ConvOptions line;
    line.requantise = true, line.w_type = i8, line.output = u8;
    const Op sequence = ops::conv1d(u8, 1, 4, 9, 6, 3, line);
    CHECK(sequence.inputs()[1].type == i8);
    CHECK(sequence.stage("Y.sum").type == i32);
    CHECK(sequence.stage("Y").type == u8);
    CHECK(ops::conv3d(u8, 1, 4, 5, 5, 5, 6, 3, 3, 3, line).stage("Y").type == u8);
}

TEST_CASE("convolutions state their types") {
    ops::Conv2dOptions o;
    o.w_type = i8;
    const Op bytes = ops::conv2d(u8, 1, 4, 5, 6, 6, 3, 3, o);
    CHECK(bytes.inputs()[0].type == u8);
    CHECK(bytes.inputs()[1].type == i8);
    CHECK(bytes.stage("Y").type == i32);
    CHECK(bytes.stages().size() == 1);
    const auto told = [&](Type t) {
        try {
            ops::conv2d(t, 1, 4, 5, 6, 6, 3, 3, o);
        } catch (const UserError &e) {
            return std::string(e.what());
        }
        return std::string("no error");
    };
    o.zero_point = 3;
    CHECK(told(u8).starts_with("conv2d: zero_point is set without requantise; legal is 0, or requantise"));
    o.requantise = true, o.output = i32;
    CHECK(told(u8).starts_with("conv2d requantises to i8 or u8 (its output), not i32"));
    o.output = u8;
    CHECK(told(f32).starts_with("conv2d requantises sums of i32, not f32; legal are X and W of 8 bits"));
    o.residual = true;
    CHECK(told(u8).starts_with("conv2d with requantise takes no residual; legal is one of them"));
    o.residual = false, o.zero_point = 300;
    CHECK(told(u8).starts_with("conv2d: the zero point is 300; legal is a value of u8, 0 to 255"));
    o = {};
    o.w_type = i8;
    CHECK_THROWS_WITH(ops::winograd_conv2d(f32, 1, 4, 8, 8, 4, 2, o),
                      doctest::Contains("W or Y is of another type than X"));
}
