// Products of narrow types: copies of another type, tensor instructions chosen by the types and the
// machine, interleaving stores. Values are compared with the interpreter's; for other machines, the
// code is inspected.
// Links: driver
// Sanitized: --test-case=*copy*,errors*,*extremes*
#include "driver/default_schedule.h"
#include "driver/target.h"
#include "ops/ops.h"
#include "schedules/examples.h"
#include "schedules/library/matmul.h"
#include "schedules/library/product.h"
#include "schedules/library/table.h"
#include "support/error.h"
#include "targets/cpu/object.h"
#include "tests/unit/check_runs.h"

#include <regex>

using namespace kumiko;

namespace {

Op product(Type a, Type b, const Expr &m, const Expr &n, const Expr &k, ops::MatmulOptions o = {}) {
    o.b_type = b;
    return ops::matmul(a, m, n, k, o);
}

std::string way_on(const Op &op, const std::string &machine) {
    return library::matmul_parameters(op, Machine::named(machine)).multiply;
}

std::string assembly_for(const Op &op, const std::string &machine) {
    CodegenOptions options;
    options.target = Target::named(machine).cpu;
    return compile_assembly({lower(library::matmul(op, Machine::named(machine)))}, options);
}

} // namespace

TEST_CASE("a copy holds bytes as 16-bit integers, and bfloat16 as float32") {
    for (const auto &[a, b, held] : {std::tuple(u8, i8, "i16"), std::tuple(bf16, bf16, "f32")}) {
        const Op op = product(a, b, 30, 48, 20);
        Schedule s(op);
        const std::string sum = op.stages()[0].name;
        s.stage(sum).split("i", 6);
        s.stage(sum).reorder({"i.o", "k", "i.i", "j"}).vectorize("j", 8);
        s.place_in("B", "L2", sum, "i.o").hold_as(held);
        s.place_in("A", "L2", sum, "i.o").hold_as(held);
        CHECK(s.state().type_of("B.L2") == type_from_name(held));
        CHECK(body_of(s).find(std::string("allocate B.L2[") + (held == std::string("i16") ? "int16" : "float32")) !=
              std::string::npos);
        check_runs(s);
    }
}

TEST_CASE("a copy of a copy, a packed input and a bare read may be held too") {
    const Op op = product(i16, i16, 20, 32, 24);
    Schedule s(op);
    s.prepack("B", {"j/16", "k", "j%16"}).hold_as("i32");
    s.stage("C").reorder({"i", "k", "j"}).vectorize("j", 16);
    s.place_in("A", "L2", "C", "i").hold_as("i64");
    s.place_in("A.L2", "L1", "C", "k");
    check_runs(s);
    Axis i("i", 40);
    Tensor x = input("x", u8, {i});
    Schedule bare(Op("bare", {x}, {compute("y", {i}, x(i) + cast<uint8_t>(250))}));
    bare.stage("y").split("i", 10);
    bare.place_in("x", "L1", "y", "i.o").hold_as("f32");
    check_runs(bare);
}

TEST_CASE("a value held as a float wraps when it is cast") {
    Axis i("i", 40);
    Tensor x = input("x", i8, {i});
    for (const Type t : {u8, u16, u32, u64, i8, i32, f32}) {
        for (const char *held : {"f32", "f64", "i16"}) {
            Schedule s(Op("cast_to", {x}, {compute("y", {i}, cast(t, x(i)) * 2)}));
            s.stage("y").split("i", 10);
            s.place_in("x", "L1", "y", "i.o").hold_as(held);
            check_runs(s);
        }
    }
}

TEST_CASE("errors of hold_as") {
    Schedule s(example_op("matmul_i16"), Machine::named("x86-64-avx2"));
    s.stage("C").reorder({"k", "i", "j"});
    s.place_in("B", "L2", "C", "k");
    const auto refused = [&](const std::string &stage, const std::string &type, const std::string &why) {
        CHECK_THROWS_WITH_AS(s.stage(stage).hold_as(type), doctest::Contains(why.c_str()), UserError);
    };
    refused("C", "i64", "C is computed, so its type belongs to the op");
    refused("B.L2", "i16", "B.L2 holds i16 already");
    refused("B.L2", "u16", "not every value of i16 is one of u16");
    refused("B.L2", "u16", "legal here: i32, i64, f32, f64");
    refused("B.L2", "bf16", "not every value of i16 is one of bf16");
    refused("B.L2", "int", "unknown type");
    CHECK_NOTHROW(s.stage("B.L2").hold_as("i32").hold_as("i64"));
}

TEST_CASE("a specialised schedule packs ahead in the same type") {
    const Size M("M");
    const Op op = product(i16, i16, M, 16, 16);
    Schedule s(op), special(op);
    s.prepack("B", {"j", "k"});
    special.prepack("B", {"j", "k"}).hold_as("i32");
    CHECK_THROWS_WITH_AS(
        s.specialize(M >= 8, special),
        doctest::Contains("the specialised schedule prepacks B as B.packed {j, k} held as i32 and the schedule "
                          "around it B as B.packed {j, k}"),
        UserError);
}

