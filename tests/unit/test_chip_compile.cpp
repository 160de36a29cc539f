// Whole ops, from formula and schedule to results of the simulated chip.
// Links: ops schedules/library
#include "dsl/interpret.h"
#include "ops/ops.h"
#include "schedules/library/chip_matmul.h"
#include "targets/chip/compile.h"
#include "tests/unit/chip_add.h"

#include <doctest/doctest.h>
#include <iostream>

using namespace kumiko;

namespace {

Schedule add_schedule(const Op &op, const sim::Config &config, int lanes, int words) {
    Schedule s(op, chip_machine(config));
    deal(s.stage("C"), config, lanes, words);
    s.place_in("A", "LM0", "C", "tile").double_buffer();
    s.place_in("B", "LM1", "C", "tile").double_buffer();
    return s;
}

} // namespace

TEST_CASE("an elementwise add from DRAM to DRAM") {
    const sim::Config config = sim::Config::load("small");
    for (const Type t : {f32, f16}) {
        for (const int n : {4096, 1000, 5}) {
            CAPTURE(n);
            const Op op = add(t, n);
            const ChipProgram p = compile_chip(add_schedule(op, config, 8 / t.bytes(), 16), config);
            const Buffer<> a = random_buffer(t, {n}, 1), b = random_buffer(t, {n}, 2), c(t, {n});
            fill_unwritten(c);
            p.run({a, b, c});
            CHECK(difference(c, interpret(op, {a, b}).front()) == "");
        }
    }
}

namespace {

struct Tiles {
    int rows = 16, columns = 2; // of one MAB: vectors, and matrices of 16 columns
    int depth = 1;              // matrices of 16 along k in L1BM
    bool write_back = true;
};

// C = A · Bᵀ with k contiguous in both operands, pre-packed: rows over MABs, columns over L1Bs.
Schedule matmul_schedule(const Op &op, const sim::Config &config, const Tiles &t) {
    Schedule s(op, chip_machine(config));
    const std::string stage = op.stages().front().name;
    auto C = s.stage(stage);
    C.split("i", t.rows, {"im", "iv"});
    C.split("im", config.mabs, {"it", "mab"});
    C.split("j", 16, {"jb", "ji"});
    C.split("jb", t.columns, {"jl", "jv"});
    C.split("jl", config.l1bs, {"jt", "l1b"});
    C.split("k", 16, {"kb", "ki"});
    C.split("kb", t.depth, {"kt", "kv"});
    C.reorder({"mab", "l1b", "it", "jt", "kt", "kv", "jv", "iv", "ji", "ki"});
    C.bind("mab", "MAB").bind("l1b", "L1B");
    s.prepack("A", {"i", "k"});
    s.prepack("B", {"j", "k"});
    s.place_in("A.packed", "LM", stage, "it");
    s.place_in("B.packed", "L1BM", stage, "kt").double_buffer();
    s.accumulate_in(stage, "GRF0", "jt");
    if (t.write_back) C.write_back("jt");
    C.tensorize("ji", "mfma.f16");
    if (op.stages().size() > 1) C.finish_in(op.stages()[1].name);
    return s;
}

void check_matmul(const sim::Config &config, int M, int N, int K, kumiko::Type out, const Tiles &tiles) {
    CAPTURE(M);
    CAPTURE(N);
    CAPTURE(K);
    ops::MatmulOptions o;
    o.transpose_b = true;
    o.output = out;
    const Op op = ops::matmul(f16, M, N, K, o);
    const ChipProgram p = compile_chip(matmul_schedule(op, config, tiles), config);
    const Buffer<> a = random_integers(f16, {M, K}, 1), b = random_integers(f16, {N, K}, 2), c(out, {M, N});
    fill_unwritten(c);
    p.run({a, b, c});
    CHECK(difference(c, interpret(op, {a, b}).front()) == "");
}

} // namespace

TEST_CASE("a matrix product with the matrix unit") {
    const sim::Config config = sim::Config::load("small");
    check_matmul(config, 32, 64, 64, f32, {});
    check_matmul(config, 32, 64, 64, f16, {});
    check_matmul(config, 50, 70, 90, f32, {});
    check_matmul(config, 128, 128, 256, f32, {.write_back = false});
    check_matmul(config, 512, 512, 512, f16, {});
}

TEST_CASE("epilogues of a product") {
    const sim::Config config = sim::Config::load("small");
    for (const kumiko::Type out : {f32, f16}) {
        for (const bool residual : {false, true}) {
            ops::MatmulOptions o;
            o.output = out;
            o.bias = true;
            o.residual = residual;
            o.activation = "relu";
            const Op op = ops::matmul(f16, 40, 70, 50, o);
            CAPTURE(op.to_string());
            const Machine machine = chip_machine(config);
            const ChipProgram p = compile_chip(
                library::schedule_chip_matmul(op, machine, library::chip_matmul_parameters(op, machine)), config);
            std::vector<Buffer<>> arrays;
            for (const Input &in : op.inputs()) {
                arrays.push_back(make_input(in, {}));
                fill_random_integers(arrays.back(), arrays.size(), -4, 4);
            }
            const Buffer<> expected = interpret(op, arrays).front();
            arrays.push_back(make_output(op, op.outputs().front(), {}));
            fill_unwritten(arrays.back());
            p.run(arrays);
            CHECK(difference(arrays.back(), expected) == "");
        }
    }
}
