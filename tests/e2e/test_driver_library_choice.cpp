// Libraries whose C functions dispatch by processor features and by sizes, and libraries that take
// packed inputs.
#include "driver/library.h"
#include "driver/runtime_objects.h"
#include "ops/registry.h"
#include "schedules/schedule.h"
#include "support/atomic_file.h"
#include "support/error.h"
#include "support/json.h"
#include "tests/e2e/shell.h"
#include "tests/unit/refusal.h"

#include <doctest/doctest.h>

#include <filesystem>

using namespace kumiko;
using namespace kumiko::e2e;
namespace fs = std::filesystem;

namespace {

fs::path scratch(const std::string &name) { return e2e::scratch("test_driver_library_choice", name); }

// Compiles a C program against the library in `folder`, runs it, and returns its output; it must
// succeed.
std::string output_of(const fs::path &folder, const std::string &library, const std::string &program) {
    write_file_atomically((folder / "main.c").string(), program);
    const std::string at = folder.string();
    std::string text;
    const std::string archive = at + "/lib" + library + ".a";
    for (const std::string &source : {at + "/" + library + "_selftest.c", at + "/main.c"}) {
        const int built = run("cc -std=c11 -Wall -Wextra -Werror -O1 -I" + at + " " + source + " " + archive +
                                  " -lm -lpthread -o " + at + "/program",
                              text);
        REQUIRE_MESSAGE(built == 0, text);
        const int status = run(at + "/program", text);
        CHECK_MESSAGE(status == 0, source << "\n" << text);
    }
    return text;
}

LibraryDescription description(const std::string &text) {
    return LibraryDescription::from_json(parse_json(text, "test"), "test");
}

bool contains(const std::string &text, const std::string &part) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
    return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("a function runs the best kernel that the processor can, and refuses where there is none") {
    if (runtime_architecture() != "x86_64") return;
    const fs::path folder = scratch("levels");
    const LibraryReport report = build_library(
        description(R"({"name": "lv", "targets": ["x86-64-avx2", "x86-64-avx512", "x86-64-sse4.2"], "kernels": [
            {"name": "mm", "op": "matmul", "parameters": {"m": 9, "n": 33, "k": 12}},
            {"name": "wide", "op": "relu", "parameters": {"n": 100}, "targets": ["x86-64-avx512", "x86-64-avx2"]}]})"),
        folder);
    // The most demanding kernel comes first; each names its reason.
    const Json &kernels = (*report.manifest)["kernels"];
    REQUIRE(kernels[0]["targets"].size() == 3);
    CHECK(kernels[0]["targets"][0]["target"] == "x86-64-avx512");
    CHECK(kernels[0]["targets"][2]["target"] == "x86-64-sse4.2");
    CHECK(kernels[1]["targets"].size() == 2);
    CHECK((*report.manifest)["targets"].size() == 3);
    contains(read(folder / "lv.h"), "for x86-64-avx512, x86-64-avx2, x86-64-sse4.2");

    const std::string text = output_of(folder, "lv", R"(
#include "lv.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>
static uint64_t without;
static uint64_t less(uint64_t detected) { return detected & ~without; }
static float a[9 * 12], b[12 * 33], c[4][9 * 33], x[100], y[100];
static void *call(void *unused) {
    for (int i = 0; i < 1000; i++) if (lv_mm(a, b, c[3])) return unused;
    return a;
}
int main(void) {
    pthread_t threads[4];
    for (int i = 0; i < 9 * 12; i++) a[i] = (float)(i % 5) - 2;
    for (int i = 0; i < 12 * 33; i++) b[i] = (float)(i % 7) - 3;
    if (!lv_cpu_feature("avx512f") || lv_cpu_feature("avx513f") || lv_cpu_feature(NULL)) return 1;
    if (lv_mm(a, b, c[0])) return 2;
    if (lv_set_cpu_features(less)) return 3;
    without = lv_cpu_feature("avx512vl");
    if (lv_mm(a, b, c[1]) || lv_wide(x, y)) return 4;
    without |= lv_cpu_feature("fma");
    if (lv_mm(a, b, c[2]) || memcmp(c[0], c[1], sizeof c[0]) || memcmp(c[0], c[2], sizeof c[0])) return 5;
    if (lv_wide(x, y) != LV_MISSING_FEATURE) return 6;
    puts(lv_error());
    without = ~(uint64_t)0;
    if (lv_mm(a, b, c[2]) != LV_MISSING_FEATURE) return 7;
    puts(lv_error());
    if (lv_set_cpu_features(NULL) != less || lv_wide(x, y)) return 8;
    for (int t = 0; t < 4; t++) pthread_create(&threads[t], NULL, call, NULL);
    for (int t = 0; t < 4; t++) {
        void *result;
        pthread_join(threads[t], &result);
        if (!result) return 9;
    }
    return 0;
}
)");
    CHECK(text == "lv_wide: this processor lacks fma, for which the kernel was built\n"
                  "lv_mm: this processor lacks sse3, ssse3, sse4.1, sse4.2, popcnt, for which the kernel was built\n");
    // Which one ran, as in a debugger: the code of each level has a name of its own.
    std::string symbols;
    CHECK(run("nm " + (folder / "liblv.a").string(), symbols) == 0);
    for (const char *level : {"lv_mm.x86-64-avx512", "lv_mm.x86-64-avx2", "lv_mm.x86-64-sse4.2", "lv_wide.x86-64-avx2"})
        contains(symbols, std::string(" T ") + level);
}

