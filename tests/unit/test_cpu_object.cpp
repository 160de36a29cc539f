// Objects, archives, headers, renamed symbols; a C program that links them; targets other than this
// machine.
#include "support/atomic_file.h"
#include "support/error.h"
#include "targets/cpu/object.h"
#include "tests/unit/test_cpu_builders.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace kumiko;
using namespace kumiko::test;
using namespace Halide::Internal;

namespace {

Nest axpy() {
    Nest n;
    n.name = "demo_axpy";
    n.tensors = {tensor("x", Float(32), false, var("n")), tensor("y", Float(32), true, var("n"))};
    n.sizes = {"n"};
    Type v = Float(32, 8);
    Expr at = ramp(var("i") * 8, 8), mask = at < Broadcast::make(var("n"), 8);
    n.body =
        loop("i", 0, (var("n") + 7) / 8, store("y", load(v, "x", at, mask) * 2.f + 1.f, at, mask), ForType::Parallel);
    return n;
}

std::string read(const std::filesystem::path &path) {
    std::ifstream in(path, std::ios::binary);
    std::stringstream s;
    s << in.rdbuf();
    return s.str();
}

std::filesystem::path scratch() {
    auto path = std::filesystem::path(KUMIKO_BINARY_DIR) / "test_cpu_object.scratch";
    std::filesystem::create_directories(path);
    return path;
}

} // namespace

TEST_CASE("a C program links a library with its own runtime under its own prefix") {
    auto folder = scratch();
    std::vector<std::pair<std::string, std::string>> members;
    CodegenOptions options;
    options.runtime_prefix = "demo";
    ObjectFile object = compile_object({axpy()}, options);
    CHECK(object.warnings.empty());
    members.push_back({"kernels.o", object.bytes});
    for (std::string source : {"errors", "memory", "threads"}) {
        std::string out = (folder / (source + ".o")).string();
        std::string command =
            "cc -O1 -fPIC -c -I" KUMIKO_SOURCE_DIR " " KUMIKO_SOURCE_DIR "/runtime/" + source + ".c -o " + out;
        REQUIRE(std::system(command.c_str()) == 0);
        members.push_back({source + ".o", rename_symbols(read(out), {{"kumiko_", "demo_"}})});
    }
    std::string archive = make_archive(members);
    CHECK(archive == make_archive(members));
    HeaderOptions header;
    header.guard = "DEMO_KERNELS_H";
    header.runtime_prefix = "demo";
    write_files_atomically(
        {{(folder / "libdemo.a").string(), archive}, {(folder / "demo.h").string(), c_header({axpy()}, header)}});
    write_file_atomically((folder / "main.c").string(), R"(
#include "demo.h"
#include <stdio.h>
#include <string.h>
int main(void) {
    float x[100], y[100];
    void *tensors[2];
    int64_t n = 100;
    for (int i = 0; i < 100; i++) x[i] = i;
    if (demo_axpy(x, y, 100)) return 1;
    for (int i = 0; i < 100; i++) if (y[i] != 2.f * i + 1.f) return 2;
    memset(y, 0, sizeof y);
    tensors[0] = x, tensors[1] = y;
    if (demo_axpy_packed(tensors, &n) || y[99] != 199.f) return 3;
    if (demo_axpy(NULL, y, 100) != 1) return 4;
    if (strcmp(demo_error(), "demo_axpy: tensor x is a null pointer")) return 5;
    if (demo_axpy_packed(NULL, &n) != 1) return 6;
    if (strcmp(demo_error(), "demo_axpy_packed: the array of tensors is a null pointer")) return 7;
    if (demo_axpy_packed(tensors, NULL) != 1) return 8;
    if (strcmp(demo_error(), "demo_axpy_packed: the array of sizes is a null pointer")) return 9;
    return 0;
}
)");
    std::string f = folder.string();
    REQUIRE(std::system(("cc -std=c99 -Wall -Wextra -Werror -pedantic " + f + "/main.c -o " + f + "/main " + f +
                         "/libdemo.a -lpthread -lm")
                            .c_str()) == 0);
    CHECK(std::system((f + "/main").c_str()) == 0);
    REQUIRE(std::system(("nm " + f + "/libdemo.a > " + f + "/symbols.txt").c_str()) == 0);
    CHECK(read(folder / "symbols.txt").find("kumiko") == std::string::npos);
    std::filesystem::remove_all(folder);
}

