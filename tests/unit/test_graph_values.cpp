// Values at the edges of operators: NaN, infinities, padding, large integers, empty tensors.
#include "dsl/types.h"
#include "graph/eval/evaluate.h"
#include "support/error.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace kumiko;
using graph::Model;

namespace {

std::vector<Buffer<>> results(const std::string &body, const std::string &inputs, const std::string &outputs,
                              const std::vector<Buffer<>> &arrays) {
    return graph::evaluate(Model::parse_text("<ir_version: 10, opset_import: [\"\" : 21]>\ng (" + inputs + ") => (" +
                                                 outputs + ") {" + body + "}",
                                             "m"),
                           arrays);
}

template<typename T>
Buffer<> row(const std::vector<T> &values) {
    Buffer<T> b({static_cast<int64_t>(values.size())});
    for (size_t n = 0; n < values.size(); n++) b(static_cast<int>(n)) = values[n];
    return b;
}

template<typename T>
std::vector<T> values(const Buffer<> &b) {
    const auto *data = static_cast<const T *>(b.data());
    return {data, data + b.number_of_elements()};
}

constexpr float no_number = NAN;

} // namespace

TEST_CASE("TopK takes NaN as the largest value") {
    const auto r = results("y, i = TopK(x, k)", "float[5] x, int64[1] k", "float[3] y, int64[3] i",
                           {row<float>({1, no_number, 3, no_number, 2}), row<int64_t>({3})});
    const std::vector<float> y = values<float>(r[0]);
    CHECK((std::isnan(y[0]) && std::isnan(y[1]) && y[2] == 3));
    CHECK(values<int64_t>(r[1]) == std::vector<int64_t>{1, 3, 2});
}

TEST_CASE("a row with NaN has no softmax, and the axes after the first are one in older sets") {
    for (const char *op : {"Softmax", "LogSoftmax"}) {
        Buffer<float> x({2, 3});
        const float all[] = {1, no_number, INFINITY, 0, 0, 0};
        for (int n = 0; n < 6; n++) x(n / 3, n % 3) = all[n];
        const auto y = values<float>(results(std::string("y = ") + op + "(x)", "float[2,3] x", "float[2,3] y", {x})[0]);
        CHECK((std::isnan(y[0]) && std::isnan(y[1]) && std::isnan(y[2])));
        CHECK(y[3] == doctest::Approx(op[0] == 'S' ? 1. / 3 : -std::log(3.)));
    }
    Buffer<float> x({2, 2, 2});
    x.fill(1);
    const Model old = Model::parse_text(
        "<ir_version: 6, opset_import: [\"\" : 11]> g (float[2,2,2] x) => (float[2,2,2] y) { y = Softmax(x) }", "m");
    CHECK(values<float>(evaluate(old, {x})[0]) == std::vector<float>(8, 0.25f));
}

TEST_CASE("positions of MaxPool are never in the padding") {
    Buffer<float> x({1, 1, 2, 2});
    x.fill(-INFINITY);
    const auto r = results("y, i = MaxPool <kernel_shape = [2, 2], pads = [1, 1, 1, 1]> (x)", "float[1,1,2,2] x",
                           "float[1,1,3,3] y, int64[1,1,3,3] i", {x});
    CHECK(values<int64_t>(r[1]) == std::vector<int64_t>{0, 0, 1, 0, 0, 1, 2, 2, 3});
}

TEST_CASE("integers keep all bits, and wrap") {
    const int64_t big = (int64_t(1) << 60) + 1;
    CHECK(values<int64_t>(results("y = Range(a, b, c)", "int64 a, int64 b, int64 c", "int64[N] y",
                                  {[&] {
                                       Buffer<int64_t> b(std::vector<int64_t>{});
                                       b() = big;
                                       return Buffer<>(b);
                                   }(),
                                   [&] {
                                       Buffer<int64_t> b(std::vector<int64_t>{});
                                       b() = big + 3;
                                       return Buffer<>(b);
                                   }(),
                                   [] {
                                       Buffer<int64_t> b(std::vector<int64_t>{});
                                       b() = 1;
                                       return Buffer<>(b);
                                   }()})[0]) == std::vector<int64_t>{big, big + 1, big + 2});
    CHECK(values<int64_t>(results("y = Pow(x, e)", "int64[3] x, int64[3] e", "int64[3] y",
                                  {row<int64_t>({2, 2, -1}), row<int64_t>({62, 64, -1})})[0]) ==
          std::vector<int64_t>{int64_t(1) << 62, 0, -1});
    CHECK(values<int32_t>(results("y = ReduceProd <keepdims = 0> (x)", "int32[2] x", "int32 y",
                                  {row<int32_t>({1 << 20, 1 << 12})})[0]) == std::vector<int32_t>{0});
}