TEST_CASE("products of narrow types of every size and storage") {
    for (const auto &[a, b] : {std::pair(u8, i8), std::pair(i8, u8), std::pair(u8, u8), std::pair(i8, i8),
                               std::pair(i16, i16), std::pair(bf16, bf16), std::pair(f16, f16), std::pair(f16, bf16)}) {
        for (const auto &[m, n, k] : {std::tuple(64, 48, 64), std::tuple(33, 7, 30), std::tuple(20, 71, 99),
                                      std::tuple(3, 40, 17), std::tuple(1, 1, 1)}) {
            const Op op = product(a, b, m, n, k);
            CAPTURE(op.to_string());
            check_runs(library::matmul(op));
        }
    }
    for (bool ta : {false, true}) {
        for (bool tb : {false, true}) {
            ops::MatmulOptions o;
            o.transpose_a = ta, o.transpose_b = tb;
            check_runs(library::matmul(product(u8, i8, 26, 40, 52, o)));
            o.batch = 2;
            check_runs(library::matmul(product(bf16, bf16, 26, 40, 52, o)));
        }
    }
    for (const Sizes &sizes : {Sizes{{"M", 40}, {"N", 37}, {"K", 65}}, Sizes{{"M", 1}, {"N", 3}, {"K", 2}}})
        check_runs(library::matmul(product(u8, i8, Size("M"), Size("N"), Size("K"))), sizes);
}

TEST_CASE("the last columns of a tile share the registers of whole vectors") {
    for (const int n : {17, 18, 31, 33, 50}) {
        for (const auto &[a, b] : {std::pair(i8, i8), {u8, i8}, {bf16, bf16}}) {
            ops::MatmulOptions o;
            if (a == bf16) o.output = f32;
            const Schedule s = default_schedule(product(a, b, 15, n, 37, o), Machine::host());
            check_runs(s);
            CHECK(compile(s).warnings().empty());
        }
    }
}

TEST_CASE("the reduction is split into parts that are multiples of a group of steps") {
    const Machine host = Machine::host();
    for (const auto &[a, b] : {std::pair(i8, i8), {u8, i8}, {bf16, bf16}}) {
        for (const int k : {520, 512}) {
            const Op op = product(a, b, 7, 17, k);
            library::MatmulParameters p = library::matmul_parameters(op, host);
            p.parallel = Choice("depth", {"none", "depth"});
            const Schedule s = library::schedule_matmul(op, host, p);
            check_runs(s);
            const bool taken = body_of(s).find("kumiko.inst.") != std::string::npos;
            CHECK(taken == !(p.multiply.is("plain") || p.multiply.is("widened")));
        }
    }
}

TEST_CASE("epilogues of integer sums are computed in floats if the result is float") {
    ops::MatmulOptions o;
    o.bias = true, o.activation = "leaky_relu", o.output = f32;
    const Op op = product(u8, i8, 5, 20, 36, o);
    CHECK(op.to_string().find("f32(C.sum(i, j)) + bias(j)") != std::string::npos);
    check_runs(default_schedule(op, Machine::host()));
    o.output = f16;
    check_runs(default_schedule(product(u8, i8, 5, 20, 36, o), Machine::host()));
    o.activation = "", o.output = i32;
    CHECK(product(u8, i8, 5, 20, 36, o).to_string().find("f32") == std::string::npos);
}

TEST_CASE("pre-packed products use strategies that read the packed operand") {
    const Op open = product(u8, i8, Size("M"), Size("N"), Size("K"));
    const std::vector<Op> ops = {product(u8, i8, 64, 64, 128), product(i8, i8, 64, 64, 128), open,
                                 product(bf16, bf16, 64, 64, 64), product(f32, f32, 64, 64, 64)};
    for (const std::string &name : Machine::names()) {
        const Machine machine = Machine::named(name);
        for (const Op &op : ops) {
            INFO(name, ": ", op.to_string());
            const auto space = library::space_of(op, machine, PackedBy::Caller);
            for (const ParameterInfo &p : space->parameters()) {
                if (p.name != "multiply") continue;
                for (const Json &way : p.values) {
                    const Schedule s = space->schedule(space->default_with({{"multiply", way}}));
                    CHECK_EQ(lower(s).packs.size(), 1);
                }
            }
        }
    }
    for (const Op &op : {ops[0], ops[1], ops[3]}) check_runs(default_schedule(op, Machine::host(), PackedBy::Caller));
    check_runs(default_schedule(open, Machine::host(), PackedBy::Caller), {{"M", 9}, {"N", 37}, {"K", 65}});
}

