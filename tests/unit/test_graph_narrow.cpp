// Narrow types: casts against the numbers that their bits mean, quantisation in blocks, packed
// tensors, and types that disagree. The evaluator and programs give the same bits.
// Links: graph/build
#include "dsl/buffer_elements.h"
#include "dsl/narrow_types.h"
#include "graph/build/compiled_model.h"
#include "support/random.h"
#include "tests/unit/refusal.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <filesystem>

using namespace kumiko;
using namespace kumiko::graph;

namespace {

const std::pair<Type, const char *> floats[] = {{f8e4m3fn, "float8e4m3fn"}, {f8e4m3fnuz, "float8e4m3fnuz"},
                                                {f8e5m2, "float8e5m2"},     {f8e5m2fnuz, "float8e5m2fnuz"},
                                                {f8e8m0, "float8e8m0"},     {f4e2m1, "float4e2m1"}};
const std::pair<Type, const char *> integers[] = {{i4, "int4"}, {u4, "uint4"}, {i2, "int2"}, {u2, "uint2"}};

Model model(const std::string &text) {
    return Model::parse_text("<ir_version: 13, opset_import: [\"\" : 25]> g " + text, "m");
}

// The result of both ways, which are equal in bits.
Buffer<> run(const std::string &text, const std::vector<Buffer<>> &inputs) {
    const Model m = model(text);
    const Buffer<> evaluated = evaluate(m, inputs).at(0), compiled = CompiledModel::compile(m).run(inputs).at(0);
    REQUIRE_EQ(Type(compiled.type()), Type(evaluated.type()));
    REQUIRE_EQ(compiled.extents(), evaluated.extents());
    CHECK_EQ(std::memcmp(compiled.data(), evaluated.data(), evaluated.size_in_bytes()), 0);
    return evaluated;
}

template<typename T>
Buffer<> array(Type type, const std::vector<T> &values) {
    Buffer<> b(type, {int64_t(values.size())});
    std::copy(values.begin(), values.end(), static_cast<T *>(b.data()));
    return b;
}

uint8_t byte_of(const Buffer<> &b, size_t n) { return static_cast<const uint8_t *>(b.data())[n]; }
bool is_same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

Buffer<> all_bits(Type type) {
    std::vector<uint8_t> all;
    for (int bits = 0; bits < 1 << type.bits(); bits++)
        all.push_back(narrow_float(type) ? uint8_t(bits) : narrow_bits(type, bits));
    return array(type, all);
}

} // namespace

TEST_CASE("known bits of narrow floats") {
    CHECK_EQ(narrow_value(f8e4m3fn, 0x7e), 448);
    CHECK(std::isnan(narrow_value(f8e4m3fn, 0xff)));
    CHECK_EQ(narrow_value(f8e4m3fnuz, 0x7f), 240);
    CHECK(std::isnan(narrow_value(f8e4m3fnuz, 0x80)));
    CHECK_EQ(narrow_value(f8e5m2, 0x7b), 57344);
    CHECK_EQ(narrow_value(f8e5m2, 0xfc), -INFINITY);
    CHECK_EQ(narrow_value(f8e5m2, 0x81), -std::ldexp(1.0, -16));
    CHECK_EQ(narrow_value(f8e5m2fnuz, 0x7f), 57344);
    CHECK_EQ(narrow_value(f8e8m0, 0), std::ldexp(1.0, -127));
    CHECK_EQ(narrow_value(f4e2m1, 0xf), -6);
    CHECK_EQ(type_name(f4e2m1), "f4e2m1");
    CHECK_EQ(type_name(u2), "u2");
}

