// pipeline and region on the simulated chip: bits equal to the formula, and no more cycles than the
// directives that they replace.
// Links: ops schedules/library
// Sanitized: --test-case=*two*stages*,*unsupported*
#include "dsl/interpret.h"
#include "ops/ops.h"
#include "schedules/library/chip_matmul.h"
#include "schedules/primitive.h"
#include "support/error.h"
#include "targets/chip/compile.h"
#include "tests/unit/chip_add.h"

#include <doctest/doctest.h>
#include <functional>

using namespace kumiko;

namespace {

// Returns the cycles; results must have equal bits. Values are small integers.
int64_t run(const Schedule &s, const sim::Config &config) {
    const Op &op = s.op();
    INFO(s.nest());
    const ChipProgram p = compile_chip(s, config);
    std::vector<Buffer<>> arrays;
    for (const Input &in : op.inputs()) {
        arrays.push_back(make_input(in, {}));
        fill_random_integers(arrays.back(), arrays.size(), -4, 4);
    }
    const Results expected = interpret(op, arrays);
    const size_t inputs = arrays.size();
    for (const std::string &o : op.outputs()) {
        arrays.push_back(make_output(op, o, {}));
        fill_unwritten(arrays.back());
    }
    const sim::Run run = p.run(arrays);
    for (size_t o = 0; o < expected.size(); o++) CHECK(difference(arrays[inputs + o], expected[o]) == "");
    return run.cycles();
}

enum class Kept { Once, Doubled, Pipelined };

void deal(Schedule &s, StageHandle C, const sim::Config &config, int lanes, int words, Kept kept, int stages = 2,
          const std::string &level = "LM0") {
    deal(C, config, lanes, words);
    for (const std::string in : {"A", "B"}) {
        auto copy = s.place_in(in, level == "LM0" && in == "B" ? "LM1" : level, C.name(), "tile");
        if (kept == Kept::Doubled) copy.double_buffer();
    }
    if (kept == Kept::Pipelined) C.pipeline("tile", stages);
}

Op product(int M, int N, int K, Type out = f32) {
    ops::MatmulOptions o;
    o.transpose_b = true;
    o.output = out;
    return ops::matmul(f16, M, N, K, o);
}

void pack(Schedule &s) {
    s.prepack("A", {"i", "k"});
    s.prepack("B", {"j", "k"});
}

// C = A · Bᵀ: rows over MABs, columns over L1Bs.
void multiply(
    Schedule &s, StageHandle C, const sim::Config &config, int rows, Kept kept, int stages = 2,
    const std::function<std::string()> &matrices = [] { return "B.packed"; }) {
    C.split("i", rows, {"im", "iv"});
    C.split("im", config.mabs, {"it", "mab"});
    C.split("j", 16, {"jb", "ji"});
    C.split("jb", 2, {"jl", "jv"});
    C.split("jl", config.l1bs, {"jt", "l1b"});
    C.split("k", 16, {"kt", "ki"});
    C.reorder({"mab", "l1b", "it", "jt", "kt", "jv", "iv", "ji", "ki"});
    C.bind("mab", "MAB").bind("l1b", "L1B");
    s.place_in("A.packed", "LM", C.name(), "it");
    auto b = s.place_in(matrices(), "L1BM", C.name(), "kt");
    if (kept == Kept::Doubled) b.double_buffer();
    if (kept == Kept::Pipelined) C.pipeline("kt", stages);
    s.accumulate_in(C.name(), "GRF0", "jt");
    C.tensorize("ji", "mfma.f16");
}

} // namespace

TEST_CASE("pipeline: of two stages as a double buffer, of more in memories that have room") {
    for (const char *name : {"small", "medium"}) {
        CAPTURE(std::string(name));
        const sim::Config config = sim::Config::load(name);
        const Op op = add(f32, 20000);
        const auto cycles = [&](Kept kept, int stages, const std::string &level) {
            Schedule s(op, chip_machine(config));
            deal(s, s.stage("C"), config, 2, 16, kept, stages, level);
            return run(s, config);
        };
        const int64_t once = cycles(Kept::Once, 1, "LM0"), twice = cycles(Kept::Doubled, 2, "LM0");
        CHECK(cycles(Kept::Pipelined, 2, "LM0") == twice);
        CHECK(twice <= once);
        const int64_t in_lm = cycles(Kept::Pipelined, 2, "LM");
        CHECK(in_lm == cycles(Kept::Doubled, 2, "LM"));
        for (const int stages : {3, 4, 8}) {
            const int64_t c = cycles(Kept::Pipelined, stages, "LM");
            CHECK(c <= in_lm);
            MESSAGE(std::string(name) << ", " << stages << " stages: " << c << " cycles; 2: " << in_lm
                                      << ", in LM0 and LM1 " << twice);
        }
        CHECK_THROWS_WITH_AS(cycles(Kept::Pipelined, 3, "LM0"),
                             "copy A.LM0 has 3 buffers, and LM0 has one port; LM0 and LM1 hold one each, so "
                             "2 are supported there, and more in LM, L1BM and L2BM",
                             Unsupported);
    }
}

