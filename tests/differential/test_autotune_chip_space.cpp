// Spaces for the chip made from formulas. Each point without a reason against it must compile to a
// program that computes the formula, except for a few that the compiler refuses. Reasons are
// counted.
// Links: ops
// Cost: 40
// Sanitized: --test-case=*elements*
#include "autotune/arrays.h"
#include "autotune/spaces/auto_space.h"
#include "dsl/reduction.h"
#include "ops/registry.h"
#include "support/error.h"
#include "targets/chip/compile.h"

#include <doctest/doctest.h>

using namespace kumiko;

namespace {

Machine chip(const std::string &name) { return chip_machine(sim::Config::load(name)); }

Op named(const std::string &op, const Json &parameters) { return ops::make(op, parameters); }

struct Counts {
    int drawn = 0, good = 0;
    std::map<std::string, int> refused; // by the space
    std::map<std::string, int> late;    // by the compiler
};

// Draws points uniformly until `points` have no reason against them; compiles, simulates and
// compares each of those and the default.
Counts check_points(const Op &op, int points, uint64_t seed, const std::string &machine = "small") {
    CAPTURE(op.to_string());
    CAPTURE(machine);
    CAPTURE(seed);
    const auto space = auto_space(op, chip(machine));
    const MeasuredArrays arrays = make_measured_arrays(op, {}, seed);
    Counts counts;
    const auto check = [&](const Point &point) {
        CAPTURE(space->text(point));
        std::optional<ChipProgram> program;
        try {
            program = compile_chip(space->schedule(point));
        } catch (const PlacedError &e) {
            counts.late[e.what()]++;
            return;
        }
        std::vector<Buffer<>> all = arrays.inputs;
        all.push_back(make_output(op, op.outputs()[0], {}));
        fill_unwritten(all.back());
        REQUIRE_NOTHROW(program->run(all)); // the simulator knows each hazard
        if (arrays.exact)
            CHECK_EQ(difference(all.back(), arrays.expected[0]), "");
        else
            CHECK_NOTHROW(check_within(all.back(), arrays.expected[0], arrays.bounds[0]));
        counts.good++;
    };
    check(space->default_point());
    CHECK(counts.late.empty());
    Random random(seed);
    for (int legal = 0; legal < points && counts.drawn < 100000;) {
        Point p;
        for (const ParameterInfo &i : space->parameters()) p.push_back(uint32_t(random.below(i.values.size())));
        counts.drawn++;
        if (const std::string why = space->reason_against(p); !why.empty()) {
            counts.refused[why]++;
            continue;
        }
        legal++;
        check(p);
    }
    int late = 0;
    for (const auto &[reason, n] : counts.late) {
        INFO(n << " × " << reason);
        late += n;
        CHECK(late * 10 <= points); // the space predicts nearly all refusals
    }
    return counts;
}

Tensor in(const std::string &name, Type t, const std::vector<Axis> &axes) { return input(name, t, axes); }

} // namespace

TEST_CASE("products with an empty axis have a search space") {
    const Machine small = chip("small");
    for (const auto &[m, n] : {std::pair(4, 0), std::pair(0, 4)}) {
        const auto space = auto_space(named("matmul", {{"m", m}, {"n", n}, {"k", 4}}), small);
        CHECK(space->reason_against(space->default_point()) == "");
        CHECK(space->estimate(space->default_point()) >= 0);
    }
}

TEST_CASE("elements: of one axis, rows, with a row or a column for all") {
    const Axis i("i", 61), j("j", 300), n("n", 5000);
    const Tensor a = in("A", f32, {n}), b = in("B", f32, {n});
    check_points(Op("add", {a, b}, {compute("C", {n}, a(n) + b(n))}), 12, 1);
    for (const Type t : {Type(f16), Type(f32)}) {
        const Tensor x = in("X", t, {i, j}), y = in("Y", t, {i, j}), row = in("R", t, {j}), column = in("S", t, {i});
        check_points(Op("product", {x, y}, {compute("C", {i, j}, x(i, j) * y(i, j))}), 8, 2);
        const Counts counts =
            check_points(Op("affine", {x, column, row}, {compute("C", {i, j}, x(i, j) * column(i) + row(j))}), 12, 3);
        CHECK(counts.refused.size() >= 2); // of several kinds
        CHECK(counts.refused.count("units get parts of a block of DRAM") == 1);
    }
    check_points(named("gelu", {{"n", 4000}}), 4, 4);
}