TEST_CASE("f16 values are compared in vectors where the processor has no arithmetic of f16") {
    for (const char *level : {"x86-64-avx2", "x86-64-avx512"}) {
        CodegenOptions options;
        options.target = Target::named(level).cpu;
        for (const Op &op : {ops::reduction("max", f16, {64, 512}, {1}), ops::reduction("argmax", f16, {64, 512}, {1}),
                             ops::top_k(f16, {64, 512}, 1, 4), ops::softmax(f16, 8, 512)}) {
            INFO(level, " ", op.name());
            const std::string text = compile_llvm_ir({lower(default_schedule(op, Machine::named(level)))}, options);
            CHECK(text.find("fcmp") != std::string::npos);
            CHECK_FALSE(std::regex_search(text, std::regex("fcmp [a-z ]*<[0-9]+ x half>")));
        }
    }
    for (const char *kind : {"max", "argmin"})
        check_runs(default_schedule(ops::reduction(kind, f16, {5, 300}, {1}), Machine::host()));
    check_runs(default_schedule(ops::top_k(f16, {5, 300}, 1, 3), Machine::host()));
    check_runs(default_schedule(ops::top_k(f16, {5, 300}, 1, 20), Machine::host()));
}

TEST_CASE("extremes of bytes do not saturate") {
    const Op op = product(u8, i8, 8, 16, 64);
    Buffer<> a = make_input(op.inputs()[0], {}), b = make_input(op.inputs()[1], {}), c = make_output(op, "C", {});
    std::fill_n(reinterpret_cast<uint8_t *>(a.data()), 8 * 64, uint8_t(255));
    for (const int8_t value : {int8_t(-128), int8_t(127)}) {
        std::fill_n(reinterpret_cast<int8_t *>(b.data()), 64 * 16, value);
        compile(library::matmul(op))(std::vector<Buffer<>>{a, b, c});
        CHECK(reinterpret_cast<const int32_t *>(c.data())[77] == 255 * value * 64);
    }
}

TEST_CASE("each machine uses its own instructions for products") {
    const Op bytes = product(u8, i8, 64, 64, 64), halves = product(bf16, bf16, 64, 64, 64);
    CHECK(way_on(bytes, "x86-64-sse4.2") == "widened");
    CHECK(way_on(bytes, "x86-64-avx2") == "avx2.vpmaddwd");
    CHECK(way_on(bytes, "x86-64-avx512-vnni") == "avx512.vpdpbusd");
    CHECK(way_on(bytes, "x86-64-avx2-vnni") == "avx_vnni.vpdpbusd");
    CHECK(assembly_for(bytes, "x86-64-avx2-vnni").find("vpdpbusd") != std::string::npos);
    CHECK(way_on(halves, "x86-64-avx2") == "widened");
    CHECK(way_on(halves, "x86-64-avx512-bf16") == "avx512.vdpbf16ps");
    CHECK(way_on(product(i8, i8, 64, 64, 64), "aarch64-dotprod") == "neon.sdot");
    CHECK(way_on(bytes, "aarch64-bf16") == "neon.usdot");
    CHECK(way_on(halves, "aarch64-bf16") == "neon.bfdot");
    CHECK(assembly_for(bytes, "aarch64-bf16").find("usdot") != std::string::npos);
    CHECK(assembly_for(halves, "aarch64-bf16").find("bfdot") != std::string::npos);
    CHECK(way_on(product(i8, i8, 64, 64, 64), "x86-64-avx512-vnni") == "avx512.vpmaddwd");
    CHECK(way_on(product(f32, f32, 64, 64, 64), "x86-64-avx512-vnni") == "plain");
    // Two of the added products may be the last of a group: no instruction if the reduction is
    // shorter.
    CHECK(way_on(product(u8, i8, 64, 64, 3), "x86-64-avx512-vnni") == "avx512.vpmaddwd");
    CHECK(assembly_for(bytes, "x86-64-avx512-vnni").find("vpdpbusd") != std::string::npos);
    CHECK(assembly_for(halves, "x86-64-avx512-bf16").find("vdpbf16ps") != std::string::npos);
    CHECK(assembly_for(bytes, "x86-64-avx2").find("vpdpbusd") == std::string::npos);
}

TEST_CASE("unrolled stores that fill each other's gaps are one store") {
    Axis i("i", 64), c("c", 2);
    Tensor x = input("x", f32, {c, i});
    Schedule s(Op("interleave", {x}, {compute("y", {i, c}, x(c, i))}));
    auto [o, in] = s.stage("y").split("i", 8);
    s.stage("y").reorder({o, "c", in}).unroll("c").vectorize(in);
    CHECK(body_of(s).find("interleave_vectors") != std::string::npos);
    CHECK(body_of(s).find(", 2, 8)") == std::string::npos);
    check_runs(s);
}

TEST_CASE("the loop over tiles tests whether a tile is complete or absent") {
    // blocks of 132 rows do not divide 384, tiles of 6 do
    const Op op = ops::matmul(f32, 384, 32, 8);
    Schedule s(op);
    auto [ic, it] = s.stage("C").split("i", 132);
    auto [io, ii] = s.stage("C").split(it, 6);
    s.stage("C").reorder({ic, "j", io, "k", ii}).unroll(ii);
    CHECK(body_of(s).find("if (") == std::string::npos);
    check_runs(s);
}