TEST_CASE("with less and less of the processor, each lesser kernel is entered in turn, and none above") {
    if (runtime_architecture() != "x86_64") return;
    const fs::path folder = scratch("masks");
    const std::vector<std::string> levels = {"x86-64-sse4.2",      "x86-64-avx2",        "x86-64-avx512",
                                             "x86-64-avx512-vnni", "x86-64-avx512-bf16", "x86-64-amx"};
    std::string targets;
    for (const std::string &l : levels) targets += (targets.empty() ? "\"" : ", \"") + l + "\"";
    build_library(description(R"({"name": "mk", "targets": [)" + targets + R"(], "kernels": [
            {"name": "mm", "op": "matmul", "type": "bf16", "parameters": {"m": 40, "n": 32, "k": 64}}]})"),
                  folder);
    // The program's functions replace the kernels, so that it may claim features that the processor
    // lacks.
    const std::string text = output_of(folder, "mk", R"(
#include "mk.h"
#include <stdio.h>
static int ran;
#define KERNEL(n, level) \
    int fake##n(void); \
    int fake##n(void) { ran = n; return 0; } \
    __asm__(".globl \"mk_mm." level "\"\n.set \"mk_mm." level "\", fake" #n);
KERNEL(1, "x86-64-sse4.2")
KERNEL(2, "x86-64-avx2")
KERNEL(3, "x86-64-avx512")
KERNEL(4, "x86-64-avx512-vnni")
KERNEL(5, "x86-64-avx512-bf16")
KERNEL(6, "x86-64-amx")
static uint64_t without;
static uint64_t all_but(uint64_t detected) { (void)detected; return ~(uint64_t)0 >> 1 & ~without; }
static uint16_t a[40 * 64], b[64 * 32], c[40 * 32];
int main(void) {
    if (mk_mm(a, b, c)) return 1;
    if (ran > 5 && !(mk_cpu_features() & mk_cpu_feature("amx-bf16"))) return 2;
    if (ran > 2 && !__builtin_cpu_supports("avx512f")) return 3;
    if (ran > 1 && !__builtin_cpu_supports("avx2")) return 4;
    const char *names[] = {"", "amx-tile", "avx512bf16", "avx512vnni", "avx512f", "avx2", "sse4.2"};
    mk_set_cpu_features(all_but);
    for (int i = 0; i < 7; i++) {
        without |= mk_cpu_feature(names[i]);
        ran = 0;
        const int code = mk_mm(a, b, c);
        printf("%s:%d ", names[i], code ? -code : ran);
    }
    return 0;
}
)");
    CHECK(text == ":6 amx-tile:5 avx512bf16:4 avx512vnni:3 avx512f:2 avx2:1 sse4.2:-9 ");
    // The features of each level.
    for (size_t l = 0; l < levels.size(); l++) {
        std::string code;
        const std::string object = "mm." + levels[l] + ".o";
        REQUIRE(run("cd " + folder.string() + " && ar x libmk.a " + object + " && objdump -d " + object, code) == 0);
        INFO(levels[l]);
        CHECK((code.find("%zmm") != std::string::npos) == (l >= 2));
        if (l < 2) CHECK((code.find("%ymm") != std::string::npos) == (l == 1));
        CHECK((code.find("tdpbf16ps") != std::string::npos) == (l == 5));
        CHECK((code.find("vdpbf16ps") != std::string::npos) == (l == 4)); // tiles are always whole
        if (l == 0) CHECK(code.find("\tv") == std::string::npos);
    }
}

