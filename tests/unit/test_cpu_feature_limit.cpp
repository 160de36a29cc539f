// A process with limited processor features: detection, compilation, refusals, and the generated
// code.
// Links: driver
// Levels: no
// Sanitized: --test-case=*everywhere*same,*refused*,*depend*on*,*asked*for*once*,code*compiled*
#include "driver/default_schedule.h"
#include "machine/instruction.h"
#include "ops/ops.h"
#include "ops/registry.h"
#include "runtime/kumiko_runtime.h"
#include "targets/cpu/object.h"
#include "tests/unit/check_runs.h"
#include "tests/unit/feature_limit.h"

#include <regex>

using namespace kumiko;

namespace {

struct Level {
    const char *name;
    int bits; // of a vector
};
const std::vector<Level> levels = {{"x86-64-sse4.2", 128}, {"x86-64-avx2", 256}, {"x86-64-avx512", 512}};

std::vector<Op> some_ops() {
    ops::MatmulOptions signed_b;
    signed_b.b_type = i8;
    return {ops::matmul(f32, 33, 40, 50), ops::matmul(u8, 20, 40, 70, signed_b), ops::matmul(bf16, 20, 40, 66),
            ops::transpose(u8, 70, 33),
            ops::make("conv2d", {{"c", 4}, {"h", 9}, {"w", 12}, {"o", 18}, {"padding", 1}})};
}

bool matches(const std::string &text, const char *pattern) { return std::regex_search(text, std::regex(pattern)); }

// Code must not use registers or encodings that a processor with vectors of `bits` bits lacks.
void check_within(const std::string &assembly, int bits) {
    if (bits < 512) {
        CHECK_FALSE(matches(assembly, "%zmm"));
        // the registers that AVX-512 adds
        CHECK_FALSE(matches(assembly, "%[xy]mm(1[6-9]|2[0-9]|3[01])"));
        CHECK_FALSE(matches(assembly, "%k[0-7]"));
    }
    if (bits < 256) {
        CHECK_FALSE(matches(assembly, "%ymm"));
        CHECK_FALSE(matches(assembly, "\n\\s+v[a-z0-9]+\\s")); // AVX's encodings
    }
    CHECK_FALSE(matches(assembly, "%tmm"));
}

} // namespace

TEST_CASE("no kernel contains instructions that only SSE4a encodes") {
    if (CpuTarget::host().architecture() != "x86_64") return;
    CHECK(!CpuTarget::host().has("sse4a"));
    // Three of every four bytes as lanes, for which LLVM has instructions.
    Axis i("i", 64), j("j", 3), k("k", 4);
    Tensor x = input("x", i8, {i, j, k});
    Schedule s(Op("threes", {x}, {compute("y", {i, j}, sum(cast(i32, x(i, j, k)), k))}));
    s.stage("y").reorder({"i", "k", "j"}).vectorize("j", 3);
    CHECK_FALSE(matches(compile_assembly({lower(s)}, {.target = CpuTarget::host()}), "\\s(insertq|extrq)\\s"));
}

TEST_CASE("a limit lowers what is detected, everywhere the same") {
    const CpuTarget all = CpuTarget::host();
    if (all.architecture() != "x86_64") return;
    for (const Level &level : levels) {
        if (!here(level.name)) continue;
        const Machine full = Machine::host();
        INFO(level.name);
        const Limit limit(level.name);
        const Machine m = Machine::host(), typical = Machine::named(level.name);
        for (const std::string &f : m.features) CHECK_MESSAGE(typical.has(f), f);
        for (const std::string &f : typical.features) CHECK_MESSAGE(m.has(f), f);
        CHECK(m.vector_bits == level.bits);
        CHECK(m.units_in_all("core") == full.units_in_all("core"));
        const CpuTarget cpu = CpuTarget::host();
        CHECK(cpu.vector_bits == level.bits);
        CHECK(cpu.required_features() == kumiko_cpu_features());
        CHECK(cpu.missing_on(all) == "");
        CHECK_FALSE(cpu.has("amx-tile"));
    }
    CHECK(CpuTarget::host() == all);
}

