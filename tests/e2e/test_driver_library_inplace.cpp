// Libraries of kernels that update their arguments in place, and of kernels that call a function of
// the program.
#include "driver/library.h"
#include "dsl/extern.h"
#include "dsl/inout.h"
#include "support/atomic_file.h"
#include "support/json.h"
#include "tests/e2e/shell.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

using namespace kumiko;
using namespace kumiko::e2e;
namespace fs = std::filesystem;

namespace {

// Y: the rows of X, each sorted; the same as in the C program below.
int sort_rows(void *const *arrays, const int64_t *extents, const int64_t *strides) {
    for (int64_t i = 0; i < extents[0]; i++) {
        const float *x = static_cast<const float *>(arrays[0]) + i * strides[0];
        float *y = static_cast<float *>(arrays[1]) + i * strides[2];
        std::copy(x, x + extents[1], y);
        std::sort(y, y + extents[1]);
    }
    return 0;
}

const char *program_sort = R"(
#include <stdint.h>
#include <stdlib.h>
int sort_rows(void *const *arrays, const int64_t *extents, const int64_t *strides);
static int compare(const void *a, const void *b) { return (*(float *)a > *(float *)b) - (*(float *)a < *(float *)b); }
int sort_rows(void *const *arrays, const int64_t *extents, const int64_t *strides) {
    for (int64_t i = 0; i < extents[0]; i++) {
        float *y = (float *)arrays[1] + i * strides[2];
        for (int64_t j = 0; j < extents[1]; j++) y[j] = ((const float *)arrays[0])[i * strides[0] + j];
        qsort(y, (size_t)extents[1], sizeof *y, compare);
    }
    return 0;
}
)";

const char *program_main = R"(
#include "ip.h"
#include <stdio.h>
int main(void) {
    float a = 2, x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, y[8] = {8, 7, 6, 5, 4, 3, 2, 1};
    int rc = ip_axpy(&a, x, y);
    for (int i = 0; i < 8; i++) printf("%g ", y[i]);
    printf("%d\n", rc);
    rc = ip_axpy(&a, y, y);
    printf("%s\n", rc ? ip_error() : "no overlap");
    float s[8];
    rc = ip_sorted(y, s);
    for (int i = 0; i < 8; i++) printf("%g ", s[i]);
    printf("%d\n", rc);
    return 0;
}
)";

} // namespace

TEST_CASE("one pointer for an array that is updated, and a function that the program brings") {
    Axis i("i", 8), r("r", 1);
    Tensor a = input("a", f32, {}), X = input("X", f32, {i}), Y = inout("Y", f32, {i});
    const Op axpy("axpy", {a, X, Y}, {update(Y, a() * X(i) + Y(i))});
    Tensor Z = input("Z", f32, {r, i});
    const Op sorted("sorted", {Z}, {extern_stage("S", f32, {r, i}, {Z}, {"sort_rows", sort_rows})});
    LibraryDescription d;
    d.name = "ip";
    d.kernels = {{"axpy", axpy}, {"sorted", sorted}};
    const fs::path folder = scratch("test_driver_library_inplace", "ip");
    const LibraryReport report = build_library(d, folder);
    CHECK((*report.manifest)["kernels"][0]["tensors"][2]["inout"] == true);
    CHECK(read(folder / "ip.h").find("int ip_axpy(const float *a, const float *X, float *Y);") != std::string::npos);

    write_file_atomically((folder / "sort.c").string(), program_sort);
    write_file_atomically((folder / "main.c").string(), program_main);
    const std::string at = folder.string();
    std::string text;
    for (const char *source : {"ip_selftest.c", "main.c"}) {
        const int built = run("cc -std=c11 -Wall -Wextra -Werror -O1 -I" + at + " " + at + "/" + source + " " + at +
                                  "/sort.c " + at + "/libip.a -lm -lpthread -o " + at + "/program",
                              text);
        REQUIRE_MESSAGE(built == 0, text);
        const int status = run(at + "/program", text);
        CHECK_MESSAGE(status == 0, source << "\n" << text);
    }
    CHECK(text == "10 11 12 13 14 15 16 17 0\n"
                  "ip_axpy: output Y overlaps X in memory\n"
                  "10 11 12 13 14 15 16 17 0\n");
}
