// Default schedules of global pools and of ops that move elements: the chosen loops, and results
// that equal the interpreter's.
// Links: driver
#include "driver/default_schedule.h"
#include "ops/ops.h"
#include "ops/registry.h"
#include "schedules/library/table.h"
#include "tests/unit/check_runs.h"

#include <algorithm>

using namespace kumiko;

namespace {

Op named(const std::string &name, const Json &shape) {
    return ops::make(name, ops::complete_parameters(ops::find_operator(name), shape));
}

// The first input at random, the others ascending: means and scales that are not too small.
void check_near(const Op &op) {
    INFO(op.to_string());
    const Kernel kernel = compile(default_schedule(op, Machine::host()));
    std::vector<Buffer<>> inputs, all;
    for (const Input &in : op.inputs()) {
        inputs.push_back(make_input(in, {}));
        fill_random(inputs.back(), inputs.size(), inputs.size() == 1 ? -1 : 0.5, 1);
    }
    all = inputs;
    all.push_back(make_output(op, op.outputs()[0], {}));
    kernel(all);
    const Bounded meant = interpret_with_bound(op, inputs);
    check_within(all.back(), meant.values[0], meant.bounds[0]);
}

bool says(const Op &op, const std::string &part, const char *machine = "x86-64-avx2") {
    const std::string nest = default_schedule(op, Machine::named(machine)).nest();
    INFO(nest);
    return nest.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("pools of whole images") {
    for (const char *name : {"max_pool", "average_pool"})
        for (const char *layout : {"nchw", "nhwc"})
            for (const auto &[c, h, w] : {std::tuple(40, 7, 7), {3, 14, 14}, {5, 4, 33}, {1, 1, 1}, {2048, 7, 7}}) {
                const Op op = named(name, {{"c", c}, {"h", h}, {"w", w}, {"kh", h}, {"kw", w}, {"layout", layout}});
                check_near(op);
                if (h < 2 || c < 40) continue;
                CHECK(library::find_template(op)->name == (std::string(layout) == "nchw" ? "rows" : "reduce"));
            }
}

TEST_CASE("windows with many channels on many cores") {
    const Json shape = {{"c", 2048}, {"h", 8}, {"w", 8}, {"kh", 8}, {"kw", 7}, {"stride", 2}, {"layout", "nhwc"}};
    for (const std::string &machine : Machine::names()) {
        if (machine.starts_with("chip")) continue;
        INFO(machine);
        CHECK_NOTHROW(default_schedule(named("max_pool", shape), Machine::named(machine)));
    }
    check_near(named("average_pool", shape));
}

TEST_CASE("last axes that are one run to all that is read are one loop where vectors would be partly empty") {
    const Op pad = named("pad", {{"shape", {20, 24, 3}}, {"before", {3, 3, 0}}, {"after", {3, 2, 0}}});
    CHECK(says(pad, "vectorized i1_i2"));
    check_runs(default_schedule(pad, Machine::host()));
    const Op apart = named("pad", {{"shape", {20, 24, 3}}, {"before", {0, 0, 1}}, {"after", {0, 0, 0}}});
    CHECK_FALSE(says(apart, "i1_i2")); // rows of the result are longer
    check_runs(default_schedule(apart, Machine::host()));
    const Op behind = named("concat", {{"parts", {4, 5}}, {"shared", {21}}, {"axis", 0}});
    CHECK_FALSE(says(behind, "i0_i1")); // vectors of both would be read outside of each
    const Op norm = named("batch_norm", {{"n", 2}, {"c", 6}, {"h", 7}, {"w", 7}});
    CHECK(says(norm, "vectorized y_x"));
    CHECK_FALSE(says(norm, "c_y_x")); // each channel has a scale
    check_near(norm);
    const Op whole = named("batch_norm", {{"n", 2}, {"c", 6}, {"h", 16}, {"w", 64}});
    CHECK_FALSE(says(whole, "y_x"));
    check_near(whole);
    check_near(named("batch_norm", {{"n", 2}, {"c", 6}, {"h", 7}, {"w", 7}, {"layout", "nhwc"}}));
    for (const Json &cut :
         {Json{{"shape", {6, 7, 5}}, {"extents", {6, 4, 5}}, {"begin", {0, 2, 0}}},
          Json{{"shape", {6, 7, 5}}, {"extents", {6, 7, 4}}},
          Json{{"shape", {6, 7, 5}}, {"extents", {6, 3, 5}}, {"step", {1, 2, 1}}},
          Json{{"shape", {6, 7, 5}}, {"extents", {6, 7, 5}}, {"begin", {5, 0, 0}}, {"step", {-1, 1, 1}}}})
        check_runs(default_schedule(named("slice", cut), Machine::host()));
    for (const int axis : {0, 1, 2}) {
        Json parts = {{"parts", {3, 4, 1}}, {"shared", {7, 5}}, {"axis", axis}};
        check_runs(default_schedule(named("concat", parts), Machine::host()));
    }
    for (const auto &order : std::vector<std::vector<int>>{{0, 1, 2}, {1, 0, 2}, {2, 0, 1}, {0, 2, 1}, {1, 2, 0}})
        check_runs(default_schedule(named("permute", {{"shape", {6, 9, 5}}, {"order", order}}), Machine::host()));
}

TEST_CASE("axes in any order, those that stay together as one") {
    const auto permute = [](const std::vector<int> &shape, const std::vector<int> &order) {
        return named("permute", {{"shape", shape}, {"order", order}});
    };
    CHECK(says(permute({20, 30, 50}, {2, 0, 1}), "vectorized i0_i1"));
    CHECK(says(permute({20, 30, 50}, {1, 2, 0}), "i1_i2"));
    CHECK_FALSE(says(permute({20, 30, 50}, {2, 1, 0}), "_i"));
    for (const std::vector<int> &shape : std::vector<std::vector<int>>{{5, 9, 3, 17}, {2, 1, 20, 6}, {3, 8, 4, 2}}) {
        std::vector<int> order = {0, 1, 2, 3};
        do check_runs(default_schedule(permute(shape, order), Machine::host()));
        while (std::next_permutation(order.begin(), order.end()));
    }
    // A second operand uses one of the two axes alone: they are not fused.
    const Axis i("i", 6), j("j", 10), k("k", 12);
    const Tensor X = input("X", f32, {i, j, k}), b = input("b", f32, {j});
    const Op apart("apart", {X, b}, {compute("Y", {k, i, j}, X(i, j, k) + b(j))});
    CHECK_FALSE(says(apart, "i_j"));
    check_runs(default_schedule(apart, Machine::host()));
}

TEST_CASE("images of other sizes, by whole factors and others") {
    for (const char *name : {"resize_nearest", "resize_bilinear"})
        for (const char *coordinates : {"half_pixel", "align_corners", "asymmetric"})
            for (const char *layout : {"nchw", "nhwc"})
                for (const auto &[from, to] :
                     {std::pair(9, 18), {8, 24}, {16, 64}, {40, 17}, {20, 33}, {1, 16}, {16, 1}})
                    check_near(named(name, {{"c", 3},
                                            {"h", from},
                                            {"w", from},
                                            {"oh", to},
                                            {"ow", to},
                                            {"coordinates", coordinates},
                                            {"layout", layout}}));
}

TEST_CASE("elements of several phases are computed phase by phase, in vectors") {
    for (const int columns : {96, 90, 6}) {
        const Axis y("y", 10), x("x", columns), p("p", 2), q("q", 2), i("i", 5), j("j", columns / 2);
        const Tensor X = input("X", f32, {p, q, i, j});
        const Op op("phases", {X}, {compute("Y", {y, x}, X(y % 2, x % 2, y / 2, x / 2) * 3)});
        if (columns > 6) CHECK(says(op, "unrolled x.i"));
        check_runs(default_schedule(op, Machine::host()));
    }
}

TEST_CASE("rounding and saturation to a narrow type") {
    for (const Type t : {i8, u8, i16, u16})
        for (const float plus : {0.0f, -7.0f, 300.0f, 0.5f}) {
            const Axis i("i", 203);
            const Tensor X = input("X", f32, {i});
            const Expr whole = round(Element(X(i))), all = plus == 0 ? whole : whole + plus;
            const Op op("rounded", {X}, {compute("Y", {i}, cast(t, Element(all)))});
            Buffer<> x = make_input(op.inputs()[0], {}), y = make_output(op, "Y", {});
            fill_random(x, 1, -400, 400);
            auto *values = reinterpret_cast<float *>(x.data());
            for (int n = 0; n < 100; n++) values[n] = static_cast<float>(n - 50) * 0.5f;
            for (int n = 100; n < 120; n++) values[n] = static_cast<float>(n - 110) * 0.5f + (n % 2 ? 32767 : 65535);
            values[120] = 3e30f, values[121] = -INFINITY, values[122] = NAN, values[123] = -32768.5f;
            const Schedule vectors = default_schedule(op, Machine::host());
            for (const Schedule &s : {vectors, Schedule(op)}) {
                compile(s)(std::vector<Buffer<>>{x, y});
                CHECK_EQ(difference(y, interpret(op, {x})[0]), "");
            }
        }
}