TEST_CASE("the code that chooses runs on any processor") {
    if (runtime_architecture() != "x86_64") return;
    const fs::path folder = scratch("plain");
    build_library(description(R"({"name": "pl", "target": "x86-64-avx512", "kernels": [
        {"name": "mm", "op": "matmul", "parameters": {"m": 64, "n": 64, "k": 64}}]})"),
                  folder);
    std::string text;
    REQUIRE(run("cd " + folder.string() + " && ar x libpl.a mm.o && objdump -d mm.o", text) == 0);
    contains(text, "<pl_mm>:");
    for (const char *wide : {"ymm", "zmm", "vmov", "\tv"}) CHECK_MESSAGE(text.find(wide) == std::string::npos, wide);
}

TEST_CASE("one function for any shape hands sizes on to the kernel made for them") {
    const fs::path folder = scratch("any");
    const LibraryReport report = build_library(description(R"({"name": "any", "prefix": "", "kernels": [
            {"name": "sgemm_32", "op": "matmul", "parameters": {"m": 32, "n": 32, "k": 32}},
            {"name": "sgemm_8_wide", "op": "matmul", "parameters": {"m": "rows", "n": 64, "k": 8}},
            {"name": "sgemm_8_64", "op": "matmul", "parameters": {"m": 4, "n": 64, "k": 8}},
            {"name": "dgemm_32", "op": "matmul", "type": "f64", "parameters": {"m": 32, "n": 32, "k": 32}},
            {"name": "sgemm_relu", "op": "matmul", "parameters": {"m": 32, "n": 32, "k": 32, "activation": "relu"}},
            {"name": "sgemm", "op": "matmul", "type": "f32", "any_shape": true},
            {"name": "rows", "op": "softmax", "any_shape": true},
            {"name": "image", "op": "conv2d", "any_shape": true, "test_sizes": {"C": 4, "H": 9, "W": 8, "O": 5}},
            {"name": "rows_5", "op": "softmax", "parameters": {"m": 5, "n": 7}}]})"),
                                               folder);
    const Json &sgemm = (*report.manifest)["kernels"][5];
    CHECK(sgemm["arguments"] == Json({"A", "lda", "B", "ldb", "C", "ldc", "M", "N", "K"}));
    CHECK(sgemm["picks"] == Json({"sgemm_32", "sgemm_8_64", "sgemm_8_wide"}));
    contains(read(folder / "any.h"), "int sgemm(const float *A, int64_t lda, const float *B, int64_t ldb, float *C, "
                                     "int64_t ldc, int64_t M, int64_t N, int64_t K);");
    const std::string text = output_of(folder, "any", R"(
#include "any.h"
#include <stdio.h>
#include <string.h>
static float a[100 * 100], b[100 * 100], c[100 * 100];
static int check(int lda, int ldb, int ldc, int m, int n, int k) {
    for (int i = 0; i < 100 * 100; i++) c[i] = -77;
    if (sgemm(a, lda, b, ldb, c, ldc, m, n, k)) { puts(any_error()); return 1; }
    for (int i = 0; i < 100 * 100; i++) {
        const int row = i / ldc, column = i % ldc;
        float want = row < m && column < n ? 0 : -77; /* what lies between the rows stays */
        if (row < m && column < n)
            for (int r = 0; r < k; r++) want += a[row * lda + r] * b[r * ldb + column];
        if (c[i] != want) { printf("%d %d %d: element %d is %f, not %f\n", m, n, k, i, c[i], want); return 1; }
    }
    return 0;
}
static void who(int lda, int ldb, int ldc, int m, int n, int k) {
    sgemm(NULL, lda, b, ldb, c, ldc, m, n, k);
    puts(any_error());
}
int main(void) {
    for (int i = 0; i < 100 * 100; i++) a[i] = (float)(i % 5) - 2, b[i] = (float)(i % 7) - 3;
    if (check(32, 32, 32, 32, 32, 32) || check(40, 32, 32, 32, 32, 32) || check(32, 32, 50, 32, 32, 32)) return 1;
    if (check(17, 33, 61, 9, 31, 16) || check(8, 64, 64, 3, 64, 8) || check(100, 100, 100, 100, 100, 100)) return 2;
    if (check(5, 5, 5, 0, 5, 5) || check(1, 1, 1, 1, 1, 1) || check(5, 100, 100, 3, 100, 5)) return 3;
    who(32, 32, 32, 32, 32, 32);
    who(32, 32, 33, 32, 32, 32);
    who(8, 64, 64, 4, 64, 8);
    who(8, 64, 64, 5, 64, 8);
    if (sgemm(a, 32, b, 32, c, 32, (int64_t)1 << 32 | 32, 32, 32) != ANY_BAD_SIZE) return 4;
    puts(any_error());
    if (sgemm(a, 8, b, 8, a + 8, 8, 8, 8, 8) != ANY_BAD_SHAPE) return 5;
    /* Columns of one matrix do not overlap: what factorisations do. */
    for (int i = 0; i < 100 * 100; i++) c[i] = (float)(i % 3);
    if (sgemm(c, 100, b, 100, c + 20, 100, 30, 50, 20) || c[0] != 0 || c[19] != 1 || c[70] != 1) return 8;
    float sum = 0;
    for (int r = 0; r < 20; r++) sum += c[2 * 100 + r] * b[r * 100 + 3];
    if (c[2 * 100 + 23] != sum) return 9;
    if (sgemm(c + 20, 100, b, 100, c, 100, 30, 20, 10)) return 10;
    if (sgemm(c, 100, b, 100, c + 19, 100, 30, 50, 20) != ANY_BAD_SHAPE) return 11;
    if (sgemm(c, 100, b, 100, c + 60, 100, 30, 50, 20) != ANY_BAD_SHAPE) return 12; /* goes round */
    if (sgemm(c, 100, b, 100, c + 20, 99, 30, 50, 20) != ANY_BAD_SHAPE) return 13;
    void *tensors[] = {a, b, c};
    int64_t sizes[] = {8, 64, 64, 4, 64, 8};
    if (sgemm_packed(tensors, sizes)) return 6;
    if (sgemm_packed(NULL, sizes) != ANY_NULL_POINTER || sgemm_packed(tensors, NULL) != ANY_NULL_POINTER) return 14;
    float x[35], y[35], z[35];
    for (int i = 0; i < 35; i++) x[i] = (float)(i % 3);
    if (rows(x, y, 5, 7) || rows_5(x, z) || memcmp(y, z, sizeof y)) return 7;
    return 0;
}
)");
    CHECK(text == "sgemm_32: tensor A is a null pointer\n"
                  "sgemm: tensor A is a null pointer\n"
                  "sgemm_8_64: tensor A is a null pointer\n"
                  "sgemm_8_wide: tensor A is a null pointer\n"
                  "sgemm: size M is outside [0, 2147483647]\n");
}

