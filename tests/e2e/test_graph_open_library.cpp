// Models with sizes in ranges as C libraries: each size gives the evaluator's results, in an arena
// of exactly the stated bytes, in a program with sanitizers.
// Links: graph/build
// Levels: no
// Sanitized: no
// Cost: 40
#include "graph/build/model_library.h"
#include "tests/e2e/shell.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>
#include <fstream>
#include <random>

using namespace kumiko;
using namespace kumiko::e2e;
using namespace kumiko::graph;
namespace fs = std::filesystem;

namespace {

struct Case {
    std::string name, text;
    std::vector<OpenSize> sizes;
    std::vector<std::vector<int64_t>> at;
};

std::string numbers(int count, int period) {
    std::string made;
    for (int n = 0; n < count; n++) made += fmt::format("{}{}", n ? "," : "", (n % period - period / 2) / 4.0);
    return made;
}

std::vector<Case> cases() {
    return {
        {"attention",
         fmt::format(
             "(float[b,s,16] x, float[b,1,s] mask) => (float[b,s,16] y) <float[16,16] w = {{{}}}> {{ q = MatMul(x, w) "
             "t = Transpose <perm = [0, 2, 1]> (x) a = MatMul(q, t) m = Add(a, mask) p = Softmax(m) "
             "r = MatMul(p, x) y = Add(r, x) }}",
             numbers(256, 7)),
         {{"b", 1, 8}, {"s", 1, 40}},
         {{1, 1}, {8, 40}, {3, 17}, {1, 32}}},
        {"image",
         fmt::format(
             "(float[n,3,h,w] x) => (float[n,8,j,k] y) <float[8,3,3,3] f = {{{}}}> {{ a = Conv <strides = [2, 2], "
             "pads = [1, 1, 1, 1]> (x, f) r = Relu(a) p = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> "
             "(r) y = Mul(p, r) }}",
             numbers(216, 9)),
         {{"n", 1, 4}, {"h", 8, 48, 8}, {"w", 8, 48, 8}},
         {{1, 8, 8}, {4, 48, 40}, {2, 24, 48}}},
        {"shrinking", // a value is largest at the least size
         "(float[64,4] x, int64[s] l) => (float[?,4] y) { n = Shape(l) e = Constant <value = int64[1] {64}> () z = "
         "Constant "
         "<value = int64[1] {0}> () t = Slice(x, n, e, z) u = Exp(t) v = Transpose <perm = [1, 0]> (u) w = Softmax(v) "
         "y = Transpose "
         "<perm = [1, 0]> (w) }",
         {{"s", 1, 60}},
         {{1}, {60}, {30}}},
        {"rows",
         "(float[s,4] x, float[4] start, int64[s,1] at) => (float[4] last, float[s,4] y, float[s,1] z) "
         "{ last, y = Scan <num_scan_inputs = 1, body = l (float[4] p, float[4] u) => (float[4] q, float[4] g) "
         "{ h = Constant <value = float {0.5}> () i = Mul(p, h) q = Add(u, i) g = Neg(q) }> (start, x) "
         "z = GatherElements <axis = 1> (x, at) }",
         {{"s", 1, 50}},
         {{1}, {50}, {9}}},
    };
}

Buffer<> input_of(const LibraryTensor &t, const std::vector<int64_t> &variables, uint32_t seed) {
    Buffer<> b(t.type, t.extents_at(variables));
    std::minstd_rand draw(seed + 1);
    for (size_t i = 0; i < b.number_of_elements(); i++) {
        const int value = int(draw() % 33) - 16;
        if (t.type == f32) static_cast<float *>(b.data())[i] = float(value) / 8;
        if (t.type == i64) static_cast<int64_t *>(b.data())[i] = std::abs(value) % 4;
    }
    return b;
}

constexpr const char *common = R"(
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "open.h"

static void *array(size_t bytes) {
    void *a = NULL;
    if (posix_memalign(&a, 64, bytes ? bytes : 1)) exit(2);
    memset(a, 0xff, bytes);
    return a;
}

static void *from_file(FILE *file, size_t bytes) {
    void *a = array(bytes);
    if (fread(a, 1, bytes, file) != bytes) exit(3);
    return a;
}
)";