TEST_CASE("code compiled under a limit computes the same and uses no other features") {
    if (CpuTarget::host().architecture() != "x86_64") return;
    for (const Level &level : levels) {
        if (!here(level.name)) {
            MESSAGE("this processor has not ", std::string(level.name));
            continue;
        }
        const Limit limit(level.name);
        for (const Op &op : some_ops()) {
            INFO(level.name, " ", op.name());
            const Schedule s = default_schedule(op, Machine::host());
            check_runs(s);
            check_within(compile(s).assembly(), level.bits);
        }
        CompileOptions halide; // asks the same
        halide.through_halide = true;
        check_runs(Schedule(ops::matmul(f32, 9, 10, 11)), {}, halide);
    }
}

TEST_CASE("code for any level stays within it, wherever it is made") {
    for (const Level &level : levels) {
        CodegenOptions options;
        options.target = CpuTarget::level(level.name);
        const Machine machine = Machine::named(level.name);
        for (const Op &op : some_ops()) {
            INFO(level.name, " ", op.name());
            const std::string text = compile_assembly({lower(default_schedule(op, machine))}, options);
            check_within(text, level.bits);
            if (level.bits == 512 && op.name() == "matmul") CHECK(matches(text, "%zmm"));
        }
    }
}

TEST_CASE("schedules of few columns, short rows and open sizes are made code for every level, without a warning") {
    for (const char *level : {"x86-64-sse4.2", "x86-64-avx2", "x86-64-avx512", "aarch64", "riscv64"}) {
        CodegenOptions options;
        options.target = CpuTarget::level(level);
        const Machine machine = Machine::named(level);
        for (const Op &op :
             {ops::matmul(f32, 9, 3, 300), ops::matmul(f64, 9, 2, 300, {.batch = 5}), ops::matmul(f32, 70, 1, 5),
              ops::reduction("argmax", f32, {12, 37}, {1}), ops::reduction("sum", f32, {3, 40, 5}, {0, 2}),
              ops::group_norm(f32, 2, 12, 5, 7, 3), ops::softmax(f32, 5, 37), ops::transpose(Bool(), 70, 33),
              ops::transpose(f32, Size("M"), Size("N")), ops::attention(f32, 1, 2, Size("S"), 70, 16)}) {
            INFO(level, " ", op.to_string());
            CHECK(compile_object({lower(default_schedule(op, machine))}, options).warnings.empty());
        }
    }
}

TEST_CASE(
    "products of narrow types and open sizes, and weights packed ahead, have schedules on machines of many cores") {
    const Size M("M"), N("N"), K("K");
    for (const char *level : {"x86-64-avx2", "x86-64-avx512", "x86-64-avx512-vnni", "x86-64-avx512-bf16",
                              "aarch64-dotprod", "aarch64-bf16"}) {
        const Machine machine = Machine::named(level);
        REQUIRE(machine.units_in_all("core") > 2);
        for (const auto &[a, b] : {std::pair(i8, i8), {u8, i8}, {i16, i16}, {bf16, bf16}}) {
            ops::MatmulOptions o{.b_type = b};
            if (a == bf16) o.output = f32;
            INFO(level, " ", type_name(a));
            CHECK_NOTHROW(lower(default_schedule(ops::matmul(a, M, N, K, o), machine)));
            CHECK_NOTHROW(lower(default_schedule(ops::matmul(a, M, 64, 96, o), machine)));
            o.batch = 3;
            CHECK_NOTHROW(lower(default_schedule(ops::matmul(a, M, N, 64, o), machine)));
        }
        for (const Json &open : {Json{{"c", "C"}, {"o", 32}}, {{"c", 12}, {"o", "O"}}, {{"c", "C"}, {"o", "O"}}}) {
            for (const char *type : {"u8", "i8", "bf16"}) {
                Json p = {{"h", 9}, {"w", 9}, {"kh", 3}, {"kw", 3}, {"type", type}};
                if (std::string(type) != "bf16") p["w_type"] = "i8";
                p.update(open);
                INFO(level, " ", p.dump());
                CHECK_NOTHROW(lower(default_schedule(ops::make("conv2d", p), machine, PackedBy::Caller)));
            }
        }
    }
    const Machine scalar = Machine::named("riscv64");
    CHECK_NOTHROW(lower(default_schedule(ops::matmul(f32, 1, 64, 64), scalar)));
    CHECK_NOTHROW(lower(default_schedule(ops::matmul(f32, 8, 1, 64, {.transpose_a = true}), scalar)));
}