TEST_CASE("all bits of narrow types become their numbers, and these become the bits again") {
    for (const auto &list :
         {std::vector(std::begin(floats), std::end(floats)), std::vector(std::begin(integers), std::end(integers))}) {
        for (const auto &[type, name] : list) {
            CAPTURE(name);
            const Buffer<> bits = all_bits(type);
            const auto count = int64_t(bits.number_of_elements());
            const Buffer<> numbers =
                run(fmt::format("({}[{}] x) => (float[{}] y) {{ y = Cast<to = 1>(x) }}", name, count, count), {bits});
            const Buffer<> back =
                run(fmt::format("(float[{}] x) => ({}[{}] y) {{ y = Cast<to = {}, saturate = 0>(x) }}", count, name,
                                count, onnx_type(type)),
                    {numbers});
            for (size_t n = 0; n < bits.number_of_elements(); n++) {
                const double want = narrow_value(type, byte_of(bits, n));
                CAPTURE(n);
                CHECK(is_same(static_cast<const float *>(numbers.data())[n], want));
                CHECK(is_same(narrow_value(type, byte_of(back, n)), want));
            }
        }
    }
}

TEST_CASE("numbers are rounded to the nearest narrow float, ties to even, and saturate") {
    Random rng(1);
    std::vector<float> values = {0, -0.f, INFINITY, -INFINITY, 1e30f, -1e30f, 1e-30f};
    for (const auto &[type, name] : floats) {
        if (type == f8e8m0) continue; // rounds up by default
        std::vector<float> numbers = values;
        for (int n = 0; n < 500; n++)
            numbers.push_back(std::ldexp(float(int(rng.below(2001)) - 1000) / 1000, int(rng.below(40)) - 20));
        for (int bits = 0; bits + 1 < 1 << (type.bits() - 1); bits++) { // halfway
            const double a = narrow_value(type, uint8_t(bits)), b = narrow_value(type, uint8_t(bits + 1));
            if (std::isfinite(a + b)) numbers.push_back(float((a + b) / 2));
        }
        const auto count = int64_t(numbers.size());
        const std::string form = "(float[{0}] x) => ({1}[{0}] y) {{ y = Cast<to = {2}, saturate = {3}>(x) }}";
        const Buffer<> x = array(f32, numbers);
        const Buffer<> bounded = run(fmt::format(fmt::runtime(form), count, name, onnx_type(type), 1), {x});
        const Buffer<> unbounded = run(fmt::format(fmt::runtime(form), count, name, onnx_type(type), 0), {x});
        const double largest = narrow_value(type, uint8_t(narrow_float(type)->largest));
        for (size_t n = 0; n < numbers.size(); n++) {
            CAPTURE(name);
            CAPTURE(numbers[n]);
            const double v = numbers[n], near = std::abs(v) < largest ? v : std::copysign(largest, v);
            const double want = narrow_value(type, narrow_bits(type, near));
            CHECK_EQ(narrow_value(type, byte_of(bounded, n)), want);
            const double unlimited = narrow_value(type, byte_of(unbounded, n));
            if (std::abs(v) <= largest) CHECK_EQ(unlimited, want);
            if (std::isinf(v) && type != f4e2m1) CHECK_FALSE(std::isfinite(unlimited));
        }
    }
}

TEST_CASE("integers of 4 and 2 bits keep the low bits of a cast, and saturate when they are quantised") {
    const Buffer<> x = array<float>(f32, {-9, -8, -1, 0, 1.5, 7, 8, 100});
    const auto low_bits = run("(float[8] x) => (int4[8] y) { y = Cast<to = 22>(x) }", {x});
    const auto quantised =
        run("(float[8] x, int4[1] z) => (int4[8] y) { s = Constant<value_float = 1.0>() y = QuantizeLinear(x, s, z) }",
            {x, retyped(array<int8_t>(i8, {1}), i4)});
    const int low[] = {7, -8, -1, 0, 1, 7, -8, 4}, nearest[] = {-8, -7, 0, 1, 3, 7, 7, 7};
    for (size_t n = 0; n < 8; n++) {
        CHECK_EQ(int(static_cast<int8_t>(byte_of(low_bits, n))), low[n]);
        CHECK_EQ(int(static_cast<int8_t>(byte_of(quantised, n))), nearest[n]);
    }
}