TEST_CASE("an input packed ahead of time: a function packs it, another says how large it becomes") {
    const fs::path folder = scratch("packed");
    const auto saved = [](const Op &op) {
        Schedule s(op);
        s.prepack("B", {"j/16", "k", "j%16"}).vectorize("j", 16);
        return s.to_json().dump();
    };
    const Op fixed = ops::make("matmul", {{"m", 7}, {"n", 30}, {"k", 20}}),
             open = ops::make("matmul", {{"m", "M"}, {"n", "N"}, {"k", "K"}});
    const std::string targets =
        runtime_architecture() == "x86_64" ? R"("targets": ["x86-64-avx2", "x86-64-sse4.2"],)" : "";
    const LibraryReport report =
        build_library(description(R"({"name": "pk", )" + targets + R"( "kernels": [
            {"name": "mm", "op": "matmul", "parameters": {"m": 7, "n": 30, "k": 20}, "schedule": )" +
                                  saved(fixed) + R"(},
            {"name": "some", "op": "matmul", "parameters": {"m": "M", "n": "N", "k": "K"}, "schedule": )" +
                                  saved(open) + R"(, "test_sizes": {"M": 5, "N": 37, "K": 9}}]})"),
                      folder);
    const Json &kernels = (*report.manifest)["kernels"];
    CHECK(kernels[0]["packs"] ==
          Json::array({{{"symbol", "pk_mm_pack_B"}, {"input", "B"}, {"sizes", Json::array()}, {"elements", 640}}}));
    CHECK(kernels[0]["tensors"][1]["packed_from"] == "B");
    CHECK(kernels[1]["packs"][0]["elements"].is_null());
    CHECK(kernels[1]["packs"][0]["sizes"] == Json({"N", "K"}));
    // in the op's order
    CHECK(kernels[1]["arguments"] == Json({"A", "B.packed", "C", "M", "N", "K"}));
    const std::string header = read(folder / "pk.h");
    contains(header, "#define PK_MM_PACK_B_ELEMENTS 640\n");
    contains(header, "int64_t pk_mm_pack_B_elements(void);");
    contains(header, "int64_t pk_some_pack_B_elements(int64_t N, int64_t K);");
    output_of(folder, "pk", R"(
#include "pk.h"
#include <stdlib.h>
#include <stdio.h>
int main(void) {
    static float a[7 * 20], b[20 * 30], c[7 * 30], d[7 * 30], packed[PK_MM_PACK_B_ELEMENTS];
    for (int i = 0; i < 7 * 20; i++) a[i] = (float)(i % 5) - 2;
    for (int i = 0; i < 20 * 30; i++) b[i] = (float)(i % 7) - 3;
    if (pk_mm_pack_B_elements() != 640 || pk_some_pack_B_elements(30, 20) != 640) return 1;
    if (pk_some_pack_B_elements(33, 3) != 3 * 48) return 2;
    if (pk_mm_pack_B(b, packed) || pk_mm(a, packed, c)) return 3;
    float *own = malloc((size_t)pk_some_pack_B_elements(30, 20) * sizeof *own);
    if (!own || pk_some_pack_B(b, own, 30, 20) || pk_some(a, own, d, 7, 30, 20)) return 4;
    for (int i = 0; i < 7; i++)
        for (int j = 0; j < 30; j++) {
            float sum = 0;
            for (int k = 0; k < 20; k++) sum += a[i * 20 + k] * b[k * 30 + j];
            if (c[i * 30 + j] != sum || d[i * 30 + j] != sum) return 5;
        }
    free(own);
    if (pk_mm_pack_B(NULL, packed) != PK_NULL_POINTER) return 6;
    return 0;
}
)");
}