TEST_CASE("a header says types and shapes") {
    Nest n = axpy();
    n.name = "k";
    n.tensors[0].type = BFloat(16);
    n.tensors.insert(n.tensors.begin(), {"W.L2", Float(16), false, {var("n"), Expr(3)}, {Expr(5), Expr(1)}});
    n.assumptions = {{var("n") > 0, "n > 0"}};
    std::string h = c_header({n});
    CHECK(h.find("int k(const uint16_t *W_L2, const uint16_t *x, float *y, int64_t n);") != std::string::npos);
    CHECK(h.find(" *   W_L2  in  float16 bits[n, 3], strides [5, 1] in elements\n") != std::string::npos);
    CHECK(h.find(" *   x     in  bfloat16 bits[n]\n") != std::string::npos);
    CHECK(h.find(" *   requires n > 0\n") != std::string::npos);
    // Names that are reserved in C or defined by its standard headers.
    n.tensors[0].name = "NULL";
    n.sizes = {"EOF", "size_t", "for", "INT_MAX", "_Bool", "constexpr", "__LINE__"};
    h = c_header({n});
    CHECK(h.find("(const uint16_t *NULL_, const uint16_t *x, float *y, int64_t EOF_, int64_t size_t_, int64_t for_, "
                 "int64_t INT_MAX_, int64_t _Bool_, int64_t constexpr_, int64_t __LINE___);") != std::string::npos);
}

TEST_CASE("every level compiles, with and without an operating system") {
    for (const std::string &level : CpuTarget::level_names()) {
        for (const char *suffix : {"", "-freestanding"}) {
            CAPTURE(level);
            CodegenOptions options;
            options.target = CpuTarget::level(level + suffix);
            CHECK(options.target.freestanding() == (*suffix != 0));
            CHECK(CpuTarget::from_json(options.target.to_json()) == options.target);
            Nest n = axpy();
            Nest math = axpy();
            math.name = "math";
            Type v = Float(32, 8);
            Expr at = ramp(var("i") * 8, 8);
            Expr e = load(v, "x", at);
            for (const char *f : {"exp", "log", "tanh", "erf", "sigmoid", "sin"}) {
                e = Call::make(v, std::string(f) + "_f32", {e}, Call::PureExtern);
            }
            e = Cast::make(v, Cast::make(Float(16, 8), e)) + Cast::make(v, Cast::make(BFloat(16, 8), e));
            math.body = loop("i", 0, var("n") / 8, store("y", e, at));
            ObjectFile object = compile_object({n, math}, options);
            CHECK(object.bytes.substr(1, 3) == "ELF");
            // Only the runtime's hooks: f32 math and 16-bit floats need no library.
            CHECK(fmt::format("{}", fmt::join(undefined_symbols(object.bytes), " ")) ==
                  "kumiko_fail kumiko_parallel_for");
        }
    }
    CHECK_THROWS_AS(CpuTarget::level("x86-64-avx1024"), UserError);
    CHECK_THROWS_AS(CpuTarget::from_json("{\"name\": 3"), UserError);
}