TEST_CASE("moves take elements of narrow types as they are") {
    for (const char *name : {"int4", "float8e4m3fn", "float4e2m1"}) {
        CAPTURE(name);
        const Type type = std::string(name) == "int4" ? i4 : std::string(name) == "float4e2m1" ? f4e2m1 : f8e4m3fn;
        Buffer<> x(type, {2, 3});
        for (size_t n = 0; n < 6; n++) static_cast<uint8_t *>(x.data())[n] = uint8_t(n);
        const Buffer<> y = run(
            fmt::format("({0}[2, 3] x) => ({0}[3, 4] y) {{ a = Transpose(x) y = Concat<axis = 1>(a, a) }}", name), {x});
        CHECK_EQ(Type(y.type()), type);
        const int want[] = {0, 3, 0, 3, 1, 4, 1, 4, 2, 5, 2, 5};
        for (size_t n = 0; n < 12; n++) CHECK_EQ(int(byte_of(y, n)), want[n]);
    }
}

TEST_CASE("blocks of integers of 4 bits have scales and zero points of their own") {
    Random rng(2);
    Buffer<> x(i4, {4, 6}), scale(f32, {2, 6}), zero(i4, {2, 6});
    for (size_t n = 0; n < 24; n++) static_cast<int8_t *>(x.data())[n] = int8_t(int(rng.below(16)) - 8);
    for (size_t n = 0; n < 12; n++) {
        static_cast<float *>(scale.data())[n] = float(n + 1) / 8;
        static_cast<int8_t *>(zero.data())[n] = int8_t(int(rng.below(16)) - 8);
    }
    const Buffer<> y = run("(int4[4, 6] x, float[2, 6] s, int4[2, 6] z) => (float[4, 6] y) "
                           "{ y = DequantizeLinear<axis = 0, block_size = 2>(x, s, z) }",
                           {x, scale, zero});
    for (size_t r = 0; r < 4; r++) {
        for (size_t c = 0; c < 6; c++) {
            const size_t at = r * 6 + c, block = r / 2 * 6 + c;
            const int off = static_cast<int8_t>(byte_of(x, at)) - static_cast<int8_t>(byte_of(zero, block));
            CHECK_EQ(static_cast<const float *>(y.data())[at], float(off) * float(block + 1) / 8);
        }
    }
}

TEST_CASE("tensors of narrow types are packed in files") {
    const std::string file = (std::filesystem::temp_directory_path() / "kumiko_narrow.pb").string();
    for (const Type type : {i4, u4, i2, u2, f4e2m1, f8e5m2}) {
        for (const int64_t count : {0, 1, 3, 8, 13}) {
            Buffer<> x(type, {count});
            for (int64_t n = 0; n < count; n++)
                static_cast<uint8_t *>(x.data())[n] = narrow_bits(type, double(n % 3 - 1));
            save_tensor(file, x, "x");
            const Buffer<> back = load_tensor(file);
            CHECK_EQ(Type(back.type()), type);
            CHECK_EQ(back.extents(), x.extents());
            for (int64_t n = 0; n < count; n++) CHECK_EQ(int(byte_of(back, size_t(n))), int(byte_of(x, size_t(n))));
        }
    }
    std::filesystem::remove(file);
}

TEST_CASE("narrow types that an operator does not take, or that disagree, are errors that name the node") {
    const auto refused = [](const std::string &text, const std::vector<Buffer<>> &inputs) {
        const std::string evaluated = refusal([&] { evaluate(model(text), inputs); });
        CHECK_EQ(refusal([&] { CompiledModel::compile(model(text)); }), evaluated);
        return evaluated;
    };
    const Buffer<> x = array<int8_t>(i4, {1, 2}), scale = array<float>(f32, {1});
    CHECK_EQ(refused("(int4[2] x) => (int4[2] y) { y = Add(x, x) }", {x}),
             "node Add of \"y\": its input \"x\" is i4; supported are casts, moves and quantisation "
             "of this type");
    CHECK_EQ(refused("(int4[2] x, float[1] s, uint4[1] z) => (float[2] y) { y = DequantizeLinear(x, s, z) }",
                     {x, scale, array<uint8_t>(u4, {0})}),
             "node DequantizeLinear of \"y\": its zero point \"z\" is u4; legal is the type of the numbers, i4");
    CHECK_EQ(refused("(float[2] x) => (float[2] y) { y = Cast<to = 24, round_mode = \"odd\">(x) }",
                     {array<float>(f32, {1, 2})}),
             "node Cast of \"y\": round_mode is \"odd\"; legal are up, down, nearest");
}

