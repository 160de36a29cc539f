// Default schedules that keep the stages of stencils in rings of planes.
// Links: driver
#include "driver/default_schedule.h"
#include "dsl/math.h"
#include "dsl/padding.h"
#include "machine/machine.h"
#include "schedules/rolling.h"
#include "tests/unit/check_runs.h"
#include "tests/unit/cores.h"
#include "tests/unit/count.h"

#include <algorithm>

using namespace kumiko;
using namespace std::string_literals;

namespace {

// This machine with so many bytes of L2, and twice as many of L3.
Machine with_l2(int64_t bytes, int64_t cores = 1) {
    Machine m = host_of(cores);
    for (MemoryLevel &level : m.memory) {
        if (level.name == "L2") level.bytes = bytes;
        if (level.name == "L3") level.bytes = 2 * bytes;
    }
    return m;
}

enum class Border { Zero, Clamped, None };

// Steps of a stencil over all axes, in which inlining would cost more than storing.
Op steps(const std::vector<int> &extents, int steps, Border border) {
    const int rank = static_cast<int>(extents.size());
    const auto axes_of = [&](int step) {
        std::vector<Axis> axes;
        for (int d = 0; d < rank; d++) {
            const std::string name = "zyx"s.substr(static_cast<size_t>(3 - rank + d), 1);
            axes.emplace_back(name, extents[static_cast<size_t>(d)] - (border == Border::None ? 2 * step : 0));
        }
        return axes;
    };
    const Tensor X = input("X", i32, axes_of(0));
    Tensor T = X;
    for (int n = 1; n <= steps; n++) {
        const Tensor P = border == Border::Zero ? zero_padded(T) : border == Border::Clamped ? clamped(T) : T;
        const std::vector<Axis> axes = axes_of(n);
        const int at = border == Border::None ? 1 : 0;
        Expr sum = 0;
        for (int d = 0; d < rank; d++) {
            for (const int offset : {-1, 0, 1}) {
                std::vector<Expr> index;
                for (int k = 0; k < rank; k++)
                    index.push_back(axes[static_cast<size_t>(k)] + (at + (k == d ? offset : 0)));
                sum = sum + P.at(index) * (offset + 2);
            }
        }
        T = compute(n == steps ? "Y" : "T" + std::to_string(n), axes, sum);
    }
    return Op("steps", {X}, {T});
}

size_t rolled(const Schedule &s) {
    const auto &stages = s.state().stages;
    return static_cast<size_t>(std::count_if(stages.begin(), stages.end(), rolls));
}

} // namespace

TEST_CASE("stages that L2 does not hold roll, whatever their border") {
    for (const Border border : {Border::Zero, Border::Clamped, Border::None}) {
        const Op op = steps({40, 37}, 4, border);
        const Schedule s = default_schedule(op, with_l2(4 << 10));
        CAPTURE(s.nest());
        CHECK_EQ(rolled(s), border == Border::Clamped ? 1 : 3);
        check_runs(s);
        CHECK_EQ(rolled(default_schedule(op, with_l2(1 << 20))), 0);
    }
}

TEST_CASE("rings that exceed L2 are kept for strips of the next axis, which threads share") {
    const Op op = steps({40, 205, 16}, 3, Border::None);
    for (const int cores : {1, 4}) {
        const Schedule s = default_schedule(op, with_l2(24 << 10, cores));
        CHECK_EQ(rolled(s), 2);
        CHECK(says(body_of(s), "parallel") == (cores > 1));
        const LoopState &strips = s.state().stage("Y").loop("y.o");
        CHECK_EQ(*Halide::Internal::as_const_int(strips.extent), cores > 1 ? 7 : 3);
        check_runs(s);
    }
    CHECK_EQ(rolled(default_schedule(op, with_l2(1 << 10))), 0); // strips would be mostly borders
}

TEST_CASE("images of a batch roll one by one, and windows of reductions do") {
    Axis n("n", 3), y("y", 30), x("x", 40), k("k", 7), l("l", 7);
    const Tensor X = input("X", i32, {n, y, x}), w = input("w", i32, {k}), P = zero_padded(X);
    const Tensor across = compute("across", {n, y, x}, sum(P(n, y, x + k - 3) * w(k), k)), A = zero_padded(across);
    const Schedule s = default_schedule(
        Op("gauss", {X, w}, {compute("Y", {n, y, x}, sum(A(n, y + l - 3, x) * w(l), l))}), with_l2(4 << 10));
    CHECK_EQ(rolled(s), 1);
    CHECK(says(s.nest(), "keep across, the part that one y.i needs"));
    check_runs(s);
}

