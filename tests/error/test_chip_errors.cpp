// Illegal schedules for the chip, each with the error text that its author sees. Places in this
// file are written as FILE:LINE.
// Links: schedules/library ops
#include "ops/ops.h"
#include "schedules/library/chip_matmul.h"
#include "schedules/values.h"
#include "support/error.h"
#include "targets/chip/compile.h"

#include <doctest/doctest.h>
#include <functional>
#include <regex>

using namespace kumiko;

namespace {

std::string told(const std::function<void()> &wrong) {
    const auto text = [](const std::exception &e) {
        return "\n" +
               std::regex_replace(std::string(e.what()), std::regex("[^ (]*test_chip_errors\\.cpp:[0-9]+"),
                                  "FILE:LINE") +
               "\n";
    };
    try {
        wrong();
    } catch (const UserError &e) {
        return text(e);
    } catch (const Unsupported &e) {
        return "\nunsupported: " + text(e).substr(1);
    }
    return "no error";
}

const sim::Config &small() {
    static const sim::Config config = sim::Config::load("small");
    return config;
}

Op product(int M, int N, int K, Type out = f32) {
    ops::MatmulOptions o;
    o.transpose_b = true;
    o.output = out;
    return ops::matmul(f16, M, N, K, o);
}

// A product on one MAB, up to the point where tests make it illegal.
Schedule begun(const Op &op, bool packed = false) {
    Schedule s(op, chip_machine(small()));
    if (packed) {
        s.prepack("A", {"i", "k"});
        s.prepack("B", {"j", "k"});
    }
    StageHandle C = s.stage("C");
    C.split("i", 16, {"io", "iv"});
    C.split("j", 16, {"jo", "ji"});
    C.split("k", 16, {"ko", "ki"});
    C.reorder({"io", "jo", "ko", "iv", "ji", "ki"});
    return s;
}

} // namespace

TEST_CASE("bind") {
    Schedule s(product(64, 64, 64), chip_machine(small()));
    StageHandle C = s.stage("C");
    CHECK(told([&] { C.bind("i", "MAB"); }) == R"(
FILE:LINE: error: bind("i", "MAB"): loop i has 64 iterations, but there are 2 units of level MAB
  stage C   for i in 0..64                  ← bind asked here
              for j in 0..64
                for k in 0..64 (reduction)  ← innermost
  legal here: split it by 2 at most and bind the inner loop
)");
    CHECK(told([&] { C.bind("i", "core"); }) == R"(
FILE:LINE: error: bind("i", "core"): machine chip:small has no unit level "core"
  stage C   for i in 0..64                  ← bind asked here
              for j in 0..64
                for k in 0..64 (reduction)  ← innermost
  legal here: group, L2B, L1B, MAB, PE
)");
    C.split("i", 2);
    C.bind("i.i", "MAB");
    CHECK(told([&] { C.bind("i.i", "MAB"); }) == R"(
FILE:LINE: error: bind("i.i", "MAB"): loop i.i is already bound
  stage C   for i.o in 0..32
              bound i.i in 0..2 over MAB      ← bind asked here
                for j in 0..64
                  for k in 0..64 (reduction)  ← innermost
  legal here: a serial loop
)");
    CHECK(told([&] { C.split("i.i", 2); }) == R"(
FILE:LINE: error: split("i.i", 2): loop i.i is already bound
  stage C   for i.o in 0..32
              bound i.i in 0..2 over MAB      ← split asked here
                for j in 0..64
                  for k in 0..64 (reduction)  ← innermost
  legal here: split before the directive that made it bound
)");
    C.split("j", 2);
    CHECK(told([&] { C.bind("j.i", "MAB"); }) == R"(
FILE:LINE: error: bind("j.i", "MAB"): loop j.i has 2 iterations, with i.i together 4, but there are 2 units of level MAB
  stage C   for i.o in 0..32
              bound i.i in 0..2 over MAB
                for j.o in 0..32
                  for j.i in 0..2               ← bind asked here
                    for k in 0..64 (reduction)  ← innermost
  legal here: another level
)");
    const Size M("M");
    ops::MatmulOptions o;
    Schedule symbolic(ops::matmul(f16, M, 64, 64, o), chip_machine(small()));
    CHECK(told([&] { symbolic.stage("C.sum").bind("i", "MAB"); }) == R"(
FILE:LINE: error: bind("i", "MAB"): the extent of loop i is known only at run time
  stage C.sum   for i in 0..M                   ← bind asked here
                  for j in 0..64
                    for k in 0..64 (reduction)  ← innermost
  legal here: split it by a number of at most 2 and bind the inner loop
)");
}

TEST_CASE("write_back") {
    Schedule s(product(64, 64, 64), chip_machine(small()));
    CHECK(told([&] { s.stage("C").write_back("i"); }) == R"(
FILE:LINE: error: write_back("i"): stage C has no accumulate_in
  stage C   for i in 0..64                  ← write_back asked here
              for j in 0..64
                for k in 0..64 (reduction)  ← innermost
  legal here: accumulate_in first, then write_back at its loop or one around it that is serial and does not reduce
)");
}