TEST_CASE("features that a limit removes are refused by name") {
    if (CpuTarget::host().architecture() != "x86_64" || !here("x86-64-sse4.2")) return;
    const Op op = ops::matmul(i16, 16, 16, 16);
    {
        const Limit limit("x86-64-sse4.2");
        Schedule s(op);
        auto C = s.stage("C");
        C.split("j", 8);
        C.split("k", 2);
        C.reorder({"i", "j.o", "k.o", "j.i", "k.i"});
        const std::string told = refusal([&] { C.tensorize("j.i", "avx2.vpmaddwd"); });
        CHECK(told.find("machine host does not have the instruction") != std::string::npos);
        CHECK(told.find("legal here: no tensor instruction") != std::string::npos);
        const std::string wide = refusal([&] { compile(op, Target::named("x86-64-avx2")); });
        CHECK_MESSAGE(wide.find("this processor cannot run code for x86-64-avx2: it lacks avx") != std::string::npos,
                      wide);
        CHECK_NOTHROW(compile(op, Target::named("x86-64-sse4.2")));
    }
    if (here("x86-64-avx2")) { // features implied by the level's may be used too
        kumiko_set_cpu_features([](uint64_t detected) { return detected & ~kumiko_cpu_feature("movbe"); });
        const std::string implied = refusal([&] { compile(op, Target::named("x86-64-avx2")); });
        kumiko_set_cpu_features(nullptr);
        CHECK_MESSAGE(implied.find("cannot run code for x86-64-avx2: it lacks movbe") != std::string::npos, implied);
        CHECK_NOTHROW(compile(op, Target::named("x86-64-avx2")));
    }
    // A limit does not add features that the processor lacks.
    for (const char *level : {"x86-64-avx512", "x86-64-amx"}) {
        if (here(level)) continue;
        const Limit limit(level);
        CHECK(refusal([&] { compile(op, Target::named(level)); }).find("cannot run code for") != std::string::npos);
    }
    CHECK(refusal([] { limit_features("aarch64"); }).find("features cannot be limited to aarch64") == 0);
    CHECK(refusal([] { limit_features("x86-64-avx3"); }).find("unknown processor level") == 0);
}

TEST_CASE("features that depend on a removed one are removed") {
    if (CpuTarget::host().architecture() != "x86_64") return;
    const auto has = [](const char *name) { return (kumiko_cpu_features() & kumiko_cpu_feature(name)) != 0; };
    // As if the processor had everything except one feature.
    kumiko_set_cpu_features([](uint64_t) { return ~(uint64_t{1} << 63) & ~kumiko_cpu_feature("avx2"); });
    CHECK_FALSE(has("avx2"));
    CHECK_FALSE(has("avx512f"));
    CHECK_FALSE(has("avx512bf16"));
    CHECK(has("fma"));
    CHECK_FALSE(Machine::host().has("avx512bw"));
    CHECK_FALSE(CpuTarget::host().has("avx512bw"));
    kumiko_set_cpu_features([](uint64_t) { return ~(uint64_t{1} << 63) & ~kumiko_cpu_feature("avx"); });
    for (const char *name : {"avx2", "fma", "avx512f"}) CHECK_FALSE(has(name));
    CHECK(has("sse4.2"));
    kumiko_set_cpu_features([](uint64_t) { return ~(uint64_t{1} << 63) & ~kumiko_cpu_feature("amx-tile"); });
    for (const char *name : {"amx-bf16", "amx-int8"}) CHECK_FALSE(has(name));
    CHECK(has("avx512f"));
    kumiko_set_cpu_features(nullptr);
}

TEST_CASE("tile registers are asked for once, and there only where they are granted") {
    const bool granted = kumiko_request_tiles();
    CHECK(granted == bool(kumiko_request_tiles()));
    CHECK(granted == Machine::host().has("amx_tile"));
    if (CpuTarget::host().architecture() == "x86_64")
        CHECK(granted == ((kumiko_cpu_features() & kumiko_cpu_feature("amx-tile")) != 0));
}

TEST_CASE("features that depend on one that a hook removes are absent") {
    kumiko_set_cpu_features([](uint64_t detected) { return detected & ~kumiko_cpu_feature("avx512bw"); });
    const CpuTarget host = CpuTarget::host();
    CHECK_FALSE(host.has("avx512bw"));
    CHECK_FALSE(host.has("avx512bf16"));
    CHECK_FALSE(host.has("avx512vbmi"));
    const Op op = ops::matmul(bf16, 32, 32, 64);
    check_runs(default_schedule(op, Machine::host()));
    kumiko_set_cpu_features(nullptr);
}
