// Illegal schedules of chains and reductions for the chip, each with the error text that its author
// sees.
// Links: ops schedules/library
#include "ops/ops.h"
#include "schedules/library/table.h"
#include "support/error.h"
#include "targets/chip/compile.h"

#include <doctest/doctest.h>
#include <functional>

using namespace kumiko;

namespace {

std::string told(const std::function<void()> &wrong) {
    try {
        wrong();
    } catch (const UserError &e) {
        return e.what();
    } catch (const Unsupported &e) {
        return std::string("unsupported: ") + e.what();
    }
    return "no error";
}

const sim::Config &small() {
    static const sim::Config config = sim::Config::load("small");
    return config;
}

// T(i) = sum over k of X(i, k), Y(i, j) = X(i, j) − T(i): a chain.
Op centred(int M = 8, int N = 64) {
    Axis i("i", M), j("j", N), k("k", N);
    Tensor X = input("X", f32, {i, j});
    Tensor T = compute("T", {i}, sum(X(i, k), k));
    return Op("centred", {X}, {compute("Y", {i, j}, X(i, j) - T(i))});
}

// Rows in time, a row over lanes and PEs, up to the point where tests make it illegal.
struct Begun {
    Schedule s;
    StageHandle Y, T;
    explicit Begun(const Op &op, bool at_loop = true) : s(op, chip_machine(small())), Y(s.stage("Y")), T(s.stage("T")) {
        Y.split("j", 2, {"jw", "jv"});
        Y.split("jw", 4, {"jm", "jp"});
        Y.reorder({"i", "jp", "jm", "jv"}).vectorize("jv").bind("jp", "PE");
        if (at_loop) T.compute_at("Y", "i");
        T.split("k", 2, {"kw", "kv"});
        T.split("kw", 4, {"km", "kp"});
        T.reorder({"kp", "i", "km", "kv"}).vectorize("kv");
    }
    void place() {
        s.place_in("X", "LM0", "Y", "i");
        s.place_in("X", "LM0", "T", "i");
    }
};

} // namespace

TEST_CASE("a chain that works") {
    Begun b(centred());
    b.T.bind("kp", "PE");
    b.place();
    CHECK(told([&] { compile_chip(b.s, small()); }) == "no error");
}

TEST_CASE("results in an unsupported memory") {
    Begun root(centred(), false);
    root.T.bind("kp", "PE");
    root.place();
    CHECK(told([&] { compile_chip(root.s, small()); }) ==
          "unsupported: stage T is at the root and is read by another stage; on the chip results stay where they are "
          "computed: use compute_at at a loop of the reader, inline it, or fuse it into the preceding reduction by "
          "finish_in");
    Begun level(centred());
    level.T.bind("kp", "PE").place_in("L1BM");
    level.place();
    CHECK(told([&] { compile_chip(level.s, small()); }) ==
          "unsupported: stage T is kept in L1BM; results of a chain can be in GRF0, GRF1, LM0 or LM1");
    // D is distributed over MABs differently from Y.
    Axis i("i", 64);
    Tensor X = input("X", f32, {i});
    Tensor D = compute("D", {i}, X(i) + 1.0f);
    const Op op("twice", {X}, {compute("Y", {i}, D(i) * D(i))});
    Schedule s(op, chip_machine(small()));
    for (const char *name : {"D", "Y"}) {
        StageHandle S = s.stage(name);
        S.split("i", 2, {"w", "v"});
        S.split("w", 2, {"t", "u"});
        S.split("t", 16, {"o", "n"});
        S.reorder({"o", "u", "n", "v"}).vectorize("v").bind("u", name == std::string("D") ? "MAB" : "L1B");
    }
    s.stage("D").compute_at("Y", "o");
    s.place_in("X", "LM0", "D", "o");
    CHECK(told([&] { compile_chip(s, small()); }) ==
          "unsupported: stage Y reads D from other units of level L1B; the chip's chains read values of the same unit, "
          "or values that all units have");
}

TEST_CASE("copies inside the loops of a chain") {
    Begun b(centred(), false);
    b.Y.split("i", 2, {"io", "ii"});
    b.Y.reorder({"io", "jp", "ii", "jm", "jv"});
    b.T.compute_at("Y", "io").bind("kp", "PE");
    b.s.place_in("X", "LM0", "Y", "io");
    b.s.place_in("X", "LM0", "T", "km");
    CHECK(told([&] { compile_chip(b.s, small()); }) ==
          "unsupported: copy X.LM01 is made inside loop i of T, which is computed at a loop of Y; on the chip, copies "
          "for the stages of a chain are outside of their own loops, except for loops that reduce");
    b.T.reorder({"kp", "km", "i", "kv"}); // in which the sums would spill
    CHECK(told([&] { compile_chip(b.s, small()); }) == "no error");
}