TEST_CASE("a convolution whose weights are packed ahead, with the default schedule") {
    const fs::path folder = scratch("ahead");
    const LibraryReport report = build_library(description(R"({"name": "ah", "kernels": [
        {"name": "conv", "op": "conv2d", "parameters": {"c": 8, "h": 5, "w": 5, "o": 16, "padding": 1}, "ahead": true},
        {"name": "mm", "op": "matmul", "parameters": {"m": 8, "n": 64, "k": 32}, "ahead": true,
         "schedule_parameters": {"rows": 1}}]})"),
                                               folder);
    CHECK_EQ((*report.manifest)["kernels"][0]["packs"][0]["symbol"], "ah_conv_pack_W");
    CHECK_EQ((*report.manifest)["kernels"][1]["packs"][0]["symbol"], "ah_mm_pack_B");
    contains(read(folder / "ah.h"), "int ah_conv_pack_W(");
    // Packed bytes may be wider. If targets store them differently, no single function can pack for
    // both.
    const std::string bytes = R"( "kernels": [{"name": "mm", "op": "matmul", "type": "u8", "ahead": true,
        "parameters": {"m": 17, "n": 64, "k": 64, "b_type": "i8", "output": "i32"}}]})";
    const fs::path of_bytes = scratch("ahead_bytes");
    build_library(description(R"({"name": "by",)" + bytes), of_bytes);
    output_of(of_bytes, "by", "int main(void) { return 0; }\n"); // and the self-test
    if (runtime_architecture() != "x86_64") return;
    bool compiled = false;
    LibraryOptions watched;
    watched.progress = [&](size_t, size_t, const std::string &kernel) { compiled |= kernel == "mm"; };
    contains(refusal([&] {
                 build_library(
                     description(R"({"name": "by", "targets": ["x86-64-avx512-vnni", "x86-64-avx2"],)" + bytes),
                     scratch("never"), watched);
             }),
             "packed ahead of time, B is of i8 for x86-64-avx512-vnni and of i16 for x86-64-avx2");
    CHECK_FALSE(compiled); // refused before code is generated
}