// A function that runs the model at all sizes, with inputs of a file, and writes the outputs.
std::string runner(const LibraryModel &m, const Case &c, const std::string &given, const std::string &made) {
    std::string big = m.name;
    std::transform(big.begin(), big.end(), big.begin(), [](unsigned char c) { return std::toupper(c); });
    std::string text = fmt::format("static void run_{0}(void) {{\n    FILE *in = fopen(\"{1}\", \"rb\"), *out = "
                                   "fopen(\"{2}\", \"wb\");\n",
                                   m.name, given, made);
    for (const std::vector<int64_t> &sizes : c.at) {
        const std::vector<int64_t> variables = variables_of(m, sizes);
        std::string write, release;
        text += fmt::format(
            "    {{\n        {0}_sizes sizes = {{{1}}};\n        {0}_io io = {{.sizes = &sizes}};\n"
            "        const int64_t bytes = {0}_arena_bytes(&sizes);\n        void *arena = "
            "array((size_t)bytes);\n        if (bytes > {2}_ARENA_BYTES_MOST) puts(\"{0}: a large arena\");\n",
            m.name, fmt::join(sizes, ", "), big);
        for (const LibraryTensor &t : m.inputs) {
            text += fmt::format("        io.{} = from_file(in, {});\n", t.name, t.bytes(variables));
            release += fmt::format("        free((void *)io.{});\n", t.name);
        }
        for (const LibraryTensor &t : m.outputs) {
            text += fmt::format("        io.{} = array({});\n", t.name, t.bytes(variables));
            write += fmt::format("        fwrite(io.{}, 1, {}, out);\n", t.name, t.bytes(variables));
            release += fmt::format("        free(io.{});\n", t.name);
        }
        text += fmt::format(
            "        if ({0}_run(&io, arena, NULL)) puts(open_error());\n{1}{2}        free(arena);\n    }}\n", m.name,
            write, release);
    }
    return text + "    fclose(in);\n    fclose(out);\n}\n";
}

void add_bytes(std::ofstream &file, const Buffer<> &b) {
    const Buffer<> dense = b.copy();
    file.write(static_cast<const char *>(dense.data()), std::streamsize(dense.size_in_bytes()));
}

void check(const std::vector<std::string> &targets, const std::string &folder_name) {
    LibraryDescription library;
    library.name = "open", library.targets = targets;
    const fs::path folder = scratch("graph_open", folder_name);
    std::string text = common, calls;
    std::vector<std::vector<float>> expected; // of all sizes of a model, one after another
    for (const Case &c : cases()) {
        const Model m = Model::parse_text("<ir_version: 10, opset_import: [\"\" : 20]> g " + c.text, c.name);
        ModelLibraryOptions options;
        options.name = c.name, options.targets = targets, options.ranges = c.sizes;
        add_model(library, m, options);
        const LibraryModel &made = library.models.back();
        std::ofstream in(folder / (c.name + ".in"), std::ios::binary);
        expected.emplace_back();
        for (const std::vector<int64_t> &sizes : c.at) {
            std::vector<Buffer<>> inputs;
            for (const LibraryTensor &t : made.inputs) {
                inputs.push_back(input_of(t, variables_of(made, sizes), uint32_t(inputs.size())));
                add_bytes(in, inputs.back());
            }
            for (const Buffer<> &output : evaluate(m, inputs)) {
                const Buffer<> dense = output.copy();
                const auto *from = static_cast<const float *>(dense.data());
                expected.back().insert(expected.back().end(), from, from + dense.number_of_elements());
            }
        }
        text += runner(made, c, c.name + ".in", c.name + ".out");
        calls += fmt::format("    run_{}();\n", c.name);
    }
    build_library(library, folder.string());
    std::ofstream(folder / "app.c") << text << "int main(void) {\n" << calls << "    return 0;\n}\n";
    const std::string in_folder = "cd " + folder.string() + " && ";
    CHECK_EQ(must_run(in_folder +
                      "cc -std=gnu11 -g -fsanitize=address,undefined app.c libopen.a -lm -lpthread -o app && "
                      "./app"),
             "");
    for (size_t n = 0; n < expected.size(); n++) {
        CAPTURE(cases()[n].name);
        const std::string bytes = read(folder / (cases()[n].name + ".out"));
        REQUIRE_EQ(bytes.size(), expected[n].size() * sizeof(float));
        for (size_t i = 0; i < expected[n].size(); i++) {
            float value;
            std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
            if (std::abs(value - expected[n][i]) <= 1e-5f * (1 + std::abs(expected[n][i]))) continue;
            FAIL_CHECK(i << ": " << value << " and " << expected[n][i]);
            break;
        }
    }
    must_run(in_folder + "cc open_selftest.c libopen.a -lm -lpthread -o selftest && ./selftest");
}

} // namespace

