// Timeout: 300
// `cmake --install` into an empty prefix, and programs of users who have only that: CMake,
// pkg-config, the command.
#include "support/atomic_file.h"
#include "tests/e2e/shell.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace fs = std::filesystem;
using namespace kumiko::e2e;

namespace {

const char *const formula = R"(
using namespace kumiko;

Op group_norm_silu(Expr N, Expr G, Expr C, Expr H, Expr W) {
    Axis n("n", N), g("g", G), c("c", C), y("y", H), x("x", W);
    Tensor X = input("X", f32, {n, g, c, y, x}), scale = input("scale", f32, {g, c});
    Tensor mean = compute("mean", {n, g}, sum(X(n, g, c, y, x), {c, y, x}) / cast<float>(C * H * W));
    Tensor var = compute("var", {n, g}, sum(square(X(n, g, c, y, x) - mean(n, g)), {c, y, x}) / cast<float>(C * H * W));
    Expr z = (X(n, g, c, y, x) - mean(n, g)) * rsqrt(var(n, g) + 1e-5f) * scale(g, c);
    Tensor Y = compute("Y", {n, g, c, y, x}, z / (1.f + exp(-z)));
    return Op("group_norm_silu", {X, scale}, {Y});
}
)";

} // namespace

TEST_CASE("what is installed serves by itself") {
    const fs::path folder = fs::path(KUMIKO_BINARY_DIR) / "test_driver_install.scratch", prefix = folder / "prefix";
    fs::remove_all(folder);
    fs::create_directories(folder);
    must_run("cmake --install " KUMIKO_BINARY_DIR " --prefix " + prefix.string());
    // Moved after installation: nothing may depend on the path.
    fs::rename(prefix, folder / "moved");
    const std::string at = folder.string(), moved = at + "/moved";

    // Story 1, by CMake.
    kumiko::write_file_atomically(at + "/main.cpp",
                                  std::string("#include <kumiko/kumiko.h>\n#include <iostream>\n") + formula + R"(
int reversed(void *const *arrays, const int64_t *extents, const int64_t *) {
    const auto *from = static_cast<const float *>(arrays[0]);
    auto *to = static_cast<float *>(arrays[1]);
    for (int64_t i = 0; i < extents[0]; i++) to[i] = from[extents[0] - 1 - i];
    return 0;
}

int main(int argc, char **argv) {
    act_as_measurer(argc, argv);
    Op op = group_norm_silu(2, 8, 4, 32, 32);
    std::cout << op;
    Buffer<float> x = random({2, 8, 4, 32, 32}), s = random({8, 4}), y({2, 8, 4, 32, 32});
    Kernel k = compile(op, Target::host());
    k(x, s, y);
    check_close(y, interpret(op, x, s));
    std::cout << "right\n";

    // Tuning, in the measurer that is installed, and a library for C.
    Op small = group_norm_silu(1, 2, 2, 4, 16);
    TuneOptions options;
    options.trials = 2, options.final_seconds = 0, options.database = "tuned.db";
    std::cout << "tuned: " << (tune(small, Target::host(), options).seconds() > 0) << "\n";
    Axis i("i", 64);
    Tensor X = input("X", f32, {i}), R = extern_stage("R", f32, {i}, {X}, {"reversed", reversed});
    Op calling("calling", {X}, {compute("Z", {i}, R(i) * 2)});
    std::cout << "calling, tuned: " << (tune(calling, Target::host(), options).seconds() > 0) << "\n";
    LibraryDescription library;
    library.name = "norms";
    library.database = "tuned.db";
    library.kernels.push_back({.name = "small", .op = small});
    build_library(library, "norms");
}
)");
    kumiko::write_file_atomically(at + "/CMakeLists.txt",
                                  "cmake_minimum_required(VERSION 3.25)\nproject(story C CXX)\n"
                                  "find_package(Kumiko 0.1 REQUIRED)\n"
                                  "add_executable(story main.cpp)\ntarget_link_libraries(story Kumiko::kumiko)\n"
                                  "add_library(myops MODULE ops.cpp)\ntarget_link_libraries(myops Kumiko::ops)\n");
    kumiko::write_file_atomically(at + "/ops.cpp",
                                  std::string("#include <kumiko/ops/export.h>\n") + formula +
                                      "KUMIKO_EXPORT_OPS(KUMIKO_OP(group_norm_silu, \"mine\", N, G, C, "
                                      "H, W))\n");
    must_run("cmake -S " + at + " -B " + at + "/build -DCMAKE_PREFIX_PATH=" + moved + " && cmake --build " + at +
             "/build");
    const std::string said = must_run("cd " + at + " && build/story");
    CHECK(said.find("right\ntuned: 1\n") != std::string::npos);
    CHECK(said.find("calling, tuned: 1\n") != std::string::npos);
    kumiko::write_file_atomically(at + "/app.c", "#include \"norms.h\"\n#include <stdio.h>\n"
                                                 R"(static float x[1 * 2 * 2 * 4 * 16], s[2 * 2], y[1 * 2 * 2 * 4 * 16];
int main(void) {
    if (norms_small(x, s, y)) fprintf(stderr, "%s\n", norms_error());
    printf("norm of zeros: %g\n", y[0]);
    return 0;
}
)");
    CHECK(must_run("cd " + at + " && cc app.c -Inorms norms/libnorms.a -lm -lpthread -o app && ./app") ==
          "norm of zeros: 0\n");
    CHECK(said.find("group_norm_silu(X, scale) -> Y") == 0);
    CHECK(said.find("right\n") != std::string::npos);

    // Story 5: the command, and ops of a user.
    const std::string tuned = must_run("cd " + at +
                                       " && moved/bin/kumiko tune ./build/libmyops.so:group_norm_silu "
                                       "--shape N=1,G=2,C=2,H=4,W=16 --trials 2 --quiet");
    CHECK(tuned.find("kept in tuning.db") != std::string::npos);

    // Without CMake: the flags come from the package.
    std::string text;
    if (run("pkg-config --version", text) != 0) return;
    const std::string ask = "PKG_CONFIG_PATH=" + moved + "/lib/pkgconfig pkg-config ";
    CHECK(must_run(ask + "--cflags kumiko-ops").find("-std=c++20") != std::string::npos);
    // The program of the README, verbatim.
    std::ifstream readme(KUMIKO_SOURCE_DIR "/README.md");
    std::string program;
    bool inside = false;
    for (std::string line; std::getline(readme, line);) {
        if (inside && line == "```") break;
        if (inside) program += line + "\n";
        inside = inside || line == "```cpp";
    }
    REQUIRE(program.find("<kumiko/kumiko.h>") != std::string::npos);
    kumiko::write_file_atomically(at + "/small.cpp", program);
    must_run("c++ " + at + "/small.cpp $(" + ask + "--cflags --libs kumiko) -o " + at + "/small && " + at + "/small");
    // Halide's own header goes along, before and after ours; so do the headers that kumiko.h leaves
    // out.
    std::string headers;
    for (const char *name : {"kumiko/kumiko.h", "Halide.h", "kumiko/ops/registry.h",
                             "kumiko/schedules/library/library.h", "kumiko/schedules/primitive.h",
                             "kumiko/support/json.h", "kumiko/targets/chip/compile.h", "kumiko/targets/cpu/emit.h"})
        headers += std::string("#include <") + name + ">\n";
    kumiko::write_file_atomically(
        at + "/headers.cpp", headers + "int main() {\n    Halide::Var x;\n    return kumiko::primitives().empty() || "
                                       "kumiko::ops::registry().empty();\n}\n");
    must_run("c++ -O0 " + at + "/headers.cpp $(" + ask + "--cflags --libs kumiko) -o " + at + "/headers && " + at +
             "/headers");
    fs::remove_all(folder); // a Halide is 160 MB
}
