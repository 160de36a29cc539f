// Matrix products whose operands and result are row-major in DRAM.
// Links: ops schedules/library
// Sanitized: --test-case=transposed*columns*,*by*hand*
#include "dsl/interpret.h"
#include "ops/ops.h"
#include "schedules/library/chip_matmul.h"
#include "schedules/library/table.h"
#include "support/error.h"
#include "targets/chip/compile.h"

#include <array>
#include <cstring>
#include <doctest/doctest.h>
#include <iostream>

using namespace kumiko;

namespace {

Op product(int M, int N, int K, kumiko::Type out, int batch = 0) {
    ops::MatmulOptions o;
    o.transpose_b = true;
    o.output = out;
    if (batch) o.batch = batch;
    return ops::matmul(f16, M, N, K, o);
}

Schedule scheduled(const Op &op, const sim::Config &config) {
    const Machine machine = chip_machine(config);
    return library::schedule_chip_matmul(op, machine, library::chip_matmul_parameters(op, machine));
}

void check(const Op &op, const sim::Config &config, const Schedule &schedule, bool bounded) {
    CAPTURE(config.name);
    CAPTURE(op.to_string());
    const ChipProgram p = compile_chip(schedule, config);
    std::vector<Buffer<>> arrays;
    for (const Input &in : op.inputs()) {
        arrays.push_back(make_input(in, {}));
        fill_random_integers(arrays.back(), arrays.size(), -4, 4);
    }
    const Bounded expected = bounded ? interpret_with_bound(op, arrays, {}) : Bounded{interpret(op, arrays), {}};
    arrays.push_back(make_output(op, op.outputs().front(), {}));
    fill_unwritten(arrays.back());
    p.run(arrays);
    if (bounded)
        CHECK_NOTHROW(check_within(arrays.back(), expected.values.front(), expected.bounds.front()));
    else
        CHECK(difference(arrays.back(), expected.values.front()) == "");
}

void check(const Op &op, const sim::Config &config, bool bounded = false) {
    check(op, config, scheduled(op, config), bounded);
}

// The begin of a tensor, as stated in the text of level l3.
int64_t begin_of(const ChipProgram &p, const std::string &tensor) {
    const std::string text = p.l3(), line = tensor + " in DRAM at ";
    const size_t at = text.find(line);
    REQUIRE(at != std::string::npos);
    return std::stoll(text.substr(at + line.size()));
}

} // namespace

TEST_CASE("shapes") {
    for (const char *name : {"small", "medium", "full"}) {
        const sim::Config config = sim::Config::load(name);
        for (const kumiko::Type out : {f16, f32}) {
            check(product(32, 64, 64, out), config);
            check(product(50, 70, 90, out), config);
            check(product(1, 16, 16, out), config);
            check(product(17, 300, 33, out), config);
            check(product(9, 40, 20, out, 3), config);
        }
    }
}

TEST_CASE("neighbouring MABs with columns of their own") {
    // Enough tiles that some sums are spilled to LM1 while columns arrive, or none; blocks of k
    // that end within a step, or not.
    for (const char *name : {"medium", "full"}) {
        const sim::Config config = sim::Config::load(name);
        for (const kumiko::Type out : {f16, f32}) {
            for (const bool end : {false, true}) {
                for (const auto &[vectors, pieces, rows, k] :
                     {std::array{16, 2, 150, 600}, {32, 4, 300, 512}, {16, 4, 70, 100}, {16, 8, 40, 300}}) {
                    // No room for the epilogue's operands.
                    if (end && vectors * pieces > 64) continue;
                    ops::MatmulOptions o;
                    o.transpose_b = true;
                    o.output = out;
                    o.bias = o.residual = end;
                    if (end) o.activation = "relu";
                    const Op op = ops::matmul(f16, rows, 200, k, o);
                    const Machine machine = chip_machine(config);
                    library::ChipMatmulParameters p = library::chip_matmul_parameters(op, machine);
                    const auto tile = [](int64_t n) { return Tile(n, {n}); };
                    p.vectors = tile(vectors), p.pieces = tile(out == f16 ? pieces : 2 * pieces);
                    p.groups = p.l2bs = tile(1);
                    p.twice = Flag(false), p.sides = Flag(true);
                    CAPTURE(vectors);
                    CAPTURE(pieces);
                    check(op, config, library::schedule_chip_matmul(op, machine, p), end);
                }
            }
        }
    }
}

TEST_CASE("halves of the L1Bs with parts of the reduction") {
    // Several blocks of k, the last full or partial, of which a half has one or none; tiles whose
    // sums are spilled to LM1; batches.
    const sim::Config config = sim::Config::load("full");
    const Machine machine = chip_machine(config);
    for (const kumiko::Type out : {f16, f32}) {
        for (const auto &[vectors, units, rows, columns, k] :
             {std::array{32, 1, 130, 1100, 1600}, {16, 8, 40, 200, 600}, {8, 4, 9, 30, 100}, {24, 2, 100, 300, 1100}}) {
            const Op op = product(rows, columns, k, out);
            library::ChipMatmulParameters p = library::chip_matmul_parameters(op, machine);
            const auto tile = [](int64_t n) { return Tile(n, {n}); };
            p.vectors = tile(vectors), p.pieces = tile(1), p.groups = tile(std::min(units, 4)),
            p.l2bs = tile(units / p.groups);
            p.twice = Flag(false), p.sides = Flag(false), p.halves = Flag(true);
            check(op, config, library::schedule_chip_matmul(op, machine, p), false);
        }
    }
}