TEST_CASE("reductions over units that the chip does not have") {
    Begun l2b(centred());
    l2b.T.bind("kp", "PE");
    l2b.T.split("km", 1, {"ko", "kg"});
    l2b.T.bind("kg", "L2B");
    l2b.place();
    CHECK(told([&] { compile_chip(l2b.s, small()); }) == "no error"); // of one iteration
    Begun three(centred(8, 48));
    three.T.split("km", 3, {"ko", "k3"});
    three.T.reorder({"k3", "i", "kp", "ko", "kv"}).bind("k3", "PE");
    three.place();
    CHECK(told([&] { compile_chip(three.s, small()); }) == "unsupported: stage T: reduction loop k3 of 3 iterations is "
                                                           "bound to PE; 2 or 4 are supported, outside of other "
                                                           "loops bound to PE");
}

TEST_CASE("combiners") {
    Axis i("i", 8), j("j", 64), k("k", 64);
    Tensor X = input("X", f32, {i, j});
    Tensor T = compute("T", {i}, product(X(i, k), k));
    const Op op("products", {X}, {compute("Y", {i, j}, X(i, j) * T(i))});
    Begun b(op);
    b.T.split("km", 2, {"ko", "kb"});
    b.T.reorder({"kb", "kp", "i", "ko", "kv"}).bind("kp", "PE").bind("kb", "MAB");
    b.place();
    CHECK(told([&] { compile_chip(b.s, small()); }) ==
          "unsupported: stage T reduces by product over units; the tree reduces by sum, maximum and minimum");
}

TEST_CASE("lanes") {
    Axis i("i", 64);
    Tensor X = input("X", f32, {i});
    const Op op("narrowed", {X}, {compute("Y", {i}, cast(f32, cast(f16, X(i))))});
    Schedule s(op, chip_machine(small()));
    StageHandle Y = s.stage("Y");
    Y.split("i", 2, {"p", "v"});
    Y.split("p", 4, {"m", "pe"});
    Y.split("m", 2, {"l", "mab"});
    Y.split("l", 2, {"w", "l1b"});
    Y.split("w", 4, {"t", "n"});
    Y.reorder({"l1b", "mab", "pe", "t", "n", "v"});
    Y.bind("l1b", "L1B").bind("mab", "MAB").bind("pe", "PE").vectorize("v");
    s.place_in("X", "LM0", "Y", "t");
    CHECK(told([&] { compile_chip(s, small()); }) ==
          "unsupported: stage Y computes elements of 16 bits, but its words have two lanes; vectorize four");
}

TEST_CASE("sums without a memory level, or stored before they are complete") {
    const Op op = ops::reduction("sum", f32, {64, 64}, {1});
    const Machine machine = chip_machine(small());
    Schedule s(op, machine);
    CHECK(told([&] { compile_chip(s, small()); }) ==
          "stage Y is a reduction at the root, but its sums have no memory level; use "
          "accumulate_in(\"GRF0\", …) at the loop around those that reduce");
    StageHandle Y = s.stage("Y");
    Y.split("i1", 8, {"ko", "ki"});
    Y.reorder({"ko", "i0", "ki"});
    s.accumulate_in("Y", "GRF0", "ko");
    CHECK(told([&] { compile_chip(s, small()); }) ==
          "unsupported: stage Y: reduction loop ko is outside of ko, so incomplete sums would be stored and reloaded; "
          "the chip keeps sums until they are complete");
}

TEST_CASE("reductions over empty extents") {
    const Machine machine = chip_machine(small());
    const std::string why = ", which has no elements; the chip's reductions have one at least";
    const Op op = ops::reduction("sum", f32, {8, 0}, {1});
    CHECK(told([&] { library::find_template(op, machine); }) ==
          "unsupported: stage Y of op reduce_sum reduces over axis i1" + why);
    CHECK(told([&] { compile_chip(Schedule(op, machine), small()); }) ==
          "unsupported: stage Y reduces over axis i1" + why);
}

TEST_CASE("the library names what it has") {
    const Machine machine = chip_machine(small());
    CHECK(told([&] { library::find_template(ops::conv2d(bf16, 1, 4, 4, 4, 4, 3, 3), machine); }) ==
          "unsupported: the library has no schedule of op conv2d for the chip; it has products of matrices and "
          "convolutions of f16 or f32 with f32 sums, reductions along any axes, norms along the last one, reductions "
          "over windows of images, elementwise chains, permutations of axes, and rows of a table by number");
}

TEST_CASE("elements that are not reduced") {
    const Op op = ops::reduction("max", Int(16), {4, 40}, {1});
    const auto space = library::find_template(op, chip_machine(small()))->make_space(op, chip_machine(small()));
    CHECK(told([&] { compile_chip(space->schedule(space->default_point()), small()); }) ==
          "unsupported: stage Y.reduced reduces elements of i16; the chip's reductions have f16, f32 and i32");
}