TEST_CASE("wait_in") {
    Schedule s(product(64, 64, 64), chip_machine(small()));
    auto [ko, ki] = s.stage("C").split("k", 8);
    s.stage("C").reorder({"i", ko, "j", ki}).accumulate_in("GRF0", "j").wait_in("L2BM", "i");
    CHECK(told([&] { compile_chip(s); }) == R"(
unsupported: partial results of stage C wait in L2BM between rounds; on the chip a sum is computed in one round
)");
}

TEST_CASE("errors of products on the matrix unit") {
    const Op op = product(64, 64, 64);
    CHECK(told([&] { compile_chip(Schedule(op, chip_machine(small()))); }) == R"(
stage C is a reduction at the root, but its sums have no memory level; use accumulate_in("GRF0", …) at the loop around those that reduce
)");
    Schedule s = begun(op, true);
    s.stage("C").tensorize("ji", "mfma.f16");
    CHECK(told([&] { compile_chip(s); }) == R"(
stage C is tensorized, but its sums have no memory level; use accumulate_in("GRF0", …)
)");
    s.accumulate_in("C", "GRF0", "jo");
    CHECK(told([&] { compile_chip(s); }) == R"(
stage C reads A.packed in DRAM, which no unit can read; place_in("A.packed", …) copies it to a memory that units read
)");
    s.place_in("A.packed", "LM0", "C", "io");
    s.place_in("B.packed", "LM1", "C", "ko");
    CHECK(told([&] { compile_chip(s); }) == R"(
unsupported: B of C is placed in LM1; the matrix unit takes its matrix from L1BM
)");
    Schedule rows = begun(op);
    rows.stage("C").tensorize("ji", "mfma.f16");
    rows.accumulate_in("C", "GRF0", "jo");
    rows.place_in("A", "LM0", "C", "io");
    CHECK(told([&] { compile_chip(rows); }) == R"(
unsupported: A of C is row-major in DRAM, and the units read it in another order; prepack("A", …) makes the host pack it, and products whose reduction is bound to MABs read rows
)");
}

TEST_CASE("tensors that exceed a memory") {
    CHECK(told([&] {
              Schedule s = begun(product(16, 16, 8192));
              s.place_in("A", "LM0", "C", "io");
          }) == R"(
FILE:LINE: error: place_in("A", "LM0", "C", "io"): the region of A needed below loop io is 262144 bytes, but LM0 holds 2048, 4 of which share it
  stage C   for io in 0..1                         ← place_in asked here
              for jo in 0..1
                for ko in 0..512 (reduction)
                  for iv in 0..16
                    for ji in 0..16
                      for ki in 0..16 (reduction)  ← innermost
  legal here: a deeper loop, smaller tiles, or a larger level
)");
    CHECK(told([&] {
              Schedule s = begun(product(64, 1024, 64));
              s.stage("C").reorder({"io", "ko", "jo", "iv", "ji", "ki"});
              s.place_in("A", "LM0", "C", "io");
              s.place_in("B", "L1BM", "C", "io");
              s.accumulate_in("C", "GRF0", "io");
              s.stage("C").tensorize("ji", "mfma.f16");
              compile_chip(s);
          }) == R"(
FILE:LINE: error: place_in("B", "L1BM", "C", "io"): the region of B needed below loop io is 131072 bytes, but L1BM holds 4096
  stage C   for io in 0..4                         ← place_in asked here
              for ko in 0..4 (reduction)
                for jo in 0..64
                  for iv in 0..16
                    for ji in 0..16
                      for ki in 0..16 (reduction)  ← innermost
  legal here: a deeper loop, smaller tiles, or a larger level
)");
}

TEST_CASE("memories that the addresses overflow") {
    CHECK(told([&] {
              Schedule s = begun(product(16, 128, 64), true);
              s.stage("C").reorder({"io", "ko", "jo", "iv", "ji", "ki"});
              s.place_in("A.packed", "LM0", "C", "io");
              s.place_in("B.packed", "L1BM", "C", "ko").double_buffer();
              s.accumulate_in("C", "GRF0", "io");
              s.stage("C").tensorize("ji", "mfma.f16");
              compile_chip(s);
          }) == R"(
B.packed.L1BM (second) needs 512 LW of L1BM, which has 512, 0 of them free (B.packed.L1BM 512); smaller tiles, a loop further in, or a larger level
)");
    CHECK(told([&] {
              Schedule s = begun(product(64, 64, 64));
              s.stage("C").reorder({"io", "ko", "jo", "iv", "ji", "ki"});
              s.place_in("A", "LM0", "C", "io");
              s.place_in("B", "L1BM", "C", "jo");
              s.accumulate_in("C", "GRF0", "jo");
              s.stage("C").tensorize("ji", "mfma.f16");
              compile_chip(s);
          }) == R"(
unsupported: stage C: reduction loop ko is outside of jo, so incomplete sums would be stored and reloaded; the chip keeps sums until they are complete
)");
}