namespace {

// A MatMulNBits [m, K] × [N, K], and its result by its definition.
struct Product {
    int64_t m = 3, k = 80, n = 5, block = 32, bits = 4;
    bool zeros = false, bias = false;

    Model model(const Buffer<> &weights, const Buffer<> &scales, const Buffer<> &zero, const Buffer<> &added) const {
        Graph graph;
        graph.name = "g";
        graph.inputs = {ValueInfo::of("x", f32, {m, k})};
        graph.outputs = {ValueInfo::of("y", f32, {m, n})};
        graph.constants = {{"b", weights}, {"s", scales}};
        if (zeros) graph.constants["z"] = zero;
        if (bias) graph.constants["c"] = added;
        Node node;
        node.op = "MatMulNBits", node.domain = "com.microsoft", node.opset = 1;
        node.inputs = {"x", "b", "s", zeros ? "z" : "", "", bias ? "c" : ""}, node.outputs = {"y"};
        node.attributes = {{"K", {k}}, {"N", {n}}, {"bits", {bits}}, {"block_size", {block}}};
        graph.nodes = {node};
        return Model::of_graph(graph, "m");
    }
    int64_t blocks() const { return (k + block - 1) / block; }
};

int digit(const Buffer<> &bytes, int64_t row_bytes, int64_t row, int64_t at, int64_t bits) {
    const uint8_t byte = byte_of(bytes, size_t(row * row_bytes + at * bits / 8));
    return byte >> (at * bits % 8) & ((1 << bits) - 1);
}

Buffer<> random_bytes(const Extents &extents, Random &rng) {
    Buffer<> b(u8, extents);
    for (size_t n = 0; n < b.number_of_elements(); n++) static_cast<uint8_t *>(b.data())[n] = uint8_t(rng.below(256));
    return b;
}

void check_product(const Product &p, Random &rng) {
    CAPTURE(p.bits);
    CAPTURE(p.zeros);
    const int64_t row_bytes = p.blocks() * p.block * p.bits / 8, zero_bytes = (p.blocks() * p.bits + 7) / 8;
    const Buffer<> weights = random_bytes({p.n, p.blocks(), p.block * p.bits / 8}, rng);
    const Buffer<> zero = random_bytes({p.n * zero_bytes}, rng);
    // Small powers of two: all sums are exact.
    Buffer<float> x({p.m, p.k}), scales({p.n * p.blocks()}), added({p.n}), want({p.m, p.n});
    for (int64_t i = 0; i < p.m * p.k; i++) x.data()[i] = float(int(rng.below(9)) - 4);
    for (int64_t i = 0; i < p.n * p.blocks(); i++) scales.data()[i] = std::ldexp(1.f, -int(rng.below(3)));
    for (int64_t i = 0; i < p.n; i++) added(i) = float(i);
    for (int64_t m = 0; m < p.m; m++) {
        for (int64_t n = 0; n < p.n; n++) {
            want(m, n) = p.bias ? added(n) : 0;
            for (int64_t k = 0; k < p.k; k++) {
                const int64_t block = k / p.block;
                const int off = p.zeros ? digit(zero, zero_bytes, n, block, p.bits) : 1 << (p.bits - 1);
                want(m, n) +=
                    x(m, k) * scales(n * p.blocks() + block) * float(digit(weights, row_bytes, n, k, p.bits) - off);
            }
        }
    }
    const Model m = p.model(weights, scales, zero, added);
    CHECK_EQ(difference(evaluate(m, {x}).at(0), want), "");
    const CompiledModel compiled = CompiledModel::compile(m);
    CHECK_EQ(difference(compiled.run({x}).at(0), want), "");
    size_t bytes = 0; // of all constants, packed for the product or not
    for (const Buffer<> &c : compiled.program().constants)
        bytes = std::max(bytes, c.number_of_elements() * c.type().bytes());
    if (p.bits < 8) CHECK_EQ(bytes, size_t(std::max((p.k * p.bits + 7) / 8 * p.n, p.n * p.blocks() * 4)));
}

} // namespace