TEST_CASE("images of a batch whose stages are pointwise roll one by one") {
    Axis n("n", 3), y("y", 40), x("x", 50);
    const Tensor X = input("X", i32, {n, y, x}), P = zero_padded(X);
    const auto around = [&](const Tensor &p) {
        return p(n, y - 1, x) * 3 + p(n, y + 1, x) * 2 + p(n, y, x - 1) * 5 + p(n, y, x + 1) * 7 + p(n, y, x) * 4 +
               p(n, y - 1, x - 1) * 6;
    };
    const Tensor Q = zero_padded(compute("T", {n, y, x}, around(P)));
    const Schedule s = default_schedule(Op("batch", {X}, {compute("Y", {n, y, x}, around(Q))}), with_l2(4 << 10));
    CHECK_EQ(rolled(s), 1);
    check_runs(s);
}

TEST_CASE("a stage read only at earlier rows has no circular buffer") {
    Axis y("y", 60), x("x", 50);
    const Tensor X = input("X", i32, {y, x}), Z = zero_padded(X);
    const Tensor T = compute("T", {y, x}, 3 * Z(y, x) - Z(y - 1, x + 2) - Z(y, x - 1) + 2 * Z(y + 1, x)),
                 C = zero_padded(T);
    const Tensor U = compute("U", {y, x}, max(C(y - 2, x - 1), C(y, x + 2)) + C(y, x) * C(y + 1, x)),
                 D = zero_padded(U);
    std::vector<PassedOver> passed_over;
    const Schedule s = default_schedule(Op("behind", {X}, {compute("Y", {y, x}, D(y - 1, x))}), with_l2(2 << 10),
                                        PackedBy::Kernel, &passed_over);
    CHECK(passed_over.empty());
    check_runs(s);
}

TEST_CASE("a stage that another stage reads as a whole has no circular buffer") {
    Axis y("y", 40), x("x", 40), j("j", 40);
    const Tensor X = input("X", i32, {y, x}), P = zero_padded(X);
    const auto around = [&](const Tensor &p) {
        return p(y - 1, x) * 3 + p(y + 1, x) * 2 + p(y, x - 1) * 5 + p(y, x + 1) * 7 + p(y, x) * 4 +
               p(y - 1, x - 1) * 6;
    };
    const Tensor T = compute("T", {y, x}, around(P)), Q = zero_padded(T);
    const Tensor U = compute("U", {x}, sum(T(j, x), j));
    const Machine m = with_l2(2 << 10);
    CHECK_EQ(rolled(default_schedule(Op("one", {X}, {compute("Y", {y, x}, around(Q))}), m)), 1);
    const Schedule two = default_schedule(Op("two", {X}, {compute("Y", {y, x}, around(Q)), U}), m);
    CHECK_EQ(rolled(two), 0);
    check_runs(two);
    const Schedule turned = default_schedule(Op("turned", {X}, {compute("Y", {y, x}, around(Q) + T(x, y))}), m);
    CHECK_EQ(rolled(turned), 0);
    check_runs(turned);
}

TEST_CASE("sizes that are not known roll too, and arrays of no elements") {
    Axis y("y", Size("H")), x("x", Size("W"));
    const Tensor X = input("X", i32, {y, x}), P = zero_padded(X);
    const auto around = [&](const Tensor &p) {
        return p(y - 1, x) * 3 + p(y + 1, x) * 2 + p(y, x - 1) * 5 + p(y, x + 1) * 7 + p(y, x) * 4 +
               p(y - 1, x - 1) * 6;
    };
    const Tensor Q = zero_padded(compute("T", {y, x}, around(P)));
    const Op op("open", {X}, {compute("Y", {y, x}, around(Q))});
    for (const int cores : {1, 4}) {
        const Schedule s = default_schedule(op, with_l2(32 << 10, cores));
        CHECK_EQ(rolled(s), 1);
        for (const auto &[H, W] : {std::pair(0, 5), {1, 1}, {2, 9}, {300, 7}}) check_runs(s, {{"H", H}, {"W", W}});
    }
    CHECK_EQ(rolled(default_schedule(steps({0, 30}, 2, Border::Zero), with_l2(1 << 10))), 0);
}