TEST_CASE("a 14x32 tile on AVX-512 spills nothing") {
    CodegenOptions options;
    options.target = CpuTarget::level("x86-64-avx512");
    Nest n;
    n.name = "tile";
    n.tensors = {tensor("A", Float(32), false, var("K") * 14), tensor("B", Float(32), false, var("K") * 32),
                 tensor("C", Float(32), true, 14 * 32)};
    n.sizes = {"K"};
    std::vector<Stmt> begin, step, end;
    Type v = Float(32, 32);
    for (int i = 0; i < 14; i++) {
        Expr at = ramp(i * 32, 32);
        begin.push_back(store("acc", make_zero(v), at));
        step.push_back(store("acc",
                             load(v, "acc", at) + Broadcast::make(load(Float(32), "A", var("k") * 14 + i), 32) *
                                                      load(v, "B", ramp(var("k") * 32, 32)),
                             at));
        end.push_back(store("C", load(v, "acc", at), at));
    }
    n.body = allocate("acc", Float(32), Halide::MemoryType::Register, {14 * 32},
                      Block::make({Block::make(begin), loop("k", 0, var("K"), Block::make(step)), Block::make(end)}));
    std::string text = compile_assembly({n}, options);
    size_t fma = 0, spills = 0;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        fma += line.find("vfmadd") != std::string::npos;
        spills += line.find("zmm") != std::string::npos && line.find("rsp") != std::string::npos;
    }
    CHECK(fma == 28);
    CHECK(spills == 0);
    options.contract = false;
    CHECK(compile_assembly({n}, options).find("vfmadd") == std::string::npos);
}

TEST_CASE("products and sums of f16 are one instruction where the processor computes in f16") {
    Nest n;
    n.name = "axpy";
    n.tensors = {tensor("X", Float(16), false, 32), tensor("Y", Float(16), true, 32)};
    const Expr at = ramp(0, 32), x = load(Float(16, 32), "X", at);
    n.body = store("Y", x * x + x, at);
    CodegenOptions options;
    options.target = CpuTarget::level("x86-64-amx");
    const std::string one = compile_assembly({n}, options);
    CHECK(one.find("vfmadd") != std::string::npos);
    CHECK(one.find("vcvt") == std::string::npos);
    options.contract = false;
    const std::string two = compile_assembly({n}, options);
    CHECK(two.find("vfmadd") == std::string::npos);
    CHECK(two.find("vmulph") != std::string::npos);
    // Elsewhere each operation rounds.
    options.contract = true;
    options.target = CpuTarget::level("x86-64-avx512-bf16");
    CHECK(compile_assembly({n}, options).find("vfmadd") == std::string::npos);
    options.target = CpuTarget::level("aarch64-bf16");
    CHECK(compile_assembly({n}, options).find("fmla") != std::string::npos);
}

TEST_CASE("links are followed, and pipes and devices written into") {
    const auto folder = scratch();
    const std::filesystem::path kept = folder / "kept.txt", link = folder / "link.txt", pipe = folder / "pipe";
    write_file_atomically(kept.string(), "first");
    std::filesystem::create_symlink("kept.txt", link);
    write_file_atomically(link.string(), "second");
    CHECK(std::filesystem::is_symlink(link));
    CHECK(read(kept) == "second");
    REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
    const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
    write_file_atomically(pipe.string(), "through");
    char got[8] = {};
    CHECK(::read(reader, got, 7) == 7);
    CHECK(std::string(got) == "through");
    close(reader);
    CHECK(std::filesystem::is_fifo(pipe));
    std::filesystem::remove_all(folder);
    write_file_atomically("/dev/null", "gone");
    CHECK(std::filesystem::is_character_file("/dev/null"));
}

TEST_CASE("a failed write leaves no file") {
    CHECK_THROWS_AS(write_file_atomically("/nonexistent/folder/x.a", "bytes"), UserError);
    if (std::filesystem::exists("/dev/full")) {
        auto folder = scratch();
        std::filesystem::path target = folder / "kept.txt";
        write_file_atomically(target.string(), "first");
        CHECK_THROWS_AS(write_files_atomically({{target.string(), "second"}, {"/nonexistent/folder/y", "z"}}),
                        UserError);
        CHECK(read(target) == "first");
        CHECK(std::distance(std::filesystem::directory_iterator(folder), {}) == 1);
        std::filesystem::remove_all(folder);
    }
}

TEST_CASE("names of C functions are refused in libraries") {
    Nest n = axpy();
    n.name = "exp";
    CHECK_THROWS_AS(compile_object({n}, {}), UserError);
    // to read, not to link
    CHECK(compile_assembly({n}, {}).find("exp_kernel:") != std::string::npos);
}
