// Libraries from a C programmer's view: written, compiled against with cc, linked, run.
#include "driver/library.h"
#include "driver/runtime_objects.h"
#include "schedules/schedule.h"
#include "support/atomic_file.h"
#include "support/error.h"
#include "support/json.h"
#include "tests/e2e/shell.h"

#include <doctest/doctest.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <sys/resource.h>

using namespace kumiko;
using namespace kumiko::e2e;
namespace fs = std::filesystem;

namespace {

fs::path scratch(const std::string &name) { return e2e::scratch("test_driver_library", name); }

LibraryDescription small(const std::string &name) {
    return LibraryDescription::from_json(parse_json(R"({"name": ")" + name + R"(", "version": "2.1", "kernels": [
        {"name": "mm", "op": "matmul", "parameters": {"m": 20, "n": 33, "k": 17, "bias": true, "activation": "relu"}},
        {"name": "any_mm", "op": "matmul", "parameters": {"m": "M", "n": "N", "k": "K"}, "test_sizes": {"M": 7, "N": 30}},
        {"op": "softmax", "parameters": {"m": 5, "n": 19}},
        {"op": "conv2d", "parameters": {"c": 3, "h": 9, "w": 8, "o": 4, "padding": 1}},
        {"name": "i8mm", "op": "matmul", "type": "i8", "parameters": {"m": 6, "n": 10, "k": 12}},
        {"name": "h", "op": "gelu", "type": "f16", "parameters": {"n": 70}},
        {"name": "b", "op": "silu", "type": "bf16", "parameters": {"n": 70}},
        {"name": "d", "op": "exp", "type": "f64", "parameters": {"n": "n"}}]})",
                                                    "test"),
                                         "test");
}

const char *program = R"(
#include "first.h"
#include "second.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
int main(void) {
    float x[5 * 19], y[5 * 19], z[5 * 19];
    void *tensors[] = {x, z};
    for (int i = 0; i < 5 * 19; i++) x[i] = (float)(i % 7) - 3;
    if (first_softmax(x, y) || second_softmax(x, z)) return 1;
    for (int r = 0; r < 5; r++) {
        double sum = 0;
        for (int i = 0; i < 19; i++) sum += exp(x[19 * r + i]);
        for (int i = 0; i < 19; i++) if (fabs(y[19 * r + i] - exp(x[19 * r + i]) / sum) > 1e-6) return 2;
    }
    if (memcmp(y, z, sizeof y)) return 3;
    /* Errors and threads belong to each library alone. */
    if (first_softmax(NULL, y) == 0 || !strstr(first_error(), "X") || strlen(second_error())) return 4;
    if (first_any_mm(x, x, z, -1, 1, 1) == 0) return 5;
    first_set_num_threads(1);
    second_set_num_threads(3);
    if (FIRST_ABI_VERSION != first_abi_version() || strcmp(FIRST_VERSION, "2.1")) return 6;
    if (second_softmax_packed(tensors, NULL) || memcmp(y, z, sizeof y)) return 7;
    first_shutdown_threads();
    puts("fine");
    return 0;
}
)";

} // namespace

TEST_CASE("two libraries link into one C program, and each checks itself") {
    const fs::path folder = scratch("two");
    std::string text;
    for (const std::string name : {"first", "second"}) {
        const LibraryReport report = build_library(small(name), folder);
        CHECK(report.files.size() == 7);
        const std::string at = (folder / name).string(), archive = (folder / ("lib" + name + ".a")).string();
        must_run("cc -std=c99 -pedantic -Wall -Wextra -Werror -O1 " + at + "_selftest.c " + archive +
                 " -lm -lpthread -o " + at + "_selftest");
        CHECK(run(at + "_selftest", text) == 0);
        CHECK(text.starts_with(name + ": 8 functions, "));
        CHECK(text.ends_with(" samples: 8 passed, 0 failed\n"));
        must_run("c++ -fsyntax-only -Wall -x c++ " + at + ".h");
        must_run("cc -std=c99 -pedantic -Wall -Werror -fsyntax-only -x c " + at + ".h");
    }
    write_file_atomically((folder / "main.c").string(), program);
    const std::string at = folder.string();
    must_run("cc -O1 -Wall " + at + "/main.c -I" + at + " " + at + "/libfirst.a " + at +
             "/libsecond.a -lm -lpthread -o " + at + "/main");
    CHECK(run(at + "/main", text) == 0);
    CHECK(text == "fine\n");
    // The library defines only its own names.
    CHECK(run("nm -g --defined-only " + at + "/libfirst.a", text) == 0);
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        const size_t space = line.rfind(' ');
        if (space == std::string::npos || line.back() == ':') continue;
        CHECK_MESSAGE(line.substr(space + 1).starts_with("first_"), line);
    }
}

