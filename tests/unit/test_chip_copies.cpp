// Ops that move elements on the chip, and ops with per-channel values, compared with the formulas:
// transposes, permutations, gathers, batch norm, windows.
// Links: schedules/library ops
// Sanitized: --test-case=*table*,*NaN*
#include "dsl/interpret.h"
#include "ops/ops.h"
#include "schedules/library/table.h"
#include "support/error.h"
#include "targets/chip/compile.h"

#include <doctest/doctest.h>
#include <functional>
#include <limits>

using namespace kumiko;

namespace {

sim::Run check(const Op &op, const std::string &name = "small", bool exact = true, const std::string &stated = "") {
    CAPTURE(op.to_string());
    const sim::Config config = sim::Config::load(name);
    const Machine machine = chip_machine(config);
    const auto *chosen = library::find_template(op, machine);
    if (!stated.empty()) CHECK(chosen->name == stated);
    const auto space = chosen->make_space(op, machine);
    const Schedule s = space->schedule(space->default_point());
    const ChipProgram p = compile_chip(s, config);
    CHECK(compile_chip(Schedule::from_json(op, machine, s.to_json()), config).words() == p.words());
    std::vector<Buffer<>> arrays;
    uint64_t seed = 1;
    for (const Input &in : op.inputs()) {
        arrays.push_back(make_input(in, {}));
        if (exact)
            fill_random_integers(arrays.back(), seed++, -50, 50);
        else
            fill_random(arrays.back(), seed++, 0.25, 2);
    }
    const std::vector<Buffer<>> inputs = arrays;
    arrays.push_back(make_output(op, op.outputs().front(), {}));
    fill_unwritten(arrays.back());
    const sim::Run run = p.run(arrays);
    if (exact) {
        CHECK(difference(arrays.back(), interpret(op, inputs).front()) == "");
    } else {
        const Bounded expected = interpret_with_bound(op, inputs, {});
        CHECK_NOTHROW(check_within(arrays.back(), expected.values.front(), expected.bounds.front()));
    }
    return run;
}

Op permuted(Type t, const std::vector<int> &extents, const std::vector<size_t> &order) {
    std::vector<Axis> axes, out;
    for (size_t d = 0; d < extents.size(); d++) axes.emplace_back(std::string(1, char('i' + d)), extents[d]);
    for (const size_t d : order) out.push_back(axes[d]);
    const Tensor X = input("X", t, axes);
    return Op("permuted", {X}, {compute("Y", out, X.at(std::vector<Expr>(axes.begin(), axes.end())))});
}

} // namespace

TEST_CASE("batch norm: values of a channel are computed once for a tile") {
    for (const Type t : {f16, f32}) {
        for (const bool last : {false, true}) {
            check(ops::batch_norm(t, 2, 8, 14, 14, 1e-5, last), "small", false);
            check(ops::batch_norm(t, 1, 3, 5, 7, 1e-5, last), "small", false);
            check(ops::batch_norm(t, 3, 70, 3, 14, 1e-5, last), "medium", false);
        }
        check(ops::batch_norm(t, 2, 33, 9, 13), "full", false);
    }
}

TEST_CASE("transposes go through the matrix units") {
    for (const Type t : {f16, f32, Type(Int(16)), Type(Int(32))}) {
        for (const auto &[m, n] : {std::pair{40, 70}, {1, 1}, {1, 300}, {300, 1}, {64, 64}, {257, 31}, {100, 513}}) {
            check(ops::transpose(t, m, n), "small", true, "chip_transpose");
        }
    }
    check(ops::transpose(f16, 100, 300), "medium");
    check(ops::transpose(f16, 300, 100), "full");
    check(ops::transpose(f32, 70, 600), "full");
}

TEST_CASE("permutations of axes") {
    for (const Type t : {f16, f32}) {
        check(permuted(t, {5, 12, 40}, {0, 2, 1}), "small", true, "chip_transpose");
        check(permuted(t, {5, 12, 40}, {2, 0, 1}), "small", true, "chip_transpose");
        check(permuted(t, {5, 12, 40}, {2, 1, 0}), "small", true, "chip_transpose");
        check(permuted(t, {5, 12, 40}, {1, 2, 0}), "small", true, "chip_transpose");
        check(permuted(t, {5, 12, 40}, {1, 0, 2}), "small", true, "chip_elementwise");
        check(permuted(t, {2, 3, 20, 33}, {0, 3, 1, 2}), "medium"); // to channels last
        check(permuted(t, {2, 20, 33, 3}, {0, 3, 1, 2}), "full");
    }
}

