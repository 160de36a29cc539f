// Default schedules keep denormal numbers, on the caller's thread and on threads of the pool:
// nothing is flushed to zero.
// Links: driver
#include "driver/default_schedule.h"
#include "ops/ops.h"
#include "support/random.h"
#include "tests/unit/check_runs.h"
#include "tests/unit/cores.h"

#include <cmath>

using namespace kumiko;

namespace {

bool denormal(float x) { return std::fpclassify(x) == FP_SUBNORMAL; }

// Small integers times `scale`, a power of two per input. Their products and sums are exact in
// every order.
void check(const Op &op, const std::vector<float> &scale) {
    std::vector<Buffer<>> arrays;
    for (const Input &in : op.inputs()) {
        arrays.push_back(make_input(in, {}));
        Buffer<> &b = arrays.back();
        Random random(arrays.size());
        for (size_t at = 0; at < b.number_of_elements(); at++)
            static_cast<float *>(b.data())[at] = (float(random.below(9)) - 4) * scale.at(arrays.size() - 1);
    }
    std::vector<Buffer<>> meant = arrays;
    arrays.push_back(make_output(op, op.outputs()[0], {}));
    meant.push_back(make_output(op, op.outputs()[0], {}));
    interpret(op, meant);
    size_t seen = 0;
    const size_t n = meant.back().number_of_elements();
    for (size_t at = 0; at < n; at++) seen += denormal(static_cast<const float *>(meant.back().data())[at]);
    CHECK(seen > n / 2); // or there would be nothing to see
    for (const int cores : {1, 4}) {
        const Threads threads(cores);
        const Schedule s = default_schedule(op, host_of(cores));
        INFO(s.nest());
        fill_unwritten(arrays.back());
        compile(s)(arrays);
        CHECK_EQ(difference(arrays.back(), meant.back()), "");
    }
}

const float least = std::ldexp(1.f, -149), tiny = std::ldexp(1.f, -70), small = std::ldexp(1.f, -144);

} // namespace

TEST_CASE("products and convolutions") {
    for (const auto &[a, b] : {std::pair(least, 1.f), std::pair(1.f, least), std::pair(tiny, tiny)}) {
        check(ops::matmul(f32, 150, 130, 90), {a, b});
        check(ops::matmul(f32, 1, 700, 200), {a, b});
        check(ops::matmul(f32, 8, 16, 20000), {a, b});
    }
    for (const auto &[a, b] : {std::pair(small, 1.f), std::pair(1.f, small), std::pair(tiny, tiny)}) {
        check(ops::conv2d(f32, 1, 8, 40, 40, 16, 3, 3), {a, b});
        check(ops::conv2d(f32, 1, 8, 40, 40, 16, 1, 1), {a, b});
        ops::Conv2dOptions each;
        each.groups = 8;
        check(ops::conv2d(f32, 1, 8, 60, 60, 8, 3, 3, each), {a, b});
    }
}

TEST_CASE("elementwise chains and sums") {
    Axis i("i", 300), j("j", 501);
    Tensor X = input("X", f32, {i, j}), Z = input("Z", f32, {i, j});
    Tensor T = compute("T", {i, j}, X(i, j) * 2.f - Z(i, j));
    const Op chain("chain", {X, Z}, {compute("Y", {i, j}, max(T(i, j), Z(i, j)) * 3.f + X(i, j))});
    check(chain, {least, least});
    check(ops::reduction("sum", f32, {300, 501}, {1}), {least});
    check(ops::reduction("sum", f32, {300, 501}, {0}), {least});
}

TEST_CASE("softmax of rows most of which is denormal") {
    const int M = 300, N = 400;
    const Op op = ops::softmax(f32, M, N);
    std::vector<Buffer<>> arrays = {make_input(op.inputs()[0], {}), make_output(op, op.outputs()[0], {})};
    auto *x = static_cast<float *>(arrays[0].data()), *y = static_cast<float *>(arrays[1].data());
    for (int i = 0; i < M; i++) {
        // exp: 8e-40 to 5e-45
        for (int j = 0; j < N; j++) x[i * N + j] = j == i ? least : -90 - float(j) * 0.03f;
    }
    for (const int cores : {1, 4}) {
        const Threads threads(cores);
        const Schedule s = default_schedule(op, host_of(cores));
        INFO(s.nest());
        fill_unwritten(arrays[1]);
        compile(s)(arrays);
        int wrong = 0;
        for (int at = 0; at < M * N; at++) {
            const double meant = at / N == at % N ? 1 : std::exp(double(x[at]));
            wrong += !(std::abs(y[at] - meant) <= 2 * double(least) + meant * 1e-6);
        }
        CHECK(wrong == 0);
    }
}
