// Matrix products distributed over cores in every way: the interpreter's bits on integers, and the
// same bits of floats for any number of threads.
// Links: driver
// Sanitized: --test-case=*refused,*stays*
#include "driver/kernel.h"
#include "dsl/interpret.h"
#include "ops/ops.h"
#include "runtime/kumiko_runtime.h"
#include "schedules/library/matmul.h"
#include "schedules/library/table.h"
#include "support/error.h"
#include "targets/lower/lower.h"
#include "tests/unit/cores.h"

#include <doctest/doctest.h>

using namespace kumiko;

namespace {

std::string way(const Op &op, int64_t cores) {
    return library::matmul_parameters(op, with_cores(Machine::named("x86-64-avx2"), cores)).parallel;
}

Schedule spread(const Op &op, const Machine &machine, const std::string &parallel, const Json &others = {}) {
    const auto space = library::find_template(op)->make_space(op, machine);
    Json point = space->to_json(space->default_point());
    point["parallel"] = parallel;
    for (const auto &[name, value] : others.items()) point[name] = value;
    return space->schedule(space->from_json(point));
}

bool offers(const Op &op, const Machine &machine, const std::string &parallel) {
    const auto space = library::find_template(op)->make_space(op, machine);
    for (const ParameterInfo &p : space->parameters()) {
        if (p.name == "parallel") return std::find(p.values.begin(), p.values.end(), parallel) != p.values.end();
    }
    return false;
}

void check(const Op &op, const Schedule &s) {
    CAPTURE(s.to_cpp());
    const Kernel kernel = compile(s);
    for (const bool whole : {true, false}) {
        std::vector<Buffer<>> inputs;
        for (const Input &in : op.inputs()) {
            inputs.push_back(make_input(in, {}));
            if (whole)
                fill_random_integers(inputs.back(), inputs.size(), -3, 3);
            else
                fill_random(inputs.back(), inputs.size(), -1, 1);
        }
        Buffer<> one;
        for (const int n : {1, 2, 3, 7}) {
            const Threads threads(n);
            std::vector<Buffer<>> all = inputs;
            all.push_back(make_output(op, op.outputs()[0], {}));
            fill_unwritten(all.back());
            kernel(all);
            if (whole) CHECK_EQ(difference(all.back(), interpret(op, inputs).front()), "");
            if (n == 1) one = all.back();
            CHECK_EQ(difference(all.back(), one), "");
        }
    }
}

} // namespace

TEST_CASE("the ways follow from shape and cores") {
    CHECK(way(ops::matmul(f32, 512, 512, 512), 1) == "none");
    CHECK(way(ops::matmul(f32, 512, 512, 512), 2) == "rows");
    CHECK(way(ops::matmul(f32, 8, 4096, 512), 2) == "columns");
    CHECK(way(ops::matmul(f32, 512, 512, 512), 16) == "grid");
    CHECK(way(ops::matmul(f32, 8, 16, 65536), 16) == "depth");
    CHECK(way(ops::matmul(f32, 8, 16, 65537), 16) != "depth"); // a prime: no equal parts
    CHECK(way(ops::matmul(u8, 8, 16, 65536, {.b_type = i8}), 16) == "depth");
    CHECK(way(ops::matmul(f32, 20, 20, 20), 16) == "none"); // waking cores takes longer
}

TEST_CASE("defaults are legal whatever divides the reduction, and where there is nothing to compute") {
    for (const char *level : {"x86-64-avx2", "x86-64-avx512-bf16", "aarch64-bf16"}) {
        const Machine machine = Machine::named(level);
        for (const int K : {32, 96, 416, 480, 576, 608, 777, 832, 960, 1184, 1600}) {
            CAPTURE(level);
            CAPTURE(K);
            CHECK_NOTHROW(lower(library::matmul(ops::matmul(bf16, 1024, 512, K, {.output = f32}), machine)));
            CHECK_NOTHROW(lower(library::matmul(ops::matmul(u8, 1024, 512, K, {.b_type = i8}), machine)));
        }
        for (const auto &[M, N, K] : std::vector<std::array<int, 3>>{{4, 0, 8}, {0, 4, 8}, {4, 4, 0}, {0, 0, 0}})
            CHECK_NOTHROW(lower(library::matmul(ops::matmul(f32, M, N, K), machine)));
    }
}

