// Products of tiles with AMX instructions by their meaning. Without AMX, a function replaces the
// instruction, which shows that it receives the right tiles, and the code for AMX is inspected.
// Links: driver
// Sanitized: --test-case=*refused,*whole*reduction
#include "driver/target.h"
#include "machine/instruction.h"
#include "targets/cpu/emit.h"
#include "targets/cpu/object.h"
#include "tests/unit/check_runs.h"
#include "tests/unit/tile_products.h"

using namespace kumiko;

namespace {

const Machine &amx() {
    static const Machine machine = Machine::named("x86-64-amx");
    return machine;
}

float widened(uint16_t bits) {
    const uint32_t word = uint32_t(bits) << 16;
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

// The processor manual's definition for rows of 64 bytes; sums of small integers do not depend on
// the order.
template<typename A, typename B, typename C>
void tile_product(C *c, int64_t c_row, const A *a, int64_t a_row, const B *b, int64_t b_row) {
    constexpr int group = 4 / sizeof(A);
    const auto at = [](auto *base, int64_t row, int64_t bytes) {
        return reinterpret_cast<decltype(base)>(reinterpret_cast<uintptr_t>(base) + uintptr_t(row * bytes));
    };
    const auto number = [](auto x) {
        if constexpr (sizeof x == 2)
            return widened(x);
        else
            return C(x);
    };
    for (int m = 0; m < 16; m++) {
        for (int k = 0; k < 16; k++) {
            for (int n = 0; n < 16; n++) {
                for (int g = 0; g < group; g++)
                    at(c, m, c_row)[n] +=
                        number(at(a, m, a_row)[group * k + g]) * number(at(b, k, b_row)[group * n + g]);
            }
        }
    }
}

template<typename A, typename B, typename C>
Emitter calling() {
    return [](llvm::IRBuilder<> &ir, const std::vector<llvm::Value *> &args) -> llvm::Value * {
        std::vector<llvm::Type *> types;
        for (llvm::Value *v : args) types.push_back(v->getType());
        auto *type = llvm::FunctionType::get(ir.getVoidTy(), types, false);
        auto *address = ir.getInt64(reinterpret_cast<uintptr_t>(&tile_product<A, B, C>));
        return ir.CreateCall(type, ir.CreateIntToPtr(address, ir.getPtrTy()), args);
    };
}

// Dot products on registers, which handle the remainder beyond whole tiles, in operations of every
// processor.
template<int group, bool signed_a, bool signed_b>
llvm::Value *dot_products(llvm::IRBuilder<> &ir, const std::vector<llvm::Value *> &args) {
    const auto lanes = llvm::cast<llvm::FixedVectorType>(args[0]->getType())->getNumElements();
    llvm::Value *sum = args[0];
    for (int g = 0; g < group; g++) {
        std::vector<int> of_group;
        for (unsigned l = 0; l < lanes; l++) of_group.push_back(int(l) * group + g);
        const auto wide = [&](llvm::Value *v, bool is_signed) {
            v = ir.CreateShuffleVector(v, of_group);
            auto *ints = llvm::FixedVectorType::get(ir.getInt32Ty(), lanes);
            if (group == 4) return is_signed ? ir.CreateSExt(v, ints) : ir.CreateZExt(v, ints);
            return ir.CreateBitCast(ir.CreateShl(ir.CreateZExt(v, ints), 16), sum->getType());
        };
        llvm::Value *a = wide(args[1], signed_a), *b = wide(args[2], signed_b);
        sum = group == 4 ? ir.CreateAdd(sum, ir.CreateMul(a, b)) : ir.CreateFAdd(sum, ir.CreateFMul(a, b));
    }
    return sum;
}

// Functions that replace the instructions.
CompileOptions emulated() {
    auto registry = std::make_shared<EmitterRegistry>(EmitterRegistry::builtin());
    registry->add("amx.tdpbf16ps", calling<uint16_t, uint16_t, float>());
    registry->add("amx.tdpbssd", calling<int8_t, int8_t, int32_t>());
    registry->add("amx.tdpbsud", calling<int8_t, uint8_t, int32_t>());
    registry->add("amx.tdpbusd", calling<uint8_t, int8_t, int32_t>());
    registry->add("amx.tdpbuud", calling<uint8_t, uint8_t, int32_t>());
    for (const char *name : {"avx512.vpdpbusd", "avx_vnni.vpdpbusd"}) registry->add(name, dot_products<4, false, true>);
    registry->add("avx512.vdpbf16ps", dot_products<2, false, false>);
    CompileOptions options;
    options.emitters = registry;
    return options;
}

Schedule tiled(const Op &op, const std::string &way, const std::string &parallel = "none") {
    return kumiko::tiled(op, amx(), way, parallel);
}

} // namespace

TEST_CASE("the meaning of the tiles' products is theirs") {
    for (const TileKind &kind : tile_kinds) {
        const Instruction &i = InstructionSet::builtin().get(kind.name);
        INFO(i.name);
        CHECK(i.operations() == 2.0 * 16 * 16 * (kind.a == bf16 ? 32 : 64));
        CHECK(i.available_on(amx()));
        CHECK_FALSE(i.available_on(Machine::named("x86-64-avx512-bf16")));
        std::vector<Buffer<>> in;
        for (const Input &operand : i.meaning.inputs()) {
            in.push_back(make_input(operand, {}));
            fill_random_integers(in.back(), in.size(), operand.type.is_uint() ? 0 : -9, 9);
        }
        const Buffer<> meant(interpret(i.meaning, in));
        Buffer<> c = make_output(i.meaning, "c", {});
        memset(c.data(), 0, 256 * 4);
        const int64_t row = 64;
        const auto run = [&](auto f) { f(c.data(), in[0].data(), in[1].data()); };
        if (kind.a == bf16)
            run([&](void *c, const void *a, const void *b) {
                tile_product(static_cast<float *>(c), row, static_cast<const uint16_t *>(a), row,
                             static_cast<const uint16_t *>(b), row);
            });
        else if (kind.a == i8 && kind.b == i8)
            run([&](void *c, const void *a, const void *b) {
                tile_product(static_cast<int32_t *>(c), row, static_cast<const int8_t *>(a), row,
                             static_cast<const int8_t *>(b), row);
            });
        else if (kind.a == i8)
            run([&](void *c, const void *a, const void *b) {
                tile_product(static_cast<int32_t *>(c), row, static_cast<const int8_t *>(a), row,
                             static_cast<const uint8_t *>(b), row);
            });
        else if (kind.b == i8)
            run([&](void *c, const void *a, const void *b) {
                tile_product(static_cast<int32_t *>(c), row, static_cast<const uint8_t *>(a), row,
                             static_cast<const int8_t *>(b), row);
            });
        else
            run([&](void *c, const void *a, const void *b) {
                tile_product(static_cast<int32_t *>(c), row, static_cast<const uint8_t *>(a), row,
                             static_cast<const uint8_t *>(b), row);
            });
        CHECK(difference(c, meant) == "");
    }
}

TEST_CASE("the library's products hand the right tiles to the instruction") {
    for (const TileKind &kind : tile_kinds) {
        for (const auto &[m, n, k] : {std::tuple(32, 32, 64), std::tuple(48, 16, 128), std::tuple(33, 50, 150),
                                      std::tuple(16, 16, 64), std::tuple(70, 100, 65)}) {
            const Op op = product(kind.a, kind.b, m, n, k);
            CAPTURE(op.to_string());
            const Schedule s = tiled(op, kind.name);
            CHECK(body_of(s).find(std::string("kumiko.inst.") + kind.name) != std::string::npos);
            check_runs(s, {}, emulated());
        }
    }
}

TEST_CASE("batches, transposes, fused ends, sizes at run time, threads") {
    for (bool ta : {false, true}) {
        for (bool tb : {false, true}) {
            ops::MatmulOptions o;
            o.transpose_a = ta, o.transpose_b = tb;
            check_runs(tiled(product(u8, i8, 40, 36, 70, o), "amx.tdpbusd"), {}, emulated());
            o.batch = 2;
            check_runs(tiled(product(bf16, bf16, 36, 40, 70, o), "amx.tdpbf16ps"), {}, emulated());
        }
    }
    ops::MatmulOptions fused;
    fused.bias = true;
    fused.activation = "relu";
    check_runs(tiled(product(bf16, bf16, 40, 50, 64, fused), "amx.tdpbf16ps"), {}, emulated());
    const Op open = product(u8, i8, Size("M"), Size("N"), Size("K"));
    for (const Sizes &sizes : {Sizes{{"M", 40}, {"N", 37}, {"K", 130}}, Sizes{{"M", 16}, {"N", 16}, {"K", 64}},
                               Sizes{{"M", 1}, {"N", 3}, {"K", 2}}})
        check_runs(tiled(open, "amx.tdpbusd"), sizes, emulated());
    for (const char *parallel : {"rows", "columns"})
        check_runs(tiled(product(i8, i8, 70, 100, 200), "amx.tdpbssd", parallel), {}, emulated());
}

TEST_CASE("the code for a processor with AMX multiplies tiles") {
    CodegenOptions options;
    options.target = CpuTarget::level("x86-64-amx");
    for (const TileKind &kind : tile_kinds) {
        const std::string text =
            compile_assembly({lower(tiled(product(kind.a, kind.b, 64, 64, 128), kind.name))}, options);
        INFO(text);
        for (const char *part : {"ldtilecfg", "tileloadd", "tilestored", kind.name + 4})
            CHECK(text.find(part) != std::string::npos);
    }
    // Code for a lower level does not.
    options.target = CpuTarget::level("x86-64-avx512-bf16");
    const Machine less = Machine::named("x86-64-avx512-bf16");
    const Op op = product(bf16, bf16, 64, 64, 128);
    CHECK(compile_assembly({lower(library::matmul(op, less))}, options).find("tile") == std::string::npos);
}

TEST_CASE("small products do not use tiles") {
    const auto way = [](const Op &op) { return std::string(library::matmul_parameters(op, amx()).multiply); };
    CHECK(way(product(bf16, bf16, 15, 64, 64)) == "avx512.vdpbf16ps");
    CHECK(way(product(bf16, bf16, 64, 15, 64)) == "widened");
    CHECK(way(product(bf16, bf16, 64, 64, 31)) == "avx512.vdpbf16ps");
    CHECK(way(product(u8, i8, 64, 64, 63)) == "avx512.vpdpbusd");
    CHECK(way(product(f32, f32, 64, 64, 64)) == "plain");
}

TEST_CASE("one block may cover the complete reduction") {
    Axis i("i", 16), j("j", 16), k("k", 16), g("g", 2);
    Tensor A = input("A", bf16, {i, k, g}), B = input("B", bf16, {k, j, g});
    const Element sums = sum(cast(f32, A(i, k, g)) * cast(f32, B(k, j, g)), {k, g});
    Schedule s(Op("tile", {A, B}, {compute("C", {i, j}, sums)}), amx());
    s.stage("C").tensorize("i", "amx.tdpbf16ps");
    check_runs(s, {}, emulated());
    Schedule ended(Op("ended", {A, B}, {compute("C", {i, j}, sums * 2.f + 1.f)}), amx());
    ended.stage("C.sum").tensorize("i", "amx.tdpbf16ps").finish_in("C");
    check_runs(ended, {}, emulated());
    // Of registers too.
    Axis l("l", 8), p("p", 2);
    Tensor X = input("X", i16, {l, p}), Y = input("Y", i16, {l, p});
    const Op pairs("pairs", {X, Y}, {compute("Z", {l}, sum(cast(i32, X(l, p)) * cast(i32, Y(l, p)), p))});
    Schedule t(pairs, Machine::named("x86-64-avx2"));
    t.stage("Z").tensorize("l", "avx2.vpmaddwd");
    CHECK(body_of(t).find("kumiko.inst.avx2.vpmaddwd") != std::string::npos);
    if (Machine::host().has("avx2")) check_runs(t);
    // All of it, so no loop of it is peeled, before or after.
    const char *why = "loop l is peeled, which divides the block";
    const std::string after = refusal([&] { t.stage("Z").peel("l", 3, 1); });
    CHECK_MESSAGE(after.find(why) != std::string::npos, after);
    Schedule peeled(pairs, Machine::named("x86-64-avx2"));
    peeled.stage("Z").peel("l", 3, 1);
    const std::string before = refusal([&] { peeled.stage("Z").tensorize("l", "avx2.vpmaddwd"); });
    CHECK_MESSAGE(before.find(why) != std::string::npos, before);
}

TEST_CASE("without AMX it is refused") {
    Axis o("o", 3), i("i", 16), j("j", 16), k("k", 16), g("g", 2);
    Tensor A = input("A", bf16, {i, o, k, g}), B = input("B", bf16, {o, k, j, g}), D = input("D", bf16, {o, g, k, j});
    const auto product = [&](const Tensor &b, const Element &read) {
        const Element sums = sum(cast(f32, A(i, o, k, g)) * cast(f32, read), {o, k, g});
        return Op("tiles", {A, b}, {compute("C", {i, j}, sums)});
    };
    const Op op = product(B, B(o, k, j, g));
    const std::vector<LoopName> order = {"o", "i", "j", "k", "g"};
    Schedule s(op, Machine::named("x86-64-avx2"));
    s.stage("C").reorder(order);
    const std::string told = refusal([&] { s.stage("C").tensorize("i", "amx.tdpbf16ps"); });
    CHECK_MESSAGE(told.find("machine x86-64-avx2 does not have the instruction") != std::string::npos, told);
    CHECK(told.find("legal here: avx2.vpmaddubsw, avx2.vpmaddwd") != std::string::npos);
    // In place; not if the pairs are apart.
    Schedule plain(op, amx());
    plain.stage("C").reorder(order).tensorize("i", "amx.tdpbf16ps");
    check_runs(plain, {}, emulated());
    Schedule t(product(D, D(o, g, k, j)), amx());
    t.stage("C").reorder(order);
    const std::string addresses = refusal([&] { t.stage("C").tensorize("i", "amx.tdpbf16ps"); });
    CHECK_MESSAGE(addresses.find("the addresses differ: one step of g moves operand b of the instruction by 1 element; "
                                 "one step of loop g moves D(o, g, k, j) by 256") != std::string::npos,
                  addresses);
    if (!Machine::host().has("amx_tile")) {
        const std::string here = refusal([&] { compile(op, Target::named("x86-64-amx")); });
        CHECK_MESSAGE(here.find("this processor cannot run code for x86-64-amx: it lacks ") != std::string::npos, here);
    }
}

TEST_CASE("a schedule with instructions that the target lacks is refused") {
    const auto told = [](const Op &op, const char *machine, const std::string &target) {
        CodegenOptions options;
        options.target = CpuTarget::level(target);
        const Schedule s = library::matmul(op, Machine::named(machine));
        return refusal([&] { compile_assembly({lower(s)}, options); });
    };
    const Op bytes = product(u8, i8, 64, 64, 64), halves = product(bf16, bf16, 64, 64, 64);
    CHECK(told(bytes, "x86-64-avx512-vnni", "x86-64-avx2") ==
          "kernel " + bytes.name() +
              ": its schedule uses the instruction avx512.vpdpbusd, which needs avx512f, and is compiled for "
              "x86-64-avx2, which lacks that; legal is a schedule made for the machine that is to run it");
    const auto lacks = [&](const Op &op, const char *machine, const std::string &target, const char *feature) {
        const std::string text = told(op, machine, target);
        CHECK_MESSAGE(text.find(std::string("which needs ") + feature) != std::string::npos, text);
    };
    lacks(halves, "x86-64-amx", "x86-64-avx512-bf16", "amx_tile");
    lacks(halves, "x86-64-avx512-bf16", "x86-64-avx512-vnni", "avx512_bf16");
    lacks(bytes, "x86-64-avx2-vnni", "x86-64-avx2", "avx_vnni");
    lacks(bytes, "x86-64-avx512-vnni", "x86-64-avx512", "avx512_vnni");
    lacks(bytes, "x86-64-avx512-vnni", "aarch64-dotprod", "avx512f");
    lacks(bytes, "aarch64-bf16", "aarch64-dotprod", "i8mm");
    lacks(product(i8, i8, 64, 64, 64), "aarch64-dotprod", "aarch64", "dotprod");
    for (const char *same : {"x86-64-avx2", "x86-64-avx2-vnni", "x86-64-avx512-bf16", "x86-64-amx", "aarch64-bf16"})
        CHECK(told(bytes, same, same) == "no error");
    CHECK(told(bytes, "x86-64-avx512-vnni", "x86-64-amx") == "no error");
}

TEST_CASE("products of tiles run where AMX is") {
    const Machine host = Machine::host();
    for (const TileKind &kind : tile_kinds) {
        if (!InstructionSet::builtin().get(kind.name).available_on(host)) {
            MESSAGE("this processor has no ", std::string(kind.name), ": its code is looked at only");
            continue;
        }
        for (const auto &[m, n, k] : {std::tuple(32, 32, 64), std::tuple(33, 50, 150), std::tuple(128, 96, 256)}) {
            const Op op = product(kind.a, kind.b, m, n, k);
            CAPTURE(op.to_string());
            library::MatmulParameters p = library::matmul_parameters(op, host);
            CHECK(std::string(p.multiply) == kind.name);
            check_runs(library::schedule_matmul(op, host, p));
        }
    }
}
