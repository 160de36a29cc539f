// Edge cases of a formula's meaning under default schedules: NaN among the terms of maxima and
// minima, and empty sums.
// Links: driver
#include "driver/default_schedule.h"
#include "ops/ops.h"
#include "ops/registry.h"
#include "support/random.h"
#include "tests/unit/check_runs.h"

#include <cmath>
#include <cstring>

using namespace kumiko;

namespace {

Op made(const std::string &name, const Json &parameters) {
    return ops::make(name, ops::complete_parameters(ops::find_operator(name), parameters));
}

// Random numbers, every seventh NaN; the first quarter is NaN only.
Buffer<> with_nan(const Input &in) {
    Buffer<> b = make_input(in, {});
    fill_random(b, 11, -8, 8);
    Random random(11);
    const size_t size = size_t(b.type().bytes()), n = b.number_of_elements();
    const uint64_t nan = in.type == f64   ? 0x7ff8000000000000
                         : in.type == f32 ? 0x7fc00000
                         : in.type == f16 ? 0x7e00
                                          : 0x7fc0;
    for (size_t at = 0; at < n; at++) {
        if (at < n / 4 || random.below(7) == 0) std::memcpy(static_cast<uint8_t *>(b.data()) + at * size, &nan, size);
    }
    return b;
}

Schedule default_of(const Op &op) { return default_schedule(op, Machine::host()); }

void check_with_nan(const Schedule &s) {
    const Op &op = s.op();
    INFO(s.nest());
    const Buffer<> x = with_nan(op.inputs()[0]);
    Buffer<> actual = make_output(op, op.outputs()[0], {}), meant = make_output(op, op.outputs()[0], {});
    compile(s)(std::vector<Buffer<>>{x, actual});
    std::vector<Buffer<>> arrays = {x, meant};
    interpret(op, arrays);
    CHECK(difference(actual, meant) == "");
}

} // namespace

TEST_CASE("NaN never wins a maximum or a minimum, whatever the order of the steps") {
    for (const char *kind : {"max", "min"}) {
        for (const char *type : {"f32", "f64", "f16", "bf16"}) {
            for (const auto &[shape, axes] :
                 {std::pair(Json{6, 77}, Json{1}), std::pair(Json{9, 40}, Json{0}),
                  std::pair(Json{3, 5, 17}, Json{0, 2}), std::pair(Json{4, 300}, Json{0, 1})}) {
                CAPTURE(shape.dump() + axes.dump() + type + kind);
                const Op op = made("reduce", {{"kind", kind}, {"shape", shape}, {"axes", axes}, {"type", type}});
                check_with_nan(default_of(op));
                check_with_nan(Schedule(op));
            }
        }
    }
    Axis i("i", 5), j("j", 64);
    Tensor X = input("X", f32, {i, j});
    Schedule lanes(Op("top", {X}, {compute("Y", {i}, maximum(X(i, j), j))}));
    lanes.stage("Y").vectorize("j", 8);
    check_with_nan(lanes);
    // The maximum ignores NaN; if all are NaN, it is the lowest value.
    std::vector<Buffer<>> arrays = {make_input(lanes.op().inputs()[0], {}), make_output(lanes.op(), "Y", {})};
    float *x = static_cast<float *>(arrays[0].data()), *y = static_cast<float *>(arrays[1].data());
    std::fill_n(x, 5 * 64, NAN);
    for (int n : {3, 40}) x[64 + n] = float(n), x[128 + n] = -float(n);
    compile(lanes)(arrays);
    CHECK(y[0] == -INFINITY);
    CHECK(y[1] == 40);
    CHECK(y[2] == -3);
}

TEST_CASE("exp of differences from a maximum if a term is NaN") {
    Axis i("i", 6), j("j", 77), k("k", 77);
    Tensor X = input("X", f32, {i, j});
    Tensor top = compute("top", {i}, maximum(X(i, k), k));
    const Op op("e", {X}, {compute("Y", {i, j}, exp(X(i, j) - top(i)))});
    Buffer<> x = with_nan(op.inputs()[0]), y = make_output(op, "Y", {});
    compile(default_of(op))(std::vector<Buffer<>>{x, y});
    const Bounded meant = interpret_with_bound(op, {x});
    check_within(y, meant.values[0], meant.bounds[0]);
}