TEST_CASE("rows: softmax, norms, sums") {
    check_points(named("softmax", {{"m", 40}, {"n", 200}}), 10, 1);
    check_points(named("softmax", {{"m", 21}, {"n", 150}, {"type", "f16"}}), 6, 2);
    check_points(named("layer_norm", {{"m", 33}, {"n", 200}}), 10, 3);
    check_points(named("rms_norm", {{"m", 40}, {"n", 130}, {"type", "f16"}}), 8, 4);
    check_points(named("reduce", {{"shape", {64, 500}}, {"axes", {1}}}), 12, 5);
    check_points(named("reduce", {{"kind", "argmax"}, {"shape", {40, 100}}, {"axes", {1}}}), 6, 6);
}

TEST_CASE("reductions along other axes, and of all") {
    check_points(named("reduce", {{"shape", {300, 128}}, {"axes", {0}}}), 12, 1);
    check_points(named("reduce", {{"shape", {100, 130}}, {"axes", {0, 1}}}), 10, 2);
    check_points(named("reduce", {{"kind", "max"}, {"type", "f16"}, {"shape", {12, 40, 50}}, {"axes", {1}}}), 10, 3);
    const Counts counts =
        check_points(named("reduce", {{"kind", "product"}, {"shape", {30, 128}}, {"axes", {0}}}), 8, 4);
    CHECK(counts.refused.count("the tree of units cannot reduce products") == 1);
}

TEST_CASE("no library schedule: two sums that share reads") {
    const Axis i("i", 20), j("j", 96), k("k", 24);
    const Tensor x = in("X", f32, {i, k}), u = in("U", f32, {k, j}), v = in("V", f32, {k, j}), y = in("Y", f32, {j, k});
    const Tensor p = compute("P", {i, j}, sum(x(i, k) * u(k, j), k)),
                 q = compute("Q", {i, j}, sum(x(i, k) * v(k, j), k));
    check_points(Op("gated", {x, u, v}, {compute("G", {i, j}, p(i, j) * max(q(i, j), 0.f))}), 8, 1);
    const Expr difference = x(i, k) - y(j, k);
    check_points(Op("distances", {x, y}, {compute("D", {i, j}, sum(difference * difference, k))}), 8, 2);
}

TEST_CASE("products of matrices, by the matrix units") {
    const Json rows = {{"m", 70}, {"n", 96}, {"k", 130}, {"type", "f16"}, {"output", "f32"}, {"transpose_b", true}};
    const Counts counts = check_points(named("matmul", rows), 16, 1);
    CHECK(counts.refused.size() >= 3);
    check_points(named("matmul", {{"m", 50}, {"n", 70}, {"k", 60}, {"bias", true}, {"activation", "relu"}}), 10, 2);
    check_points(named("matmul", rows), 4, 3, "medium");
    // The choices exist, and the chosen value is used.
    const auto space = auto_space(named("matmul", rows), chip("small"));
    Json point = space->to_json(space->default_point());
    CHECK_EQ(point.at("operands"), "rows");
    for (const char *operand : {"A", "B"}) {
        point["operands"] = "packed";
        point["matrix"] = operand;
        point["tile_i"] = point["tile_j"] = 4;
        point["blocks"] = point["depth"] = 1;
        const std::string text = space->schedule(space->from_json(point)).to_cpp();
        CHECK(text.find("tensorize(\"" + std::string(operand[0] == 'A' ? "i" : "j") + ".i\", \"mfma.f16\")") !=
              std::string::npos);
    }
}