TEST_CASE("products with weights of a few bits, whose programs keep them packed") {
    Random rng(3);
    for (const int64_t bits : {2, 4, 8}) {
        for (const bool zeros : {false, true}) check_product({.bits = bits, .zeros = zeros, .bias = zeros}, rng);
    }
    check_product({.m = 1, .k = 64, .n = 48, .block = 16}, rng);
    check_product({.m = 40, .k = 96, .n = 33, .block = 32, .zeros = true}, rng);
}

TEST_CASE("products with weights of a few bits that do not fit are errors that name the node") {
    Random rng(4);
    const auto refused = [&](const Product &p, const Extents &weights) {
        const Model m =
            p.model(random_bytes(weights, rng), random_buffer(f32, {p.n * p.blocks()}), random_bytes({1}, rng), {});
        return refusal([&] { CompiledModel::compile(m); });
    };
    CHECK_EQ(refused({.bits = 3}, {5, 3, 12}),
             "node MatMulNBits of \"y\": weights of 3 bits; supported are 2, 4 and 8");
    CHECK_EQ(refused({}, {5, 3, 8}),
             "node MatMulNBits of \"y\": weights of 120 bytes and 15 scales; legal are 240 and 15, "
             "for 5 rows of 3 blocks of 32 elements of 4 bits");
    CHECK_EQ(refused({.block = 24}, {5, 4, 12}),
             "node MatMulNBits of \"y\": K is 80, N 5 and block_size 24; legal are 1 "
             "or more, and blocks of a multiple of 16");
}

TEST_CASE("a product reads constant weights of each narrow type, several in a byte") {
    Random rng(5);
    for (const Type type : {i4, u4, i2, f4e2m1, f8e4m3fn}) {
        CAPTURE(type_name(type));
        Graph graph;
        graph.name = "g";
        graph.inputs = {ValueInfo::of("x", f32, {2, 33})}, graph.outputs = {ValueInfo::of("y", f32, {2, 20})};
        Buffer<> weights(type, {33, 20}), x(f32, {2, 33}), scale(f32, {3, 20});
        for (size_t n = 0; n < weights.number_of_elements(); n++)
            static_cast<uint8_t *>(weights.data())[n] = narrow_bits(type, double(rng.below(6)));
        fill_random_integers(x, 6, -4, 4), fill_random_integers(scale, 7, 1, 3);
        graph.constants = {{"w", weights}, {"s", scale}};
        Node real, product;
        real.op = "DequantizeLinear", real.opset = product.opset = 25, product.op = "MatMul";
        real.inputs = {"w", "s"}, real.outputs = {"r"}, product.inputs = {"x", "r"}, product.outputs = {"y"};
        real.attributes = {{"axis", {int64_t(0)}}, {"block_size", {int64_t(16)}}};
        graph.nodes = {real, product};
        const Model m = Model::of_graph(graph, "m");
        const CompiledModel compiled = CompiledModel::compile(m);
        CHECK_EQ(difference(compiled.run({x}).at(0), evaluate(m, {x}).at(0)), "");
        size_t bytes = 0;
        for (const Buffer<> &c : compiled.program().constants)
            bytes = std::max(bytes, c.number_of_elements() * size_t(c.type().bytes()));
        CHECK_EQ(bytes, size_t(type.bits() == 2 ? 240 : 20 * ((33 * type.bits() + 7) / 8)));
        CHECK_EQ(compiled.program().kernels.size(), 1);
    }
}