TEST_CASE("pipeline: matrices of a product in L1BM") {
    const sim::Config config = sim::Config::load("small");
    for (const auto &[M, N, K] : {std::tuple{128, 128, 256}, std::tuple{50, 70, 90}}) {
        const Op op = product(M, N, K);
        const auto cycles = [&](Kept kept, int stages = 2) {
            Schedule s(op, chip_machine(config));
            pack(s);
            multiply(s, s.stage("C"), config, 16, kept, stages);
            return run(s, config);
        };
        const int64_t twice = cycles(Kept::Doubled);
        CHECK(cycles(Kept::Pipelined) == twice);
        MESSAGE("3 stages: " << cycles(Kept::Pipelined, 3) << " cycles; 2: " << twice);
        CHECK_THROWS_WITH_AS(cycles(Kept::Pipelined, 8),
                             doctest::Contains("B.packed.L1BM (copy 5) needs 128 LW of L1BM"), UserError);
    }
}

TEST_CASE("pipeline: copies in L2BM around those in L1BM") {
    const sim::Config config = sim::Config::load("small");
    const Op op = product(64, 256, 32);
    const auto cycles = [&](Kept kept, int stages) {
        Schedule s(op, chip_machine(config));
        pack(s);
        auto C = s.stage("C");
        multiply(s, C, config, 16, Kept::Once, 1, [&] {
            auto copy = s.place_in("B.packed", "L2BM", "C", "jt");
            if (kept == Kept::Doubled) copy.double_buffer();
            if (kept == Kept::Pipelined) C.pipeline("jt", stages);
            return copy.name();
        });
        return run(s, config);
    };
    const int64_t twice = cycles(Kept::Doubled, 2);
    CHECK(cycles(Kept::Pipelined, 2) == twice);
    CHECK(twice < cycles(Kept::Once, 1));
    for (const int stages : {3, 4, 6}) // which leave less room to what passes through
        MESSAGE(stages << " stages: " << cycles(Kept::Pipelined, stages) << " cycles; 2: " << twice);
}

TEST_CASE("pipeline: a product that is reduced over MABs keeps its columns twice at most, and its rows once") {
    const sim::Config config = sim::Config::load("small");
    const Op op = product(512, 512, 512);
    const Machine machine = chip_machine(config);
    auto parameters = library::chip_matmul_parameters(op, machine);
    parameters.pieces = Tile(1);
    parameters.twice = Flag(true);
    const Schedule made = library::schedule_chip_matmul(op, machine, parameters);
    // with a pipeline for the double buffer
    const auto cycles = [&](const std::string &loop, int stages) {
        Schedule s(op, machine);
        for (Directive d : made.directives()) {
            if (d.primitive == "double_buffer") continue;
            if (d.primitive == "write_back") s.stage("C").pipeline(loop, stages);
            s.apply(d);
        }
        return run(s, config);
    };
    const std::string columns = made.state().stage("B.LM").placement.loop,
                      rows = made.state().stage("A.GRF1").placement.loop;
    CHECK(made.state().stage("B.LM").buffers == 2);
    CHECK(cycles(columns, 2) == run(made, config));
    CHECK_THROWS_WITH_AS(cycles(columns, 3), "copy B.LM in LM has 3 buffers; here at most 2 are supported",
                         Unsupported);
    CHECK_THROWS_WITH_AS(cycles(rows, 2),
                         "copy A.GRF1 in GRF1 has 2 buffers; here its rows pass through a ring that needs no "
                         "second copy",
                         Unsupported);
}

TEST_CASE("region: parts of a stage of elements, each distributed separately") {
    for (const char *name : {"small", "medium"}) {
        CAPTURE(std::string(name));
        const sim::Config config = sim::Config::load(name);
        for (const Type t : {f32, f16}) {
            for (const auto &[n, first, count] : {std::tuple{1000, 256, 512}, std::tuple{4096, 0, 1024},
                                                  std::tuple{777, 768, 9}, std::tuple{2000, 512, 256}}) {
                CAPTURE(n);
                Schedule s(add(t, n), chip_machine(config));
                auto part = s.stage("C").region("i", first, count, "part");
                deal(s, s.stage("C"), config, 8 / t.bytes(), 16, Kept::Doubled);
                deal(s, part, config, 8 / t.bytes(), 4, Kept::Once);
                run(s, config);
            }
        }
    }
}