TEST_CASE("a quarter of the columns is loaded late") {
    // One piece of a row's four, two of eight, four of sixteen; several panels; an epilogue; parts
    // beyond the last column.
    for (const auto &[name, vectors, pieces, rows, columns, k, out, end] :
         {std::tuple{"medium", 8, 8, 1350, 1100, 270, f16, false},
          {"medium", 4, 8, 1400, 2100, 20, f16, true},
          {"medium", 8, 16, 1350, 1900, 70, f32, false},
          {"full", 16, 4, 5250, 300, 60, f16, false}}) {
        const sim::Config config = sim::Config::load(name);
        const Machine machine = chip_machine(config);
        ops::MatmulOptions o;
        o.transpose_b = true;
        o.output = out;
        o.bias = end;
        const Op op = ops::matmul(f16, rows, columns, k, o);
        library::ChipMatmulParameters p = library::chip_matmul_parameters(op, machine);
        const auto tile = [](int64_t n) { return Tile(n, {n}); };
        p.vectors = tile(vectors), p.pieces = tile(pieces);
        p.groups = tile(config.groups), p.l2bs = tile(config.l2bs);
        p.twice = p.sides = p.halves = Flag(false);
        const Schedule s = library::schedule_chip_matmul(op, machine, p);
        CHECK(compile_chip(s, config).l2().find("a quarter of them is loaded while") != std::string::npos);
        check(op, config, s, end);
    }
}

TEST_CASE("parts of rows are drained through any number of MABs") {
    // Steps of a drain, and groups of four pieces, that late columns arrive in.
    for (const auto &[mabs, l1bs, pieces, vectors] : {std::array{4, 8, 8, 4}, {2, 8, 4, 8}, {8, 4, 8, 4}}) {
        sim::Config config = sim::Config::load("medium");
        config.mabs = mabs, config.l1bs = l1bs;
        const Op op = product(4100, 300, 20, f16);
        const Machine machine = chip_machine(config);
        library::ChipMatmulParameters p = library::chip_matmul_parameters(op, machine);
        const auto tile = [](int64_t n) { return Tile(n, {n}); };
        p.vectors = tile(vectors), p.pieces = tile(pieces), p.groups = tile(1), p.l2bs = tile(2);
        p.twice = p.sides = p.halves = Flag(false);
        const Schedule s = library::schedule_chip_matmul(op, machine, p);
        CHECK(compile_chip(s, config).l2().find("a quarter of them is loaded while") != std::string::npos);
        check(op, config, s, false);
    }
    sim::Config config = sim::Config::load("medium");
    config.l1bs = 1;
    library::ChipMatmulParameters p;
    p.vectors = Tile(32, {32}), p.pieces = p.groups = p.l2bs = Tile(1, {1});
    p.twice = p.sides = p.halves = Flag(false);
    const Schedule s = library::schedule_chip_matmul(product(100, 17, 100, f16), chip_machine(config), p);
    CHECK_THROWS_WITH_AS(compile_chip(s, config),
                         doctest::Contains("8 LW of each row of C; multiples of 64 LW are supported, and of 16 LW"),
                         Unsupported);
}

TEST_CASE("products of f32") {
    for (const char *name : {"small", "medium", "full"}) {
        const sim::Config config = sim::Config::load(name);
        ops::MatmulOptions o;
        o.transpose_b = true;
        for (const bool end : {false, true}) {
            o.bias = o.residual = end;
            if (end) o.activation = "relu";
            check(ops::matmul(f32, 32, 64, 64, o), config);
            check(ops::matmul(f32, 50, 70, 90, o), config);
            check(ops::matmul(f32, 1, 16, 8, o), config);
        }
        CHECK(scheduled(ops::matmul(f32, 32, 64, 64, o), config).to_json().dump().find("mfma.f32") !=
              std::string::npos);
    }
    check(ops::matmul(f32, 24, 40, 30), sim::Config::load("full")); // B [k][j]
}

// If row-major operands do not fit, the host packs them: reductions longer than LM, epilogues of
// many values.
TEST_CASE("products that chip_matmul leaves to packed operands") {
    const sim::Config config = sim::Config::load("small");
    const Machine machine = chip_machine(config);
    const auto by_library = [&](const Op &op, bool bounded) {
        const auto space = library::find_template(op, machine)->make_space(op, machine);
        check(op, config, space->schedule(space->default_point()), bounded);
    };
    ops::MatmulOptions o;
    by_library(ops::matmul(f32, 17, 70, 1100, o), false);
    o.bias = true;
    by_library(ops::matmul(f32, 100, 513, 513, o), false);
    by_library(ops::matmul(f32, 1, 1, 513, o), false);
    for (const char *activation : {"exp", "gelu"}) {
        o.activation = activation;
        by_library(ops::matmul(f32, 64, 7, 256, o), true);
        by_library(ops::matmul(f32, 5, 130, 16, o), true);
    }
    o.transpose_b = true;
    for (const kumiko::Type t : {f16, f32}) by_library(ops::matmul(t, 17, 130, 1100, o), true);
}