TEST_CASE("convolutions, and contractions of several axes, by the matrix units") {
    const Json conv = {{"c", 20}, {"h", 14}, {"w", 12}, {"o", 40}, {"padding", 1}, {"type", "f16"}, {"output", "f32"}};
    check_points(named("conv2d", conv), 8, 1);
    Json strided = conv;
    strided.update({{"stride", 2}, {"type", "f32"}, {"bias", true}, {"groups", 2}});
    check_points(named("conv2d", strided), 6, 2);
    const Axis a("a", 5), b("b", 30), c("c", 4), d("d", 20), k("k", 33), l("l", 3);
    const Tensor x = in("X", f32, {a, k, b, l}), y = in("Y", f32, {c, l, d, k});
    check_points(Op("contract", {x, y}, {compute("R", {a, b, c, d}, sum(x(a, k, b, l) * y(c, l, d, k), {k, l}))}), 6,
                 3);
}

TEST_CASE("windows: pools, convolutions of each channel, shifts, several rows of one tensor") {
    check_points(named("depthwise_conv2d", {{"c", 36}, {"h", 12}, {"w", 14}, {"padding", 1}, {"stride", 2}}), 8, 1);
    const Json halves = {{"c", 36}, {"h", 9}, {"w", 8}, {"padding", 1}, {"type", "f16"}, {"bias", true}};
    check_points(named("depthwise_conv2d", halves), 3, 2);
    check_points(named("max_pool", {{"c", 36}, {"h", 12}, {"w", 14}}), 8, 3);
    check_points(named("average_pool", {{"c", 36}, {"h", 12}, {"w", 14}, {"layout", "nhwc"}}), 6, 4, "medium");
    const Axis c("c", 4), h("h", 24), s("s", 5), w("w", 20), v("v", 24), j("j", 300), n("n", 3);
    const Tensor x = in("X", f32, {c, h, w}), y = in("Y", f32, {c, h, v}), z = in("Z", f32, {n, j});
    check_points(Op("correlation", {x, y}, {compute("R", {c, s, w}, sum(x(c, h, w) * y(c, h, w + s), h))}), 8, 5);
    check_points(Op("rows", {z}, {compute("Y", {j}, z(0, j) - 2.f * z(2, j))}), 8, 6);
}

TEST_CASE("on larger chips") {
    check_points(named("softmax", {{"m", 64}, {"n", 1000}}), 3, 1, "medium");
    check_points(named("reduce", {{"shape", {500, 700}}, {"axes", {0}}}), 3, 2, "full");
    const Axis i("i", 256), j("j", 1000);
    const Tensor x = in("X", f16, {i, j}), y = in("Y", f16, {i, j});
    check_points(Op("add", {x, y}, {compute("C", {i, j}, x(i, j) + y(i, j))}), 3, 3, "full");
}

TEST_CASE("errors name stages that the chip cannot chain") {
    const auto refusal = [](const Op &op) -> std::string {
        try {
            auto_space(op, chip("small"));
        } catch (const Unsupported &e) {
            return e.what();
        }
        return "";
    };
    const Axis c("c", 4), h("h", 8), w("w", 20), v("v", 22);
    const Tensor x = in("X", f32, {c, h, w}), z = in("Z", f32, {v});
    const Op neighbours("neighbours", {z}, {compute("Y", {w}, z(w) + z(w + 2))});
    CHECK(refusal(neighbours)
              .find("has no axis for the lanes of a word: each occurs in an index that is a sum of axes; on the chip "
                    "the space made from a formula has") != std::string::npos);
    const Op backwards("backwards", {z}, {compute("Y", {w}, z(19 - w))});
    CHECK(refusal(backwards).find("reads Z at 19 - w") != std::string::npos);
    const Tensor a = compute("A", {c, h}, sum(x(c, h, w), w)),
                 b = compute("B", {c, h}, sum(x(c, h, w) * x(c, h, w), w));
    CHECK(refusal(Op("two", {x}, {a, b})).find("has 2 outputs") != std::string::npos);
}