TEST_CASE("lists that ask for what cannot be") {
    const auto asked = [](const std::string &library, const std::string &kernel) {
        return refusal([&] {
            build_library(description(R"({"name": "k", )" + library + R"( "kernels": [)" + kernel + "]}"),
                          scratch("never"));
        });
    };
    const std::string relu = R"({"op": "relu", "parameters": {"n": 3}})";
    contains(asked(R"("targets": [],)", relu), "test: /targets: expected the names of targets, at least one");
    contains(asked(R"("target": "host", "targets": ["host"],)", relu), "exclude each other");
    contains(asked(R"("targets": ["x86-64-avx3"],)", relu), "unknown");
    contains(asked(R"("targets": ["x86-64-avx2", "aarch64"],)", relu),
             "the targets x86-64-avx2 and aarch64 cannot be in one library");
    contains(asked(R"("targets": ["x86-64-avx2", "x86-64-avx2"],)", relu), "the target x86-64-avx2 is named twice");
    contains(asked(R"("target": "x86-64-avx2",)", R"({"op": "relu", "parameters": {"n": 3}, "targets": ["aarch64"]})"),
             "another architecture than the library's");
    contains(asked("", R"({"op": "relu", "parameters": {"n": 3}, "any_shape": true})"),
             "no size of op \"relu\" is left open");
    contains(asked("", R"({"op": "relu", "parameters": {"n": 3}, "ahead": true})"),
             "/ahead: no schedule of the library has the caller pack an operand of op \"relu\" ahead of time");
    contains(asked("", R"({"op": "matmul", "any_shape": true, "ahead": true})"),
             "any_shape with an input that is packed");
    contains(asked("", R"({"op": "matmul", "parameters": {"m": 3, "n": 3, "k": 3}, "ahead": true, "schedule": {}})"),
             "\"schedule\" and \"ahead\" exclude each other");
    contains(asked("", R"({"op": "reduce", "any_shape": true})"),
             "any_shape cannot tell how many axes \"shape\" of op");
    contains(asked("", R"({"op": "relu", "parameters": {"n": 3}, "any_shape": 1})"), "/any_shape");
    contains(asked("", R"({"op": "relu", "parameters": {"n": "n"}, "test_sizes": {"m": 3}})"), "has no size \"m\"");
    Schedule s(ops::make("matmul", {{"m", "M"}, {"n", "N"}, {"k", "K"}}));
    s.prepack("B", {"j/16", "k", "j%16"});
    contains(asked("", R"({"op": "matmul", "any_shape": true, "parameters": {"strided": false}, "schedule": )" +
                           s.to_json().dump() + "}"),
             "kernel matmul: any_shape with an input that is packed ahead of time (B)");
}