TEST_CASE("rows of a table by number: the chip makes the tables of its moves") {
    for (const Type t : {f16, f32, Type(Int(32))}) {
        check(ops::gather(t, 1, 1, 1), "small", true, "chip_gather");
        check(ops::gather(t, 10, 14, 14), "small", true, "chip_gather");
        // Rows of several blocks, not a power of two.
        check(ops::gather(t, 70, 30, 300));
        check(ops::gather(t, 300, 100, 64));
        check(ops::gather(t, 40, 7, 9000)); // entries of some of the blocks at a time
    }
    check(ops::embedding(f16, 3, 50, 40, 100), "small", true, "chip_gather");
    check(ops::embedding(f16, 3, 50, 40, 700), "medium");
    for (const int m : {1, 15, 65, 700}) check(ops::gather(f16, m, 40, 257), "full");
}

TEST_CASE("every number of rows at a time") {
    const Op op = ops::gather(f16, 100, 40, 130);
    const sim::Config config = sim::Config::load("small");
    const Machine machine = chip_machine(config);
    const auto space = library::find_template(op, machine)->make_space(op, machine);
    Random r(3);
    for (int i = 0; i < 4; i++) {
        const ChipProgram p = compile_chip(space->schedule(space->sample(r)), config);
        Buffer<> x = make_input(op.inputs()[0], {}), index = make_input(op.inputs()[1], {});
        fill_random_integers(x, 1, -50, 50);
        fill_random_integers(index, 2, -5, 45);
        Buffer<> y = make_output(op, "Y", {});
        fill_unwritten(y);
        p.run({x, index, y});
        CHECK(difference(y, interpret(op, {x, index}).front()) == "");
    }
}

TEST_CASE("gathers that compute with what they read are refused") {
    Axis i("i", 10), j("j", 20), row("row", 30);
    const Tensor X = input("X", f16, {row, j}), index = input("index", Int(32), {i});
    const Op op("more", {X, index}, {compute("Y", {i, j}, X(clamp(index(i), 0, 29), j) + X(i, j))});
    CHECK_THROWS_WITH_AS(
        check(op),
        "stage Y computes with what it reads; if an index is read from a tensor, the chip runs Y(i, …, j) = "
        "X(clamp(index(i, …), 0, rows - 1), j), where X has two axes and index is an input of i32",
        Unsupported);
}

TEST_CASE("windows of images") {
    for (const Type t : {f16, f32}) {
        for (const auto layout : {ops::ImageLayout::NCHW, ops::ImageLayout::NHWC}) {
            const auto both = [&](int n, int c, int h, int w, int kh, int kw, int stride, int padding,
                                  const std::string &machine = "small") {
                const ops::PoolOptions o{layout, stride, padding};
                check(ops::max_pool(t, n, c, h, w, kh, kw, o), machine, true, "chip_pool");
                check(ops::average_pool(t, n, c, h, w, kh, kw, o), machine, false, "chip_pool");
            };
            both(1, 8, 14, 14, 2, 2, 2, 0);
            both(2, 3, 9, 11, 3, 3, 1, 1);
            both(3, 40, 5, 5, 5, 5, 5, 0); // all of an image
            both(1, 17, 20, 37, 3, 2, 3, 1);
            both(1, 1, 1, 1, 1, 1, 1, 0);
            both(1, 256, 6, 7, 3, 3, 2, 1, "medium"); // with channels last, row-major
            both(2, 20, 12, 40, 3, 3, 2, 1, "full");
            both(1, 9, 30, 28, 21, 20, 3, 0); // more than LM holds: row by row
            both(1, 3, 5, 420, 2, 391, 9, 0); // and element by element
        }
    }
}

TEST_CASE("every schedule of windows") {
    const Op op = ops::max_pool(f16, 1, 20, 17, 19, 3, 3, {ops::ImageLayout::NCHW, 2, 1});
    const sim::Config config = sim::Config::load("small");
    const Machine machine = chip_machine(config);
    const auto space = library::find_template(op, machine)->make_space(op, machine);
    Random r(3);
    Buffer<> x = make_input(op.inputs()[0], {});
    fill_random_integers(x, 1, -50, 50);
    const Buffer<> expected = interpret(op, {x}).front();
    for (int i = 0; i < 6; i++) {
        const ChipProgram p = compile_chip(space->schedule(space->sample(r)), config);
        Buffer<> y = make_output(op, "Y", {});
        fill_unwritten(y);
        p.run({x, y});
        CHECK(difference(y, expected) == "");
    }
}