TEST_CASE("the rest of a large quotient is exact in f32") {
    CHECK(values<float>(results("y = Mod <fmod = 1> (x, z)", "float[2] x, float[2] z", "float[2] y",
                                {row<float>({-1e20f, 5.5f}), row<float>({7, INFINITY})})[0]) ==
          std::vector<float>{std::fmod(-1e20f, 7.f), 5.5f});
}

TEST_CASE("quantisation of zeros and of NaN") {
    const auto r = results("y, s, z = DynamicQuantizeLinear(x)", "float[2] x", "uint8[2] y, float s, uint8 z",
                           {row<float>({0, 0})});
    CHECK(values<uint8_t>(r[0]) == std::vector<uint8_t>{0, 0});
    CHECK(values<float>(r[1]) == std::vector<float>{1});
    CHECK(values<uint8_t>(results("s = Constant <value = float {1}> () y = QuantizeLinear(x, s)", "float[2] x",
                                  "uint8[2] y", {row<float>({no_number, 300})})[0]) == std::vector<uint8_t>{0, 255});
}

TEST_CASE("sums of f16 do not overflow on the way") {
    const auto r = results("y = Mean(x, x)", "float16[1] x", "float16[1] y", {row<float16_t>({float16_t(60000.f)})});
    CHECK(static_cast<float>(values<float16_t>(r[0])[0]) == 60000.f);
}

TEST_CASE("the step of a sequence's end is the last of a layer") {
    // h = h + x, without bounds: sums of [1, 2, 3] and of [10, 20] from both ends.
    Buffer<float> x({3, 2, 1}), one({2, 1, 1});
    for (int t = 0; t < 3; t++) {
        x(t, 0, 0) = static_cast<float>(1 + t);
        x(t, 1, 0) = t < 2 ? static_cast<float>(10 * (1 + t)) : NAN;
    }
    one.fill(1);
    const auto r = results("y, h = RNN <direction = \"bidirectional\", hidden_size = 1, activations = [\"Affine\", "
                           "\"Affine\"]> (x, w, w, , lengths)",
                           "float[3,2,1] x, float[2,1,1] w, int32[2] lengths", "float[3,2,2,1] y, float[2,2,1] h",
                           {x, one, row<int32_t>({3, 2})});
    // [step][direction][batch]
    CHECK(values<float>(r[0]) == std::vector<float>{1, 10, 6, 30, 3, 30, 5, 20, 6, 0, 3, 0});
    CHECK(values<float>(r[1]) == std::vector<float>{6, 30, 6, 30});
}

TEST_CASE("layers without steps return their initial state") {
    const auto r = results("y, h = GRU <hidden_size = 1> (x, w, w, , , s)",
                           "float[0,1,1] x, float[1,3,1] w, float[1,1,1] s", "float[0,1,1,1] y, float[1,1,1] h",
                           {Buffer<float>({0, 1, 1}), Buffer<float>(std::vector<int64_t>{1, 3, 1}), [] {
                                Buffer<float> s({1, 1, 1});
                                s.fill(5);
                                return s;
                            }()});
    CHECK(r[0].extents() == std::vector<int64_t>{0, 1, 1, 1});
    CHECK(values<float>(r[1]) == std::vector<float>{5});
}

TEST_CASE("determinants of singular and of permuted matrices") {
    Buffer<float> x({3, 3, 3});
    x.fill(0);
    x(0, 0, 2) = 2, x(0, 1, 0) = 3, x(0, 2, 1) = 4; // even
    x(1, 0, 1) = 2, x(1, 1, 0) = 3, x(1, 2, 2) = 4; // odd
    for (int i = 0; i < 3; i++) {                   // of rank 1
        for (int j = 0; j < 3; j++) x(2, i, j) = static_cast<float>((i + 1) * (j + 1));
    }
    CHECK(values<float>(results("y = Det(x)", "float[3,3,3] x", "float[3] y", {x})[0]) ==
          std::vector<float>{24, -24, 0});
}

