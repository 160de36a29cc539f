// Lesson 6: ship a library.
//
// A list of kernels becomes a static library with a C header. Programs that link it need nothing
// else of Kumiko. Kernels may be compiled for several processors; at run time the best one is
// selected. "any_shape" makes one C function for all sizes, which dispatches to the kernels for
// special sizes. On the command line:  kumiko build kernels.json -o out
#include "driver/kumiko.h"
#include "support/atomic_file.h"

#include <cstdlib>
#include <iostream>

using namespace kumiko;

const char *const list = R"({
  "name": "mykernels", "version": "1.0.0", "prefix": "",
  "kernels": [
    {"name": "sgemm_64", "op": "matmul", "type": "f32", "parameters": {"m": 64, "n": 64, "k": 64}},
    {"name": "sgemm", "op": "matmul", "type": "f32", "any_shape": true},
    {"op": "softmax", "parameters": {"m": "rows", "n": 128}}
  ]
})";

const char *const program = R"(
#include "mykernels.h"
#include <stdio.h>

static float a[100 * 64], b[64 * 64], c[100 * 64], d[64 * 64];

int main(void) {
    for (int i = 0; i < 100 * 64; i++) a[i] = (float)(i % 7) - 3;
    for (int i = 0; i < 64 * 64; i++) b[i] = (float)(i % 5) - 2;
    int rc = sgemm_64(a, b, d);                                     /* fixed shape: pointers only */
    if (!rc) rc = sgemm(a, 64, b, 64, c, 64, 100, 64, 64);          /* any shape */
    if (rc) { fprintf(stderr, "%s\n", mykernels_error()); return 1; }
    for (int i = 0; i < 64 * 64; i++) if (c[i] != d[i]) return 2;   /* they agree where they meet */
    rc = sgemm(NULL, 64, b, 64, c, 64, 64, 64, 64);                 /* a mistake, at a shape that has a kernel */
    printf("code %d: %s\n", rc, mykernels_error());
    return rc != MYKERNELS_NULL_POINTER;
}
)";

int main() {
    write_file_atomically("lesson_6.json", list);
    LibraryReport report = build_library(LibraryDescription::load("lesson_6.json"), "lesson_6");
    for (const auto &[file, purpose] : report.files) std::cout << file << ": " << purpose << "\n";

    // The library includes a self-test for the machine where it is used.
    write_file_atomically("lesson_6/app.c", program);
    for (const char *source : {"mykernels_selftest.c", "app.c"}) {
        const std::string command =
            "cd lesson_6 && cc -O1 " + std::string(source) + " libmykernels.a -lm -lpthread -o app && ./app";
        if (std::system(command.c_str()) != 0) throw UserError("this failed: " + command);
    }
}