TEST_CASE("products of no steps are zero") {
    for (const char *type : {"f32", "f64", "bf16", "i8", "u8"}) {
        for (const auto &[m, n, batch] :
             {std::tuple(5, 7, 1), std::tuple(64, 64, 2), std::tuple(1, 9, 1), std::tuple(0, 8, 1)}) {
            CAPTURE(type);
            check_runs(default_of(made("matmul", {{"m", m}, {"n", n}, {"k", 0}, {"batch", batch}, {"type", type}})));
        }
    }
}

TEST_CASE("all of many bytes are one extreme") {
    for (const char *kind : {"max", "min", "sum"}) {
        for (const char *type : {"i8", "u8", "i16"}) {
            for (const auto &[shape, axes] :
                 {std::pair(Json{4096}, Json{0}), std::pair(Json{700}, Json{0}), std::pair(Json{3, 1025}, Json{1}),
                  std::pair(Json{40, 3, 90}, Json{1, 2})}) {
                CAPTURE(shape.dump() + axes.dump() + type + kind);
                const Op op = made("reduce", {{"kind", kind}, {"shape", shape}, {"axes", axes}, {"type", type}});
                check_runs(default_of(op));
            }
        }
        check_runs(default_of(made("reduce", {{"kind", kind}, {"shape", {"N"}}, {"axes", {0}}, {"type", "i8"}})),
                   {{"N", 1000}});
    }
}

TEST_CASE("a table without rows is refused at the call, unless no index reads it") {
    const Op op = made("gather", {{"m", "M"}, {"n", "N"}, {"w", 3}});
    const Kernel k = compile(op);
    const auto told = [&](int64_t m, int64_t rows) {
        Buffer<float> X({rows, 3}), Y({m, 3});
        Buffer<int32_t> index({m});
        fill_random_integers(index, 1, -5, 5);
        return refusal([&] { k(X, index, Y); });
    };
    CHECK_MESSAGE(told(4, 0).find("1 <= N (stage Y reads X") != std::string::npos, told(4, 0));
    CHECK(told(0, 0) == "no error");
    CHECK(told(4, 1) == "no error");
    std::vector<float> x(64), y(64);
    std::vector<int32_t> at(8);
    void *arrays[] = {x.data(), at.data(), y.data()};
    std::vector<int64_t> sizes;
    for (const std::string &size : op.sizes()) sizes.push_back(size == "M" ? 4 : 0);
    CHECK(k.call_raw(arrays, sizes.data()) != 0);
}

TEST_CASE("no images, no channels, no columns") {
    const auto runs = [](const std::string &name, const Json &shape, const Sizes &sizes = {}) {
        CAPTURE(name + shape.dump());
        check_runs(default_of(made(name, shape)), sizes);
    };
    for (const char *layout : {"nchw", "nhwc"}) {
        for (const auto &[n, c] : {std::pair(0, 4), std::pair(2, 0), std::pair(2, 3)})
            runs("max_pool", {{"n", n},
                              {"c", c},
                              {"h", 8},
                              {"w", 8},
                              {"kh", 3},
                              {"kw", 3},
                              {"stride", 2},
                              {"padding", 1},
                              {"layout", layout}});
        runs("max_pool",
             {{"n", 2}, {"c", "C"}, {"h", 5}, {"w", 16}, {"kh", 3}, {"kw", 3}, {"padding", 1}, {"layout", layout}},
             {{"C", 0}});
        runs("average_pool", {{"n", 2}, {"c", "C"}, {"h", 5}, {"w", 16}, {"kh", 2}, {"kw", 2}, {"layout", layout}},
             {{"C", 0}});
    }
    runs("batch_norm", {{"n", 2}, {"c", 4}, {"h", 3}, {"w", "W"}}, {{"W", 0}});
}