TEST_CASE("regions of interest beyond the image") {
    Buffer<float> x({1, 1, 2, 2});
    x(0, 0, 0, 0) = 1, x(0, 0, 0, 1) = 2, x(0, 0, 1, 0) = 3, x(0, 0, 1, 1) = -4;
    Buffer<float> rois({3, 5}), boxes({1, 4});
    const float all[3][5] = {{0, 0, 0, 1, 1}, {0, 1, 1, 7, 7}, {0, 5, 5, 7, 7}};
    for (int r = 0; r < 3; r++) {
        for (int n = 0; n < 5; n++) rois(r, n) = all[r][n];
    }
    // Bins without elements are 0.
    CHECK(values<float>(results("y = MaxRoiPool <pooled_shape = [1, 1]> (x, r)", "float[1,1,2,2] x, float[3,5] r",
                                "float[3,1,1,1] y", {x, rois})[0]) == std::vector<float>{3, -4, 0});
    // Of 100 by 100 samples, one apart, only those around the image count; the average is of all.
    boxes(0, 0) = boxes(0, 1) = -50, boxes(0, 2) = boxes(0, 3) = 50;
    const auto r =
        results("y = RoiAlign <coordinate_transformation_mode = \"output_half_pixel\"> (x, r, b)",
                "float[1,1,2,2] x, float[1,4] r, int64[1] b", "float[1,1,1,1] y", {x, boxes, row<int64_t>({0})});
    // At −0.5, 0.5 and 1.5 along both axes, where the outer ones are clamped into the image.
    const double sum = 1 + 1.5 + 2 + 2 + 0.5 + -1 + 3 + -0.5 + -4;
    CHECK(values<float>(r[0])[0] == doctest::Approx(sum / 10000).epsilon(1e-5));
}

TEST_CASE("OneHot of indices that are no index of the axis is off, at the ends of int64 too") {
    const float inf = INFINITY;
    CHECK(values<float>(results("d = Constant <value = int64 {2}> () v = Constant <value = float[2] {3, 4}> () "
                                "y = OneHot(x, d, v)",
                                "float[4] x", "float[4,2] y", {row<float>({inf, -inf, -1, 2})})[0]) ==
          std::vector<float>{3, 3, 3, 3, 3, 4, 3, 3});
}

TEST_CASE("pools whose window is larger than the image have one window if sizes round up") {
    Buffer<float> x({1, 1, 2, 1});
    x(0, 0, 0, 0) = 1, x(0, 0, 1, 0) = 3;
    const auto pooled = [&](const std::string &op, const std::string &stride) {
        return results("y = " + op + " <kernel_shape = [3, 1], strides = [" + stride + ", 1], ceil_mode = 1> (x)",
                       "float[1,1,2,1] x", "float[A,B,C,D] y", {x})[0];
    };
    CHECK(values<float>(pooled("AveragePool", "2")) == std::vector<float>{2});
    CHECK(values<float>(pooled("MaxPool", "3")) == std::vector<float>{3});
    CHECK(pooled("MaxPool", "1").extents() == std::vector<int64_t>{1, 1, 0, 1});
}

TEST_CASE("inputs that have a default") {
    const Model m = Model::parse_text("<ir_version: 10, opset_import: [\"\" : 21]>\n"
                                      "g (float[2] x, float[2] w = {1, 2}) => (float[2] y) { y = Mul(x, w) }",
                                      "m");
    const std::vector<Buffer<>> x = {row<float>({3, 4})};
    CHECK(values<float>(graph::evaluate(m, x)[0]) == std::vector<float>{3, 8});
    graph::EvaluateOptions options;
    options.given["w"] = row<float>({5, 6});
    CHECK(values<float>(graph::evaluate(m, x, options)[0]) == std::vector<float>{15, 24});
    options.given = {{"x", x[0]}};
    CHECK_THROWS_WITH_AS(graph::evaluate(m, x, options), "m: \"x\" is not an input with a default; legal are \"w\"",
                         UserError);
    options.given = {{"w", row<float>({5})}};
    CHECK_THROWS_AS(graph::evaluate(m, x, options), UserError);
}

TEST_CASE("loops without an iteration stack rows of known shapes") {
    const auto extents = [](const std::string &row_type) {
        const auto r =
            results("l, rows = Loop <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] u, " + row_type +
                        " row) { d = Identity(c) u = Identity(v) row = Concat <axis = 0> (v, x) }> (n, , x)",
                    "int64[1] n, float[2] x", "float[2] l, float[R,M] rows", {row<int64_t>({0}), row<float>({1, 2})});
        return r[1].extents();
    };
    CHECK(extents("float[4]") == std::vector<int64_t>{0, 4});
    CHECK(extents("float[M]") == std::vector<int64_t>{0, 4}); // as a step would make it
    const auto r =
        results("l, rows = Scan <num_scan_inputs = 1, body = b (float v, float[3] e) => (float u, float[M] row) "
                "{ u = Identity(v) row = Concat <axis = 0> (e, e) }> (s, x)",
                "float s, float[0,3] x", "float l, float[R,M] rows",
                {Buffer<float>(std::vector<int64_t>{}), Buffer<float>({0, 3})});
    CHECK(r[1].extents() == std::vector<int64_t>{0, 6});
}