TEST_CASE("products spread over cores in every way") {
    ops::MatmulOptions o;
    o.bias = true, o.activation = "relu";
    for (const int64_t cores : {2, 6, 16}) {
        const Machine machine = host_of(cores);
        for (const char *parallel : {"none", "rows", "columns", "grid", "depth"}) {
            const Op op = ops::matmul(f32, 70, 90, 96, o);
            check(op, spread(op, machine, parallel));
        }
        for (const char *packed : {"none", "panel", "blocks"}) {
            for (const char *outer : {"rows", "depth"}) {
                const Op op = ops::matmul(f32, 100, 200, 300);
                check(op, spread(op, machine, "grid", {{"pack_b", packed}, {"outer", outer}, {"depth", 150}}));
            }
        }
    }
    const Machine machine = host_of(6);
    for (const Op &op : {ops::matmul(u8, 7, 33, 96, {.b_type = i8}), ops::matmul(bf16, 7, 33, 96, {.output = f32})}) {
        if (offers(op, machine, "depth")) check(op, spread(op, machine, "depth"));
    }
    o.transpose_a = o.transpose_b = true, o.batch = 2;
    for (const char *parallel : {"grid", "depth"}) {
        const Op op = ops::matmul(f32, 40, 50, 60, o);
        check(op, spread(op, machine, parallel));
    }
    for (const int rows : {5, 40, 41, 42, 100}) {
        const Op narrow = ops::matmul(u8, rows, 96, 64, {.b_type = i8});
        // products of tiles, on machines with AMX
        if (!offers(narrow, machine, "grid")) continue;
        // blocks of columns that divide
        check(narrow, spread(narrow, machine, "grid", {{"vectors", 1}}));
    }
}

TEST_CASE("what takes a few microseconds stays on one core, what takes longer does not") {
    const Machine machine = host_of(16);
    const auto spreads = [&](const Op &op) {
        const auto space = library::find_template(op)->make_space(op, machine);
        const Schedule s = space->schedule(space->default_point());
        for (const StageState &stage : s.state().stages) {
            for (const LoopState &l : stage.loops) {
                if (l.kind == LoopKind::Parallel) return true;
            }
        }
        return false;
    };
    ops::Conv2dOptions each;
    each.groups = 8;
    for (const int n : {1, 32}) {
        CHECK(spreads(ops::softmax(f32, 8 * n, 100 * n)) == (n > 1));
        CHECK(spreads(ops::transpose(f32, 20 * n, 30 * n)) == (n > 1));
        CHECK(spreads(ops::unary("relu", f32, 800 * n * n)) == (n > 1));
        CHECK(spreads(ops::reduction("sum", f32, {40 * n, 20 * n}, {1})) == (n > 1));
        CHECK(spreads(ops::conv2d(f32, 1, 3, 6 * n, 6 * n, 8, 3, 3)) == (n > 1));
        CHECK(spreads(ops::conv2d(f32, 1, 8, 6 * n, 6 * n, 8, 3, 3, each)) == (n > 1));
        CHECK(spreads(ops::attention(f32, 1, 1, 8 * n, 8 * n, 16)) == (n > 1));
        CHECK(spreads(ops::matmul(f32, 8 * n, 8 * n, 8 * n)) == (n > 1));
    }
    CHECK(spreads(ops::softmax(f32, Size("M"), Size("N"))));
}

TEST_CASE("what cannot be spread so is refused") {
    // halves are no whole groups of four steps
    const Op bytes = ops::matmul(u8, 8, 16, 4098, {.b_type = i8});
    const Machine machine = with_cores(Machine::named("x86-64-avx512-vnni"), 4);
    CHECK_THROWS_WITH_AS(spread(bytes, machine, "depth"), doctest::Contains("parallel"), UserError);
    // Tiles are divided by rows or columns.
    const Op tiles = ops::matmul(u8, 64, 64, 64, {.b_type = i8});
    const Machine amx = with_cores(Machine::named("x86-64-amx"), 4);
    CHECK_THROWS_WITH_AS(spread(tiles, amx, "grid"), doctest::Contains("parallel"), UserError);
}
