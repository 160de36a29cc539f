// Padding that is stored in memory and read at indices that loops do not bound: those of a stage,
// data-dependent ones, and bitwise ones.
// Links: driver
#include "driver/default_schedule.h"
#include "dsl/padding.h"
#include "ops/ops.h"
#include "tests/unit/check_runs.h"

using namespace kumiko;

namespace {

const Axis n("n", 3), i("i", 7), x("x", 13);
const Tensor X = input("X", i32, {n, i});

std::vector<Tensor> paddings() {
    return {zero_padded(X, {i}), clamped(X, {i}), constant_padded(X, 5, {i}), zero_padded(X)};
}

// Y(n, x) = P(n, at) + P(n, at + 1), and variants of it with P placed wherever possible.
void check_placed(const Tensor &P, const std::vector<Tensor> &inputs, const Element &at) {
    const Op op("borders", inputs, {compute("Y", {n, x}, P(n, at) + P(n, at + 1))});
    std::vector<Schedule> all(6, Schedule(op));
    all[0].stage(P.name()).compute_root();
    all[1].stage(P.name()).compute_at("Y", "n");
    all[2].stage(P.name()).compute_at("Y", "x");
    all[3].stage("Y").vectorize("x", 8);
    all[3].stage(P.name()).compute_root();
    all[4].stage("Y").split("x", 4);
    all[4].stage(P.name()).compute_at("Y", "x.o");
    all[5].place_in(P.name(), "L1", "Y", "n");
    for (const Schedule &s : all) check_runs(s);
}

} // namespace

TEST_CASE("padding is read at an index that is a stage") {
    for (const Tensor &P : paddings()) {
        const Tensor left = compute("left", {x}, (x * 9 - 2) / 5 - 6);
        check_placed(P, {X}, left(x));
        const Tensor turned = compute("turned", {x, n}, 10 - x - n);
        check_placed(P, {X}, turned(x, n));
    }
}

TEST_CASE("padding is read at an index that data decide, or that has no bounds") {
    const Tensor where = input("where", i32, {x});
    for (const Tensor &P : paddings()) {
        check_placed(P, {X, where}, where(x) * 3 - 1);
        check_placed(P, {X, where}, where(x) + x);
        check_placed(P, {X}, Element((x ^ 5) - 4));
        check_placed(P, {X}, Element((x & -3) - 2)); // known of all x, and not of a block
    }
}

TEST_CASE("padding of padding is read at an index that is a stage") {
    const Tensor left = compute("left", {x}, x - 4), P = clamped(X, {i});
    const Tensor S = compute("S", {n, i}, P(n, i - 1) + P(n, i + 1)), Q = zero_padded(S, {i});
    const Op op("twice", {X}, {compute("Y", {n, x}, Q(n, left(x)) + Q(n, x - 2))});
    for (const char *loop : {"n", "x"}) {
        Schedule s(op);
        s.stage(Q.name()).compute_at("Y", loop);
        s.stage(P.name()).compute_root();
        check_runs(s);
        s.stage("S").compute_at("Y", loop);
        check_runs(s);
    }
}

TEST_CASE("rows of a resized image, kept with their borders") {
    const Op op = ops::resize_bilinear(f32, 1, 3, 7, 7, 14, 11);
    for (const char *loop : {"n", "c", "y", "x"}) {
        Schedule s(op);
        s.stage("rows.clamped").compute_at("Y", loop);
        Buffer<> image = make_input(op.inputs()[0], {}), y = make_output(op, "Y", {});
        fill_random(image, 3, -1, 1);
        compile(s)(std::vector<Buffer<>>{image, y});
        std::vector<Buffer<>> arrays = {image, make_output(op, "Y", {})};
        interpret(op, arrays);
        const auto *got = static_cast<const float *>(y.data()), *meant = static_cast<const float *>(arrays[1].data());
        for (int at = 0; at < 3 * 14 * 11; at++) CHECK(double(got[at]) == doctest::Approx(meant[at]).epsilon(1e-5));
    }
}

TEST_CASE("the borders of a row of bytes are loops over lanes") {
    const Size n("n");
    const Axis x("x", n);
    const Tensor X = input("X", u8, {x}), P = clamped(X);
    const Kernel k = compile(Op("blur", {X}, {compute("Y", {x}, P(x - 2) + P(x - 1) + P(x + 1) + P(x + 2))}));
    CHECK(k.assembly().size() < 80000); // 107,000 where each lane is written out
}