TEST_CASE("bodies of functions name the values of inner graphs") {
    graph::Node node;
    node.op = "AffineGrid", node.opset = 20, node.inputs = {"theta", "size"}, node.outputs = {"grid"};
    graph::ValueInfo theta, size;
    theta.name = "theta", theta.type = f32, theta.shape = {{{1, ""}, {2, ""}, {3, ""}}};
    size.name = "size", size.type = i64, size.shape = {{{4, ""}}};
    const auto body = graph::function_body(node, {theta, size}, "f/", {{"", 20}});
    REQUIRE(body);
    size_t graphs = 0;
    for (const graph::Node &n : *body) {
        for (const auto &[name, attribute] : n.attributes) {
            const auto *inner = std::get_if<std::shared_ptr<const graph::Graph>>(&attribute.value);
            if (!inner) continue;
            graphs++;
            for (const graph::Node &i : (*inner)->nodes) {
                for (const std::string &o : i.outputs) CHECK_EQ(o.rfind("f/", 0), 0);
                for (const std::string &v : i.inputs) CHECK((v.rfind("f/", 0) == 0 || v == "theta" || v == "size"));
            }
        }
    }
    CHECK(graphs == 8); // two of each of four Ifs
}

TEST_CASE("arguments that no operator takes") {
    const auto refused = [](const std::string &body) {
        try {
            results(body, "float[3] x", "float[N] y", {row<float>({1, 2, 3})});
        } catch (const UserError &e) {
            return std::string(e.what());
        }
        return std::string();
    };
    CHECK_EQ(refused("i = Constant <value = int64[1,1] {7}> () u = Constant <value = float[1] {1}> () "
                     "y = ScatterND(x, i, u)"),
             "node ScatterND of \"y\": the index 7 in \"i\" of 3 elements; legal are -3 to 2");
    CHECK_EQ(refused("s = Constant <value = int64[1] {4294967298}> () y = ConstantOfShape(s)"),
             "node ConstantOfShape of \"y\": an axis of 4294967298 elements; legal are 0 to 2147483647");
    CHECK_EQ(refused("s = Constant <value = int64[4] {2147483647, 2147483647, 4, 3}> () y = Expand(x, s)"),
             "node Expand of \"y\": its result \"y\" is f32[2147483647,2147483647,4,3]; legal are up to 2^40 bytes");
    CHECK_EQ(refused("s = Constant <value = int64[3] {1, 1, 3}> () z = Reshape(x, s) "
                     "y = MaxPool <kernel_shape = [9223372036854775807], dilations = [2]> (z)"),
             "node MaxPool of \"y\": kernel_shape has the number 9223372036854775807; legal are 1 to 2147483647");
    CHECK_EQ(refused("s = Constant <value = int64[3] {1, 1, 3}> () z = Reshape(x, s) "
                     "y = MaxPool <kernel_shape = [1], pads = [0, 4294967296]> (z)"),
             "node MaxPool of \"y\": pads has the number 4294967296; legal are -2147483647 to 2147483647");
    CHECK_EQ(refused("p = Constant <value = int64[2] {9223372036854775806, 0}> () y = Pad (x, p)"),
             "node Pad of \"y\": pads has the number 9223372036854775806; legal are -2147483647 to 2147483647");
    CHECK_EQ(refused("p = Constant <value = int64[3] {1, 1, 1}> () y = Pad (x, p)"),
             "node Pad of \"y\": pads has 3 numbers; legal are 2");
    CHECK_EQ(refused("z = Constant <value = float {1}> () y = ArgMax <axis = 0> (z)"),
             "node ArgMax of \"y\": axis 0 of a tensor without axes");
    CHECK_EQ(refused("p = Constant <value = int64[2] {1, 1}> () y = Pad <mode = \"mirror\"> (x, p)"),
             "node Pad of \"y\": mode is \"mirror\"; legal are constant, reflect, edge, wrap");
    CHECK_EQ(refused("z = Constant <value = float[2,0] {}> () y = ArgMax <axis = 1> (z)"),
             "node ArgMax of \"y\": the index of an extreme of axis 1, which has no elements");
    CHECK_EQ(refused("z = Constant <value = float[0] {}> () p = Constant <value = int64[2] {1, 0}> () "
                     "y = Pad <mode = \"edge\"> (z, p)"),
             "node Pad of \"y\": pads by the elements of axis 0, which has none; legal is the mode \"constant\"");
}