TEST_CASE("chips of one's own") {
    sim::Config links = small();
    links.links.l2_scatter = 4;
    CHECK(told([&] {
              const Op op = product(16, 16, 16);
              compile_chip(library::schedule_chip_matmul(op, chip_machine(links),
                                                         library::chip_matmul_parameters(op, chip_machine(links))),
                           links);
          }) == R"(
unsupported: chip small has L2 links of 16 and 4 LW a cycle (broadcast, scatter), moves of 64 LW, granules of 16 and tables of 1024 entries; the compiler supports 16 and 8, 64, 16, 1024
)");
    // There is no room for halves of the L1Bs: the library chooses another form; an explicit
    // request is refused.
    sim::Config narrow = sim::Config::load("full");
    narrow.sizes.l1bm = 4096;
    const Op op = product(4096, 4096, 4096, f16);
    const Machine machine = chip_machine(narrow);
    library::ChipMatmulParameters parameters = library::chip_matmul_parameters(op, machine);
    CHECK(!parameters.halves);
    const Op little = product(33, 40, 513, f16);
    parameters = library::chip_matmul_parameters(little, machine);
    parameters.vectors = Tile(32, {32}), parameters.pieces = Tile(1, {1}), parameters.sides = Flag(false);
    parameters.twice = Flag(false), parameters.halves = Flag(true);
    CHECK(told([&] { compile_chip(library::schedule_chip_matmul(little, machine, parameters), narrow); }) == R"(
stage C.sum: under halves of the L1Bs, 2048 LW of L1BM are left for operands and results in transit, which take 5120; smaller tiles of rows leave more
)");
    narrow = sim::Config::load("full");
    narrow.sizes.l2bm = 8192;
    CHECK(told([&] { compile_chip(library::schedule_chip_matmul(little, machine, parameters), narrow); }) == R"(
stage C.sum: under halves of the L1Bs, 8192 LW of L2BM are left for operands and results in transit, which take 12288; smaller tiles of rows leave more
)");
}

TEST_CASE("the chip cannot check assumptions about values") {
    Axis i("i", 64);
    Tensor A = input("A", i32, {i});
    Schedule s(Op("more", {A}, {compute("B", {i}, A(i) + 1)}), chip_machine(small()));
    s.assume(within("A", 0, 9));
    CHECK(told([&] { compile_chip(s, small()); }) == R"(
unsupported: the assumption within("A", 0, 9): a program of the chip cannot check values before it runs
)");
}

TEST_CASE("ops that the chip does not support") {
    CHECK(told([&] { compile_chip(Schedule(product(64, 64, 64), Machine::named("x86-64-avx2"))); }) == R"(
machine x86-64-avx2 is not a chip; chips are named chip:small, chip:medium, chip:full
)");
    Axis i("i", 64);
    Tensor A = input("A", f32, {i});
    const Op sines("sines", {A}, {compute("B", {i}, sin(A(i)))});
    CHECK(told([&] {
              Schedule s(sines, chip_machine(small()));
              StageHandle B = s.stage("B");
              B.split("i", 2);
              B.split("i.o", 4, {"t", "w"});
              B.vectorize("i.i");
              s.place_in("A", "LM0", "B", "t");
              compile_chip(s);
          }) == R"(
unsupported: A.LM0 is row-major in DRAM, and loop t steps over parts of blocks of 64 LW; prepack it
)");
    CHECK(told([&] {
              Schedule s(sines, chip_machine(small()));
              StageHandle B = s.stage("B");
              B.split("i", 2, {"p", "v"});
              B.split("p", 4, {"m", "pe"});
              B.split("m", 2, {"l", "mab"});
              B.split("l", 2, {"w", "l1b"});
              B.split("w", 4, {"t", "word"});
              B.reorder({"l1b", "mab", "pe", "t", "word", "v"});
              B.bind("l1b", "L1B").bind("mab", "MAB").bind("pe", "PE").vectorize("v");
              s.place_in("A", "LM0", "B", "t");
              compile_chip(s);
          }) == R"(
unsupported: stage B: the chip's vectors do not compute sin(A.LM0(i)); they have + - * of floats and integers (* of floats only), /, min, max, select, comparisons, casts among f16, f32, i16 and i32, abs, exp, expm1, log, log1p, tanh, erf, erfc, sigmoid, silu, gelu, gelu_tanh, sqrt, rsqrt, floor, ceil, round, trunc
)");
    CHECK(told([&] { chip_config("full"); }) == R"(
machine full is not a chip; chips are named chip:small, chip:medium, chip:full
)");
    CHECK(told([&] { chip_config("chip:huge"); }) == R"(
there is no machine 'huge'; there are: small, medium, full; a configuration of your own is a file that ends in .json
)");
}