TEST_CASE("a copy for a loop without iterations") {
    for (const bool number : {true, false}) {
        const Axis i("i", number ? Expr(0) : Expr(Size("N")));
        const Tensor X = input("X", f32, {i});
        Schedule s(Op("none", {X}, {compute("Y", {i}, X(i) * 2.f)}));
        s.stage("Y").split("i", 32);
        s.stage("Y").reorder({"i.i", "i.o"});
        s.place_in("X", "L1", "Y", "i.i");
        s.stage("X.L1").unroll("i", 7);
        check_runs(s, number ? Sizes() : Sizes{{"N", 0}});
    }
}

TEST_CASE("the negative of zero is below zero") {
    for (const char *type : {"f32", "f64", "f16", "bf16"}) {
        const Op op = made("neg", {{"n", 40}, {"type", type}});
        std::vector<Buffer<>> arrays = {make_input(op.inputs()[0], {}), make_output(op, "Y", {})};
        const size_t bytes = size_t(arrays[0].type().bytes());
        std::memset(arrays[0].data(), 0, 40 * bytes);
        compile(op)(arrays);
        for (size_t at = 0; at < 40; at++)
            CHECK(static_cast<uint8_t *>(arrays[1].data())[(at + 1) * bytes - 1] == 0x80);
    }
}

TEST_CASE("the arrays of channels in groups say how many channels there are") {
    const auto runs = [](const std::string &name, const Json &shape, const Sizes &sizes) {
        CAPTURE(name + shape.dump());
        const Op op = made(name, shape);
        const Kernel k = compile(op);
        std::vector<Buffer<>> arrays;
        for (const Input &in : op.inputs()) arrays.push_back(make_input(in, sizes));
        for (const Buffer<> &b : arrays) fill_random_integers(b, 3, -4, 4);
        std::vector<Buffer<>> meant = arrays;
        arrays.push_back(make_output(op, "Y", sizes));
        meant.push_back(make_output(op, "Y", sizes));
        k(arrays);
        interpret(op, meant);
        return difference(arrays.back(), meant.back());
    };
    const Json image = {{"c", "C"}, {"h", 6}, {"w", 7}, {"o", "O"}, {"groups", 2}};
    CHECK(runs("conv2d", image, {{"C", 4}, {"O", 6}}) == "");
    CHECK(runs("conv2d", image, {{"C", 0}, {"O", 2}}) == "");
    runs("group_norm", {{"c", "C"}, {"h", 6}, {"w", 7}, {"groups", 2}}, {{"C", 6}});
    for (const char *name : {"conv2d", "group_norm"}) {
        Json shape = {{"c", "C"}, {"h", 6}, {"w", 7}, {"groups", 2}};
        if (name == std::string("conv2d")) shape["o"] = 4;
        const std::string told = refusal([&] { check_requirements(made(name, shape), {{"C", 5}}); });
        CHECK_MESSAGE(told.find("requires C % 2 == 0 (channels in groups)") != std::string::npos, told);
    }
}

TEST_CASE("images of run-time sizes whose coordinates exceed 32 bits are refused") {
    const Op op = made("resize_bilinear", {{"c", 1}, {"h", "H"}, {"w", 1}, {"oh", "OH"}, {"ow", 1}});
    const Kernel k = compile(op);
    const auto told = [&](int64_t h, int64_t oh) {
        Buffer<float> x({1, 1, h, 1}), y({1, 1, oh, 1});
        fill_random(x, 1, -1, 1);
        return refusal([&] { k(x, y); });
    };
    CHECK(told(20000, 20000) == "no error");
    CHECK(told(20000, 26842) == "no error");
    for (const auto &[h, oh] : {std::pair(50000, 50000), std::pair(20000, 26843), std::pair(100, 6000000)}) {
        const std::string text = told(h, oh);
        CHECK_MESSAGE(text.find("heights whose coordinates are of 32 bits: a product below 536870911") !=
                          std::string::npos,
                      text);
    }
}