TEST_CASE("a self-test notices a wrong kernel") {
    const fs::path folder = scratch("wrong");
    LibraryDescription d = small("lib");
    d.kernels.resize(1, d.kernels[0]);
    build_library(d, folder);
    std::string source = read(folder / "lib_selftest.c"), text;
    const size_t at = source.find("{0, ");
    REQUIRE(at != std::string::npos);
    source.insert(at + 4, "1e3 + ");
    write_file_atomically((folder / "lib_selftest.c").string(), source);
    must_run("cc -O1 " + (folder / "lib_selftest.c").string() + " " + (folder / "liblib.a").string() +
             " -lm -lpthread -o " + (folder / "t").string());
    CHECK(run((folder / "t").string(), text) == 1);
    CHECK(text.find("lib_mm: element 0 of C is ") != std::string::npos);
    CHECK(text.ends_with("lib: 1 functions, 1 samples: 0 passed, 1 failed\n"));
}

TEST_CASE("the same description gives the same bytes, and the manifest says what is inside") {
    const fs::path a = scratch("a"), b = scratch("b");
    const LibraryDescription d = small("same");
    const LibraryReport report = build_library(d, a);
    build_library(d, b);
    for (const auto &[name, purpose] : report.files) CHECK_MESSAGE(read(a / name) == read(b / name), name);
    const Json manifest = load_json((a / "manifest.json").string());
    CHECK(manifest["kernels"].size() == 8);
    CHECK(manifest["kernels"][0]["symbol"] == "same_mm");
    CHECK(manifest["kernels"][0]["op"] == "matmul");
    CHECK(manifest["kernels"][0]["tensors"][2]["name"] == "bias");
    CHECK(manifest["kernels"][0]["targets"][0]["target"] == "host");
    CHECK(manifest["kernels"][0]["targets"][0]["schedule"]["origin"] == "default");
    CHECK(manifest["kernels"][1]["sizes"] == Json({"M", "N", "K"}));
    CHECK(manifest["kernels"][1]["arguments"] == Json({"A", "B", "C", "M", "N", "K"}));
    Schedule::from_json(d.kernels[0].op, Machine::host(),
                        nlohmann::json(manifest["kernels"][0]["targets"][0]["schedule"]["directives"]));
}

TEST_CASE("CMake and pkg-config find a library where it lies") {
    const fs::path folder = scratch("found");
    const std::string at = folder.string();
    std::string text;
    build_library(small("found"), folder / "lib");
    write_file_atomically(
        at + "/main.c",
        "#include <found.h>\nint main(void) { float x[95] = {0}, y[95]; return found_softmax(x, y); }\n");
    if (run("pkg-config --version", text) == 0) {
        must_run("cc " + at + "/main.c $(PKG_CONFIG_PATH=" + at + "/lib pkg-config --cflags --libs found) -o " + at +
                 "/main && " + at + "/main");
    }
    write_file_atomically(at + "/CMakeLists.txt",
                          "cmake_minimum_required(VERSION 3.16)\nproject(p C)\n"
                          "find_package(found 2.0 CONFIG REQUIRED PATHS ${CMAKE_SOURCE_DIR}/lib NO_DEFAULT_PATH)\n"
                          "add_executable(p main.c)\ntarget_link_libraries(p found::found)\n");
    must_run("cmake -S " + at + " -B " + at + "/build && cmake --build " + at + "/build && " + at + "/build/p");
}

TEST_CASE("the header says of every argument what it is and what is legal") {
    const fs::path folder = scratch("header");
    build_library(small("doc"), folder);
    const std::string header = read(folder / "doc.h");
    for (const char *part :
         {" *   C(i, j) = sum over k: A(i, k) * B(k, j)\n", " *   A  in  float32[M, K]\n", " *   M  size, 0 to 2147",
          ": rows of C\n", " *   K  size, 0 to 2147", ": extent of the sum\n",
          " *   doc_any_mm_packed: tensors = {A, B, C}, sizes = {M, N, K}\n",
          " *   doc_mm_packed: tensors = {A, B, bias, C}, sizes is not read\n",
          "int doc_any_mm(const float *A, const float *B, float *C, int64_t M, int64_t N, int64_t K);"})
        CHECK_MESSAGE(header.find(part) != std::string::npos, part << "\n" << header);
}

TEST_CASE("a disk that is full leaves nothing half-written") {
    const fs::path folder = scratch("full"), fresh = folder / "fresh";
    const LibraryDescription d = small("small");
    write_file_atomically((folder / "libsmall.a").string(), "what was there before");
    // A limit on file size simulates a full disk: writing fails in the middle.
    rlimit before{};
    getrlimit(RLIMIT_FSIZE, &before);
    rlimit limit = before;
    limit.rlim_cur = 6000;
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    const auto complaint = [&](const fs::path &where) -> std::string {
        try {
            build_library(d, where);
        } catch (const UserError &e) {
            return e.what();
        }
        return "no error";
    };
    const std::string first = complaint(folder), second = complaint(fresh);
    setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, handler);
    CHECK(first.find("cannot write " + (folder / "libsmall.a").string()) != std::string::npos);
    CHECK(first.find("no file was changed") != std::string::npos);
    CHECK(second.find("cannot write") != std::string::npos);
    CHECK(read(folder / "libsmall.a") == "what was there before");
    CHECK(std::distance(fs::directory_iterator(folder), fs::directory_iterator()) == 1);
    CHECK(!fs::exists(fresh));
}