TEST_CASE("region: rows and columns of a product") {
    const sim::Config config = sim::Config::load("small");
    for (const auto &[M, N, K] : {std::tuple{96, 64, 64}, std::tuple{70, 90, 50}}) {
        for (const std::string axis : {"i", "j"}) {
            CAPTURE(M);
            CAPTURE(axis);
            Schedule s(product(M, N, K), chip_machine(config));
            pack(s);
            auto part = s.stage("C").region(axis, 24, 21, "part");
            multiply(s, s.stage("C"), config, 8, Kept::Doubled);
            multiply(s, part, config, 4, Kept::Pipelined, 3);
            run(s, config);
        }
    }
}

// The directives for stage C, for C and for its region.
Schedule for_both(const Schedule &whole, int64_t first, int64_t count) {
    Schedule s(whole.op(), whole.machine());
    s.stage("C").region("i", first, count, "part");
    for (const Directive &d : whole.directives()) {
        s.apply(d);
        Directive again = d;
        bool its = false;
        for (const char *name : {"stage", "consumer"}) {
            if (!again.arguments.contains(name) || again.arguments[name] != "C") continue;
            again.arguments[name] = "part";
            its = true;
        }
        if (its) s.apply(again);
    }
    return s;
}

TEST_CASE("region: a product that is reduced over MABs") {
    const sim::Config config = sim::Config::load("small");
    const Machine machine = chip_machine(config);
    for (const auto &[M, first, count] :
         {std::tuple{512, 256, 256}, std::tuple{512, 128, 100}, std::tuple{300, 0, 32}}) {
        CAPTURE(M);
        const Op op = product(M, 512, 512);
        const Schedule whole = library::schedule_chip_matmul(op, machine, library::chip_matmul_parameters(op, machine));
        MESSAGE("whole: " << run(whole, config) << " cycles, in parts " << run(for_both(whole, first, count), config));
    }
}

TEST_CASE("region: rows of elements, from any row on") {
    const sim::Config config = sim::Config::load("small");
    Axis r("r", 20), i("i", 512);
    Tensor A = input("A", f32, {r, i}), B = input("B", f32, {r, i});
    for (const int first : {0, 7, 19}) {
        Schedule s(Op("add", {A, B}, {compute("C", {r, i}, A(r, i) + B(r, i))}), chip_machine(config));
        auto part = s.stage("C").region("r", first, 1, "part");
        for (StageHandle C : {s.stage("C"), part}) {
            C.split("i", 2, {"io", "lane"});
            C.split("io", sim::pes_per_mab, {"im", "pe"});
            C.split("im", config.mabs, {"il1", "mab"});
            C.split("il1", config.l1bs, {"tile", "l1b"});
            C.reorder({"r", "l1b", "mab", "pe", "tile", "lane"});
            C.bind("l1b", "L1B").bind("mab", "MAB").bind("pe", "PE").vectorize("lane");
            s.place_in("A", "LM0", C.name(), "r");
            s.place_in("B", "LM1", C.name(), "r");
        }
        run(s, config);
    }
}

TEST_CASE("region: unsupported on the chip") {
    const sim::Config config = sim::Config::load("small");
    Schedule bound(add(f32, 64), chip_machine(config));
    bound.stage("C").split("i", config.mabs, {"io", "mab"});
    bound.stage("C").bind("mab", "MAB");
    CHECK_THROWS_WITH_AS(bound.stage("C").region("io", 0, 1, "part"),
                         doctest::Contains("of stage C, loop mab is bound\n"), UserError);
    Schedule odd(add(f32, 1000), chip_machine(config));
    auto part = odd.stage("C").region("i", 100, 300, "part");
    deal(odd, odd.stage("C"), config, 2, 16, Kept::Once);
    deal(odd, part, config, 2, 16, Kept::Once);
    CHECK_THROWS_WITH_AS(compile_chip(odd, config), doctest::Contains("in whole blocks of 128 elements of a row"),
                         Unsupported);
    Axis i("i", 64), k("k", 32);
    Tensor X = input("X", f32, {i, k});
    Schedule sums(Op("sums", {X}, {compute("S", {i}, sum(X(i, k), k))}), chip_machine(config));
    sums.stage("S").region("i", 0, 8, "head");
    CHECK_THROWS_WITH_AS(compile_chip(sums, config),
                         "stage head is a part of S, a reduction without tensorize; on the chip regions divide other "
                         "stages that do not reduce, and products of the matrix unit",
                         Unsupported);
    Schedule corner(product(64, 64, 64), chip_machine(config));
    corner.stage("C").region("i", 0, 32, "head").region("j", 0, 32, "corner");
    CHECK_THROWS_WITH_AS(compile_chip(corner, config),
                         "region corner of C is cut along i and j; on the chip regions are along one axis",
                         Unsupported);
}