TEST_CASE("transposed columns are transposed while loading") {
    const auto taken = [](const Op &op, const sim::Config &config) {
        check(op, config);
        CHECK(scheduled(op, config).to_json().dump().find("prepack") == std::string::npos);
    };
    ops::MatmulOptions batched;
    batched.batch = 3;
    for (const char *name : {"medium", "full"}) {
        const sim::Config config = sim::Config::load(name);
        taken(ops::matmul(f16, 32, 64, 64), config);
        taken(ops::matmul(f16, 50, 70, 90), config);
        taken(ops::matmul(f16, 1, 16, 16), config);
        taken(ops::matmul(f16, 17, 300, 33), config);
        taken(ops::matmul(f16, 20, 40, 600), config);
        taken(ops::matmul(f16, 9, 40, 20, batched), config);
    }
    taken(ops::matmul(f16, 40, 2100, 300), sim::Config::load("full"));
}

TEST_CASE("many columns are loaded into LM in turn") {
    const sim::Config config = sim::Config::load("small");
    check(product(40, 200, 300, f16), config);
    check(product(40, 200, 300, f32), config);
}

TEST_CASE("moves to many places reuse tags when they run out") {
    const sim::Config config = sim::Config::load("full");
    const ChipProgram p = compile_chip(scheduled(product(768, 768, 768, f16), config), config);
    CHECK(p.program().words.size() < 4000);
}

TEST_CASE("epilogues of a product") {
    for (const char *name : {"small", "full"}) {
        for (const kumiko::Type out : {f32, f16}) {
            for (const bool residual : {false, true}) {
                ops::MatmulOptions o;
                o.transpose_b = true;
                o.output = out;
                o.bias = true;
                o.residual = residual;
                o.activation = "relu";
                check(ops::matmul(f16, 40, 300, 50, o), sim::Config::load(name));
            }
        }
    }
}

TEST_CASE("functions finish a product") {
    for (const char *name : {"medium", "full"}) {
        for (const char *activation : {"gelu", "silu", "tanh"}) {
            for (const kumiko::Type type : {f16, f32}) {
                ops::MatmulOptions o;
                o.transpose_b = true;
                o.bias = o.residual = true;
                o.activation = activation;
                check(ops::matmul(type, 40, 300, 50, o), sim::Config::load(name), true);
            }
        }
    }
}

TEST_CASE("DRAM written and read element by element: consecutive rows of blocks of 64 LW") {
    const sim::Config config = sim::Config::load("medium"); // one group
    const int M = 20, N = 260, K = 300;
    const Op op = product(M, N, K, f16);
    const ChipProgram p = compile_chip(scheduled(op, config), config);
    const Buffer<> a = random_integers(f16, {M, K}, 1), b = random_integers(f16, {N, K}, 2);
    sim::HostMemory memory(config);
    const auto pitch = [](int64_t elements) { return (elements + 255) / 256 * 64; };
    const auto write = [&](const Buffer<> &array, const std::string &name, int64_t rows, int64_t columns) {
        // One row of zeros behind the last.
        std::vector<uint64_t> words(size_t((rows + 16) / 16 * 16 * pitch(columns)));
        for (int64_t r = 0; r < rows; r++)
            std::memcpy(&words[size_t(r * pitch(columns))], static_cast<const uint16_t *>(array.data()) + r * columns,
                        size_t(columns) * 2);
        memory.write_dram(0, begin_of(p, name), words);
    };
    write(a, "A", M, K);
    write(b, "B", N, K);
    sim::simulate(p.program(), config, memory);
    const Buffer<> c(f16, {M, N});
    for (int64_t r = 0; r < M; r++) {
        std::vector<uint64_t> row(size_t(pitch(N)));
        memory.read_dram(0, begin_of(p, "C") + r * pitch(N), row);
        std::memcpy(static_cast<uint16_t *>(c.data()) + r * N, row.data(), size_t(N) * 2);
    }
    CHECK(difference(c, interpret(op, {a, b}).front()) == "");
}

TEST_CASE("an operand with another axis contiguous is laid so ahead of time, or refused") {
    const sim::Config config = sim::Config::load("small");
    ops::MatmulOptions o;
    o.output = f32;
    const Op op = ops::matmul(f16, 32, 64, 48, o); // B [k][j]
    check(op, config);
    CHECK(scheduled(op, config).to_json().dump().find("prepack") != std::string::npos);
    o.output = {};
    o.transpose_a = true;
    const Op across = ops::matmul(f16, 32, 64, 48, o); // A [k][i]
    check(across, config);
    CHECK(scheduled(across, config).to_json().dump().find("prepack") != std::string::npos);
}