TEST_CASE("argmax and argmin") {
    for (const char *kind : {"argmax", "argmin"}) {
        CAPTURE(std::string(kind));
        for (const Type t : {f16, f32, Type(Int(32))}) {
            for (const auto &[m, n] : {std::pair{64, 128}, {10, 30}, {3, 7}, {1, 1}, {33, 700}}) {
                check(ops::reduction(kind, t, {m, n}, {1}), "small", true); // with many ties
            }
            check(ops::reduction(kind, t, {200, 70}, {1}), "small", true, "chip_rows");
            check(ops::reduction(kind, t, {5, 6, 40}, {2}));
            check(ops::reduction(kind, t, {10, 30}, {1}), "full");
            check(ops::reduction(kind, t, {40, 300}, {1}), "medium");
            for (const auto &axes : {std::vector{0, 1}, {1, 2}, {0, 2}, {0, 1, 2}, {2, 0}}) {
                check(ops::reduction(kind, t, {5, 6, 40}, axes));
                check(ops::reduction(kind, t, {7, 13, 9}, axes), "full");
            }
        }
        check(ops::reduction(kind, f16, {50, 300}, {1}), "full");
    }
}

TEST_CASE("argmax: NaN never wins, and the index is -1 if all elements are NaN") {
    constexpr float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
    const sim::Config config = sim::Config::load("small");
    const Machine machine = chip_machine(config);
    for (const Type t : {f16, f32}) {
        const Op op = ops::reduction("argmax", t, {6, 20}, {1});
        const auto *chosen = library::find_template(op, machine);
        const auto space = chosen->make_space(op, machine);
        const ChipProgram p = compile_chip(space->schedule(space->default_point()), config);
        Buffer<> x = make_input(op.inputs()[0], {}), y = make_output(op, "Y", {});
        fill_random_integers(x, 1, -5, 5);
        const auto row = [&](int i, const std::function<float(int)> &of) {
            for (int j = 0; j < 20; j++) {
                if (t == f32)
                    static_cast<float *>(x.data())[i * 20 + j] = of(j);
                else
                    static_cast<uint16_t *>(x.data())[i * 20 + j] = Halide::float16_t(of(j)).to_bits();
            }
        };
        row(0, [&](int) { return nan; });
        row(1, [&](int) { return -inf; });
        row(2, [&](int j) { return j == 7 ? -3 : nan; });
        row(3, [&](int j) { return j % 2 ? 0.0f : -0.0f; });
        row(4, [&](int j) { return j < 2 ? nan : j == 9 || j == 12 ? inf : -inf; });
        p.run({x, y});
        CHECK(difference(y, interpret(op, {x}).front()) == "");
    }
}

TEST_CASE("short rows, and few rows, with what all rows share") {
    for (const Type t : {f16, f32}) {
        for (const auto &[m, n] : {std::pair{500, 40}, {77, 39}, {3, 3000}, {8, 1300}, {2, 1}, {1, 700}, {40, 300}})
            check(ops::binary_rows("add", t, m, n), "small", true, "chip_elementwise");
        check(ops::binary_rows("add", t, 5000, 40), "full");
        check(ops::binary_rows("add", t, 900, 24), "medium");
        check(ops::binary_rows("add", t, 3, 40000), "full");
        check(ops::binary_rows("add", t, 11, 5000), "full");
    }
    // Elements of two widths, tensors with three short axes: one long row.
    Axis i("i", 7), j("j", 33), k("k", 21);
    const Tensor A = input("A", f16, {i, j, k}), B = input("B", f32, {i, j, k}), C = input("C", f32, {k});
    const auto sums = [&](const Expr &e) { return Op("sums", {A, B, C}, {compute("Y", {i, j, k}, e)}); };
    for (const char *machine : {"small", "full"}) {
        check(sums(cast(f32, A(i, j, k)) + B(i, j, k) * C(k)), machine);
        check(Op("sums", {A, B}, {compute("Y", {i, j, k}, cast(f16, cast(f32, A(i, j, k)) + B(i, j, k)))}), machine);
        check(Op("turned", {A, B}, {compute("Y", {j, i, k}, cast(f32, A(i, j, k)) + B(i, j, k))}), machine);
    }
}

TEST_CASE("rows of one tensor that a stage reads side by side are copies of their own") {
    const Axis n("n", 3), j("j", 600);
    for (const Type t : {Type(Float(16)), Type(Float(32))}) {
        const Tensor z = input("Z", t, {n, j});
        check(Op("rows", {z}, {compute("Y", {j}, z(0, j) - z(2, j) + z(1, j))}));
    }
}