TEST_CASE("a library runs a model at all sizes of its ranges") { check({"host"}, "host"); }

TEST_CASE("a library for several targets runs a model at all sizes") { check({"host", "x86-64-sse4.2"}, "targets"); }

TEST_CASE("sizes out of range are refused, small sizes have small arenas, and hooks see actual extents") {
    LibraryDescription library;
    library.name = "open";
    ModelLibraryOptions options;
    options.name = "part", options.ranges = {{"s", 8, 1024, 8}};
    add_model(library,
              Model::parse_text("<ir_version: 10, opset_import: [\"\" : 20]> g (float[s,4] x) => (float[s,1] y) "
                                "{ e = Exp(x) t = Softmax <axis = 0> (e) a = Constant <value = int64[1] {1}> () "
                                "y = ReduceSum(t, a) }",
                                "m"),
              options);
    const fs::path folder = scratch("graph_open", "sizes");
    build_library(library, folder.string());
    const std::string header = read(folder / "open.h");
    CHECK_NE(header.find("    int64_t s; /* \"s\": 8 to 1024 in steps of 8 */"), std::string::npos);
    CHECK_NE(header.find("/* input \"x\": f32[8 * (s / 8), 4] */"), std::string::npos);
    CHECK_NE(header.find("int64_t part_arena_bytes(const part_sizes *sizes);"), std::string::npos);
    std::ofstream(folder / "app.c") << common << R"(
static void dump(void *user, const kumiko_tensor *t) {
    if (!strcmp(t->name, "y")) printf("y[%lld,%lld]\n", (long long)t->extents[0], (long long)t->extents[1]);
}
int main(void) {
    part_sizes sizes = {1024};
    const int64_t most = part_arena_bytes(&sizes);
    sizes.s = 16;
    const int64_t few = part_arena_bytes(&sizes);
    printf("%d %d\n", most <= PART_ARENA_BYTES_MOST, few > 0 && few < most / 16);
    part_io io = {array(16 * 16), array(16 * 4), &sizes};
    memset((void *)io.x, 0, 16 * 16);
    kumiko_context context = {.dump = dump};
    void *arena = array((size_t)few);
    const int code = part_run(&io, arena, &context);
    printf("%d %g\n", code, io.y[15]);
    for (int64_t s = 0; s < 1040; s += 1039) {
        sizes.s = s;
        printf("%d %s\n", part_run(&io, arena, NULL), open_error());
    }
    sizes.s = 12;
    printf("%lld %s\n", (long long)part_arena_bytes(&sizes), open_error());
    io.sizes = NULL;
    printf("%d %s\n", part_run(&io, arena, NULL), open_error());
    return 0;
}
)";
    CHECK_EQ(must_run("cd " + folder.string() + " && cc -std=gnu11 app.c libopen.a -lm -lpthread -o app && ./app"),
             "1 1\ny[16,1]\n0 0.25\n"
             "2 part_run: the size s is out of range; legal are 8 to 1024 in steps of 8\n"
             "2 part_run: the size s is out of range; legal are 8 to 1024 in steps of 8\n"
             "-1 part_arena_bytes: the size s is out of range; legal are 8 to 1024 in steps of 8\n"
             "1 part_run: sizes is a null pointer\n");
}
