// Tensor instructions through emitters, prefetches, and the reports of a just-in-time module.
#include "support/error.h"
#include "targets/cpu/jit.h"
#include "targets/cpu/object.h"
#include "tests/unit/test_cpu_builders.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <unistd.h>

using namespace kumiko;
using namespace kumiko::test;
using namespace Halide::Internal;

namespace {

Nest dot(const std::string &instruction, Type acc, Type a, Type b) {
    Nest n;
    n.name = "dot";
    n.tensors = {tensor("a", a.element_of(), false, a.lanes()), tensor("b", b.element_of(), false, b.lanes()),
                 tensor("c", acc.element_of(), true, acc.lanes())};
    Expr call = Call::make(
        acc, "kumiko.inst." + instruction,
        {load(acc, "c", ramp(0, acc.lanes())), load(a, "a", ramp(0, a.lanes())), load(b, "b", ramp(0, b.lanes()))},
        Call::PureIntrinsic);
    n.body = store("c", call, ramp(0, acc.lanes()));
    return n;
}

} // namespace

#if __has_include(<llvm/IR/IRBuilder.h>)

#include "targets/cpu/emit.h"

TEST_CASE("a user's instruction") {
    auto registry = std::make_shared<EmitterRegistry>(EmitterRegistry::builtin());
    // acc[i] += sum of a[4i+k] * b[4i+k], in plain LLVM.
    registry->add("dot4", [](llvm::IRBuilder<> &ir, const std::vector<llvm::Value *> &args) {
        auto *wide = llvm::FixedVectorType::get(ir.getInt32Ty(), 16);
        llvm::Value *p = ir.CreateMul(ir.CreateZExt(args[1], wide), ir.CreateSExt(args[2], wide));
        llvm::Value *acc = args[0];
        for (int k = 0; k < 4; k++) {
            acc = ir.CreateAdd(acc, ir.CreateShuffleVector(p, {k, 4 + k, 8 + k, 12 + k}));
        }
        return acc;
    });
    JitOptions options;
    options.codegen.emitters = registry;
    JitModule m({dot("dot4", Int(32, 4), UInt(8, 16), Int(8, 16))}, options);
    uint8_t a[16];
    int8_t b[16];
    int32_t c[4] = {1, 2, 3, 4}, expected[4] = {1, 2, 3, 4};
    for (int i = 0; i < 16; i++) {
        a[i] = uint8_t(200 + i);
        b[i] = int8_t(i - 9);
        expected[i / 4] += a[i] * b[i];
    }
    CHECK(run(m, "dot", {a, b, c}) == 0);
    for (int i = 0; i < 4; i++) {
        CHECK(c[i] == expected[i]);
    }
    CHECK_THROWS_WITH_AS(JitModule({dot("dot5", Int(32, 4), UInt(8, 16), Int(8, 16))}, options),
                         "kernel dot: no emitter is registered for the instruction \"dot5\"; give it one with "
                         "Instruction::emit, or in CompileOptions::emitters",
                         Unsupported);
    registry->add("narrow", [](llvm::IRBuilder<> &ir, const std::vector<llvm::Value *> &args) { return args[1]; });
    CHECK_THROWS_AS(JitModule({dot("narrow", Int(32, 4), UInt(8, 16), Int(8, 16))}, options), UserError);
    registry->add("mixed", [](llvm::IRBuilder<> &ir, const std::vector<llvm::Value *> &args) {
        llvm::Value *sum = ir.CreateAdd(args[0], args[0]);
        llvm::cast<llvm::Instruction>(sum)->setOperand(1, args[1]);
        return sum;
    });
    try {
        JitModule({dot("mixed", Int(32, 4), UInt(8, 16), Int(8, 16))}, options);
        FAIL("no error");
    } catch (const UserError &e) {
        CHECK(std::string(e.what()).starts_with(
            "kernel dot: the emitter of instruction \"mixed\" makes code that LLVM rejects: "));
    }
}

#endif

TEST_CASE("built-in instructions") {
    CodegenOptions options;
    options.target = CpuTarget::level("x86-64-avx512-bf16");
    CHECK(compile_assembly({dot("avx512.vpdpbusd", Int(32, 16), UInt(8, 64), Int(8, 64))}, options).find("vpdpbusd") !=
          std::string::npos);
    CHECK(compile_assembly({dot("avx512.vdpbf16ps", Float(32, 16), BFloat(16, 32), BFloat(16, 32))}, options)
              .find("vdpbf16ps") != std::string::npos);
    JitModule m({dot("fma", Float(32, 8), Float(32, 8), Float(32, 8))});
    float a[8], b[8], c[8];
    for (int i = 0; i < 8; i++) {
        a[i] = float(i), b[i] = 3, c[i] = 1;
    }
    CHECK(run(m, "dot", {a, b, c}) == 0); // fma(c, a, b)
    CHECK(c[5] == 1 * 5 + 3);
}

TEST_CASE("prefetch") {
    Nest n;
    n.name = "ahead";
    n.tensors = {tensor("x", Float(32), false, var("n")), tensor("y", Float(32), true, var("n"))};
    n.sizes = {"n"};
    Expr i = var("i");
    Stmt fetch =
        Evaluate::make(Call::make(Int(32), "kumiko.prefetch", {StringImm::make("x"), i + 64, 3, 0}, Call::Intrinsic));
    n.body = loop("i", 0, var("n"), Block::make(fetch, store("y", load(Float(32), "x", i), i)), ForType::Parallel);
    JitModule m({n});
    CHECK(m.assembly().find("prefetch") != std::string::npos);
    float x[3] = {1, 2, 3}, y[3];
    CHECK(run(m, "ahead", {x, y}, {3}) == 0);
    CHECK(y[2] == 3);
}

TEST_CASE("profilers find the code by name") {
    Nest n;
    n.name = "visible_kernel";
    n.tensors = {tensor("y", Float(32), true, 1)};
    n.body = store("y", Expr(1.f), 0);
    JitOptions options;
    options.perf_map = true;
    options.debugger = true;
    JitModule m({n}, options);
    std::string path = "/tmp/perf-" + std::to_string(getpid()) + ".map";
    std::ifstream in(path);
    std::stringstream text, address;
    text << in.rdbuf();
    address << std::hex << reinterpret_cast<uintptr_t>(m.symbol("visible_kernel"));
    CHECK(text.str().find(address.str() + " ") != std::string::npos);
    CHECK(text.str().find(" visible_kernel\n") != std::string::npos);
    std::filesystem::remove(path);
    float y = 0;
    CHECK(run(m, "visible_kernel", {&y}) == 0);
    CHECK(y == 1);
    CHECK(m.llvm_ir().find("define i32 @visible_kernel") != std::string::npos);
}
