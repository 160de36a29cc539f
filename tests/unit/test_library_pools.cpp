// Windows of images: results stay in registers, and indices that are clamped at the image's border
// are plain inside.
// Links: driver
#include "driver/default_schedule.h"
#include "ops/ops.h"
#include "ops/registry.h"
#include "tests/unit/check_runs.h"
#include "tests/unit/count.h"

using namespace kumiko;

namespace {

Op pool(const std::string &name, Json shape) {
    return ops::make(name, ops::complete_parameters(ops::find_operator(name), shape));
}

} // namespace

TEST_CASE("pools of any size are what the formula says") {
    for (const char *name : {"max_pool", "average_pool"}) {
        for (const auto &[k, stride, padding] :
             {std::tuple(2, 2, 0), {3, 1, 1}, {3, 2, 1}, {3, 2, 0}, {5, 3, 2}, {9, 1, 4}}) {
            for (const auto &[h, w] : {std::pair(9, 40), {17, 17}, {9, 9}}) {
                const Op op = pool(
                    name,
                    {{"c", 3}, {"h", h}, {"w", w}, {"kh", k}, {"kw", k}, {"stride", stride}, {"padding", padding}});
                INFO(op.to_string());
                if (std::string(name) == "max_pool") {
                    check_runs(default_schedule(op, Machine::host()));
                    continue;
                }
                const Kernel kernel = compile(default_schedule(op, Machine::host()));
                Buffer<> X = make_input(op.inputs()[0], {}), Y = make_output(op, "Y", {});
                fill_random(X, 1, -1, 1);
                kernel({X, Y});
                const Bounded meant = interpret_with_bound(op, {X});
                check_within(Y, meant.values[0], meant.bounds[0]);
            }
        }
    }
}

TEST_CASE("results of windows stay in registers, and their mean is taken as they leave") {
    const Json shape = {{"c", 3}, {"h", 33}, {"w", 64}, {"kh", 3}, {"kw", 3}, {"stride", 1}, {"padding", 1}};
    const Machine machine = Machine::named("x86-64-avx2");
    CHECK(default_schedule(pool("max_pool", shape), machine).nest().find("accumulate Y in registers") !=
          std::string::npos);
    const std::string mean = default_schedule(pool("average_pool", shape), machine).nest();
    CHECK(mean.find("accumulate Y.sum in registers") != std::string::npos);
    CHECK(mean.find("at the end: Y(…) = …") != std::string::npos);
}

TEST_CASE("an index that is clamped is plain where no iteration leaves the image") {
    const Json shape = {{"c", 3}, {"h", 33}, {"w", 64}, {"kh", 3}, {"kw", 3}, {"stride", 1}, {"padding", 1}};
    const std::string body = body_of(default_schedule(pool("max_pool", shape), Machine::named("x86-64-avx2")));
    const size_t columns = body.find(", 1, 6)");
    REQUIRE(columns != std::string::npos);
    const std::string inside = body.substr(columns, body.find("\n  }\n", columns) - columns);
    INFO(inside);
    CHECK(inside.find("(float32x8)X[ramp(") != std::string::npos);
    CHECK(count(inside, "X[ramp(") == count(inside, "X["));
    CHECK(count(body, "X[max(") > 0); // at the border
}

TEST_CASE("an index that is clamped to what is read") {
    Axis b("b", 6), i("i", 24);
    Tensor X = input("X", Int(32), {b, i}), length = input("L", Int(32), {b});
    const Op op("ragged", {X, length}, {compute("Y", {b, i}, X(b, max(min(i, length(b) - 1), 0)))});
    Schedule s(op);
    s.stage("Y").vectorize("i", 8);
    for (const Schedule &each : {Schedule(op), s}) {
        const Kernel k = compile(each);
        Buffer<> x = make_input(op.inputs()[0], {}), l = make_input(op.inputs()[1], {}), y = make_output(op, "Y", {});
        fill_random_integers(x, 1, -9, 9);
        fill_random_integers(l, 2, 0, 1); // of nothing there is no last element: the first is read
        k({x, l, y});
        CHECK(difference(y, interpret(op, {x, l})[0]) == "");
    }
}
